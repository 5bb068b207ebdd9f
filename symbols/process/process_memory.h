// Reads the memory of another process. Nothing that was read there may be trusted.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "userspace/model/ids.h"

namespace proftrace {

struct MemoryRange {
  uint64_t address = 0;
  uint64_t bytes = 0;
};

// The memory of one process. An interface, so that tests can use made-up memory.
class TargetMemory {
 public:
  virtual ~TargetMemory() = default;
  // Fills all `bytes` at `buffer` from `address`, or returns false.
  virtual bool Read(uint64_t address, void* buffer, size_t bytes) const = 0;

  std::optional<uint64_t> ReadWord(uint64_t address) const;
};

// Reads by process_vm_readv(2), which needs CAP_SYS_PTRACE or the same user and does not stop the
// process. A worker reads /proc/PID/mem instead.
class ProcessMemory final : public TargetMemory {
 public:
  explicit ProcessMemory(Pid pid) : pid_(pid) {}
  bool Read(uint64_t address, void* buffer, size_t bytes) const override;

 private:
  Pid pid_;
};

// Closes the descriptor by which a worker reads a process's memory. To be called when the process
// has ended or runs another program.
void ForgetMemory(Pid pid);

// Returns the characters of the std::string at `address`: {pointer, length, …} of the C++11 ABI, or
// with `old_abi` the single pointer of the pre-C++11 ABI with the length 24 bytes before the
// characters. nullopt: it cannot be read, or is longer than `limit_bytes`.
std::optional<std::string> ReadStdString(const TargetMemory& memory, uint64_t address, bool old_abi,
                                         size_t limit_bytes);

}  // namespace proftrace
