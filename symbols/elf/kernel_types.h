// The C++ types of operators' kernels, as the Dispatcher notes them
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

  // Returns the mangled type ("FN2at6TensorERKS0_E"); nullopt: it has none, or only boxed kernels.
  std::optional<std::string> TypeOf(uint64_t operator_def);

 private:
  std::optional<std::string> TypeAt(uint64_t address) const;

  const TargetMemory& memory_;
  // Where the std::type_info* is in an OperatorDef: looked for once, then the same in all of them.
  uint64_t offset_ = 0;
};

}  // namespace proftrace
