// Reads and writes the memory of a process through /proc/PID/mem. That works also where the process
// itself may not write, such as in its code. Stops nobody.
#pragma once

#include <absl/status/statusor.h>

#include <cstddef>
#include <cstdint>

#include "symbols/process/process_memory.h"
#include "userspace/base/unique_fd.h"
#include "userspace/model/ids.h"

namespace proftrace {

class WritableMemory final : public TargetMemory {
 public:
  // Opens the memory of a process. Fails with kNoTarget, or kNotPermitted.
  static absl::StatusOr<WritableMemory> Open(Pid pid);

  // Reads all of the bytes; returns false if that fails.
  bool Read(uint64_t address, void* buffer, size_t bytes) const override;
  bool Write(uint64_t address, const void* buffer, size_t bytes) const;

  template <typename T>
  bool ReadValue(uint64_t address, T* value) const {
    return Read(address, value, sizeof(T));
  }
  template <typename T>
  bool WriteValue(uint64_t address, const T& value) const {
    return Write(address, &value, sizeof(T));
  }

 private:
  explicit WritableMemory(UniqueFd fd) : fd_(std::move(fd)) {}
  UniqueFd fd_;
};

}  // namespace proftrace
