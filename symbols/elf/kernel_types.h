// Reads the C++ types of operators' kernels, as the Dispatcher keeps them
// (OperatorEntry::cpp_signature_).
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "symbols/process/process_memory.h"

namespace proftrace {

class KernelTypes {
 public:
  // `memory` must outlive this.
  explicit KernelTypes(const TargetMemory& memory) : memory_(memory) {}

  // Returns the mangled type of an operator's kernels ("FN2at6TensorERKS0_E"); nullopt: the
  // operator has no kernels, or only boxed ones.
  std::optional<std::string> TypeOf(uint64_t operator_def);

 private:
  std::optional<std::string> TypeAt(uint64_t address) const;

  const TargetMemory& memory_;
  // The offset of the std::type_info* in an OperatorDef. It is searched in the first one that has
  // it, and is the same in all; 0 = not found yet.
  uint64_t offset_ = 0;
};

}  // namespace proftrace
