// The code of one function as it lies in the file: every instruction, those included that only
// exceptions reach, and every place to which the function itself jumps.
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
  // Decodes [start, end) from the start on. Fails where the last instruction does not end at `end`,
  // or where an indirect jump leads to unknown places, because it is neither a jump through a table
  // as compilers write them nor a call that ends the function.
  static absl::StatusOr<FunctionCode> Read(const CodeImage& image, uint64_t start, uint64_t end);

  uint64_t start() const { return start_; }
  uint64_t end() const { return end_; }
  const std::vector<Instruction>& instructions() const { return instructions_; }
  // Returns the index of the instruction that begins at `address`; nullopt: none does.
  std::optional<size_t> IndexAt(uint64_t address) const;

  // Whether any code jumps to `address`. Places to which other code jumps must have been added
  // before.
  bool IsTarget(uint64_t address) const;
  // Whether any code jumps to a place in (first, last).
  bool HasTargetInside(uint64_t first, uint64_t last) const;
  // Adds places to which other functions or the unwinder jump.
  void AddTargets(const std::vector<uint64_t>& addresses);

  // Whether the function may use memory below the stack pointer. Only functions without calls, and
  // those whose code names such memory, do.
  bool may_use_red_zone() const { return may_use_red_zone_; }
  // Whether the function calls a function of another file, or through a pointer. If not, a caller
  // in its own file may know which registers the function leaves unchanged (GCC's -fipa-ra).
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

// Whether the instruction looks like a call through a TLS descriptor, call *(%rax), which changes
// no register but rax.
bool IsDescriptorCall(const Instruction& instruction);

}  // namespace proftrace
