#include "symbols/torch/thread_variable.h"

namespace proftrace {

std::optional<ThreadVariable> VariableAt(const Value& value, size_t loads) {
  if (value.base != Value::kThreadLocal || value.offsets.size() != 2 + loads) return std::nullopt;
  if (loads == 1 && value.offsets[2] != 0) return std::nullopt;
  return ThreadVariable{static_cast<uint64_t>(value.offsets[0]), value.offsets[1]};
}

}  // namespace proftrace
