// Compares two places on a thread's stack by the low halves of their addresses, as records have
// them.
#pragma once

#include <cstdint>

namespace proftrace {

inline bool IsBelow(uint32_t a, uint32_t b) { return static_cast<int32_t>(a - b) < 0; }

}  // namespace proftrace
