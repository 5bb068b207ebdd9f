// Capabilities and limits that a process has no use for.
#pragma once

#include <cstdint>
#include <initializer_list>

namespace proftrace {

// Neither a program with the set-user-ID bit nor anything else gives this process a right that it
// does not have.
bool NoNewRights();

// All capabilities but `kept` (CAP_…) are given up for good.
bool DropCapabilities(std::initializer_list<int> kept);

// No core file, no more than that much processor time from here on, and no more memory than the
// machine has, beside what is mapped already.
void LimitUse(int64_t cpu_s);

}  // namespace proftrace
