// The code of one function as it lies in the file: every instruction, also those that only
// exceptions reach, and every place that something inside jumps to.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <optional>
#include <vector>

#include "symbols/elf/code_image.h"
#include "symbols/x86/instruction.h"

namespace proftrace {

class FunctionCode {
 public:
  // Decodes [start, end) from the start on. Fails where that does not end at `end`, or where an
  // indirect jump leads to unknown places: it is neither through a table as compilers write them
  // nor a call that ends the function.
  static absl::StatusOr<FunctionCode> Read(const CodeImage& image, uint64_t start, uint64_t end);

  uint64_t start() const { return start_; }
  uint64_t end() const { return end_; }
  const std::vector<Instruction>& instructions() const { return instructions_; }
  // Returns the index of the instruction that begins at `address`; nullopt: none does.
  std::optional<size_t> IndexAt(uint64_t address) const;

  // Whether something jumps to `address`. All such places must have been added before.
  bool IsTarget(uint64_t address) const;
  // Whether something jumps to a place in (first, last).
  bool HasTargetInside(uint64_t first, uint64_t last) const;
  // Adds places that something elsewhere jumps to: other functions, the unwinder.
  void AddTargets(const std::vector<uint64_t>& addresses);

  // Whether memory below the stack pointer may be in use: only by functions without calls, and by
  // those whose code names it.
  bool may_use_red_zone() const { return may_use_red_zone_; }
  // Whether it calls a function of another file, or through a pointer. If not, a caller in its own
  // file may know which registers it leaves alone (GCC's -fipa-ra).
  bool calls_elsewhere() const { return calls_elsewhere_; }

 private:
  absl::Status AddTableTargets(const CodeImage& image, size_t jump);
  void LookAtCalls(const CodeImage& image);

  uint64_t start_ = 0;
  uint64_t end_ = 0;
  std::vector<Instruction> instructions_;
  std::vector<uint64_t> targets_;  // ascending
  bool may_use_red_zone_ = true;
  bool calls_elsewhere_ = false;
};

// Whether the instruction looks like a call through a TLS descriptor, call *(%rax), which leaves
// all registers but rax alone.
bool IsDescriptorCall(const Instruction& instruction);

}  // namespace proftrace
