// Finds the native frames of a thread from its registers and a copy of its stack: by the unwind
// tables of the mapped files (libdw), and by frame pointers where there are no tables.
//
// The files belong to a process that may be hostile, so that they are read and never mapped. An
// object is for one thread.
#pragma once

#include <absl/status/statusor.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "bpf/abi/sample_records.h"
#include "symbols/elf/native_symbols.h"
#include "userspace/model/ids.h"

namespace proftrace {

struct NativeFunction {
  // Demangled, without parameters; empty where the file has no symbol there.
  std::string name;
  std::string file;  // as /proc/PID/maps names it; empty = no file
};

class NativeUnwinder {
 public:
  static constexpr size_t kMostFrames = 256;

  // Makes an unwinder for a process. Fails where there is no such process, or its maps may not be
  // read. `symbols` must outlive the unwinder; unwinders of several processes may share it.
  static absl::StatusOr<std::unique_ptr<NativeUnwinder>> Create(Pid pid, NativeSymbols* symbols);
  ~NativeUnwinder();
  NativeUnwinder(const NativeUnwinder&) = delete;
  NativeUnwinder& operator=(const NativeUnwinder&) = delete;

  // Returns an address in each running function, innermost first; in a caller, the address lies in
  // the call instruction. `stack` begins at registers.sp. `is_whole`: whether the outermost frame
  // was reached.
  std::vector<uint64_t> Unwind(const abi::pt_user_registers& registers,
                               std::span<const uint8_t> stack, bool* is_whole);
  // Returns the function at an address that Unwind() gave.
  NativeFunction FunctionAt(uint64_t address);
  // Returns a number that changes when the files of the process were read anew, after which
  // addresses may belong to other functions.
  uint64_t generation() const;

 private:
  struct Impl;
  NativeUnwinder(Pid pid, NativeSymbols* symbols);
  std::unique_ptr<Impl> impl_;
};

}  // namespace proftrace
