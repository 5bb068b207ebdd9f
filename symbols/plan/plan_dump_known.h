// plan_dump's part for the entries of known_plans.h.
#pragma once

namespace proftrace {

// Writes the entry of a library to standard output. Returns an exit code.
int WriteKnownPlan(const char* library);
// Compares the entry that is shipped with what the analysis finds now. Returns 0: equal; 77: none
// is shipped; 1: it differs.
int CheckKnownPlan(const char* library);

}  // namespace proftrace
