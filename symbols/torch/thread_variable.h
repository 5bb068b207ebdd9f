// Describes a thread_local variable of a library, as the library's code finds it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "symbols/x86/value_walk.h"

namespace proftrace {

// A variable that is found by __tls_get_addr.
struct ThreadVariable {
  uint64_t index = 0;  // address (before relocation) of its tls_index; 0 = not found
  int64_t offset = 0;  // from the address that __tls_get_addr returns

  bool known() const { return index != 0; }
};

// Returns the variable whose address (`loads` 0) or content (`loads` 1) `value` is; nullopt: it is
// that of no variable.
std::optional<ThreadVariable> VariableAt(const Value& value, size_t loads);

}  // namespace proftrace
