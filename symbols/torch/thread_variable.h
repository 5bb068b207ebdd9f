// A thread_local variable of a library, as its code finds it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "symbols/x86/value_walk.h"

namespace proftrace {

// As __tls_get_addr finds it.
struct ThreadVariable {
  uint64_t index = 0;  // address (before relocation) of its tls_index; 0 = not found
  int64_t offset = 0;  // from the address that __tls_get_addr gives for it

  bool known() const { return index != 0; }
};

// Returns the variable whose address (`loads` 0) or value (1) a value in a walk is; nullopt: it is
// none.
std::optional<ThreadVariable> VariableAt(const Value& value, size_t loads);

}  // namespace proftrace
