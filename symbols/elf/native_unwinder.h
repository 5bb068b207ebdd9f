// Finds the native frames of a thread, from its registers and a copy of its stack: by the unwind
// tables of the files that are mapped (libdw), and where those say nothing, by frame pointers.
//
// Files belong to the process, which may be hostile: they are read, never mapped. For one thread.
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

  // Fails where there is no such process, or its maps may not be read. `symbols` must outlive this;
  // several processes may share it.
  static absl::StatusOr<std::unique_ptr<NativeUnwinder>> Create(Pid pid, NativeSymbols* symbols);
  ~NativeUnwinder();
  NativeUnwinder(const NativeUnwinder&) = delete;
  NativeUnwinder& operator=(const NativeUnwinder&) = delete;

  // Returns addresses in the functions that run, innermost first: in a caller, one within the call.
  // `stack` begins at registers.sp. `is_whole`: the outermost frame was reached.
  std::vector<uint64_t> Unwind(const abi::pt_user_registers& registers,
                               std::span<const uint8_t> stack, bool* is_whole);
  // Returns the function at an address that Unwind() gave.
  NativeFunction FunctionAt(uint64_t address);
  // Changes when the process has mapped other files: addresses may mean something else then.
  uint64_t generation() const;

 private:
  struct Impl;
  NativeUnwinder(Pid pid, NativeSymbols* symbols);
  std::unique_ptr<Impl> impl_;
};

}  // namespace proftrace
