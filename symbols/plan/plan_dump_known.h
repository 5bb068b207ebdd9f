// The part of plan_dump for the entries of known_plans.h.
#pragma once

namespace proftrace {

// Writes the entry of a library to standard output. Returns an exit code.
int WriteKnownPlan(const char* library);
// Compares the entry that is shipped with the result of the analysis now. Returns 0 where they are
// equal, 77 where no entry is shipped, and 1 where they differ.
int CheckKnownPlan(const char* library);

}  // namespace proftrace
