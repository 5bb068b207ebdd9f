// Finds copies of instructions: in a free-threaded CPython each thread may run its own copy of a
// code object's instructions. The code behind jumps does not read where the copy begins, because
// other threads may free the table that tells it at any moment. Instead, proftrace reads that table
// from outside when a jump's record names the code object.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>

#include "bpf/abi/python_records.h"
#include "symbols/process/process_memory.h"
#include "userspace/capture/targets/target_reader.h"
#include "userspace/model/ids.h"

namespace proftrace {

// Returns how far copy number `copy` of a code object's instructions lies behind the instructions
// themselves, in units of two bytes and modulo 2^32, like the numbers of instructions. nullopt
// where there is no such copy.
std::optional<uint32_t> ReadDistanceOfCopy(const TargetMemory& memory,
                                           const abi::pt_python_layout& layout, uint64_t code,
                                           uint32_t copy);

// May be used by several threads.
class CodeCopies {
 public:
  CodeCopies();

  void SetLayout(Pid pid, const abi::pt_python_layout& layout);
  void Forget(Pid pid);
  // Has a worker run ReadDistanceOfCopy(), and returns its result; 0 for copy 0.
  std::optional<uint32_t> DistanceOf(Pid pid, uint64_t code, uint32_t copy);

 private:
  std::mutex mutex_;
  std::map<uint32_t, abi::pt_python_layout> layouts_;  // by pid
  TargetReader reader_;
};

}  // namespace proftrace
