// Where this program is, for commands that users are to type: sudo does not find it in a virtual
// environment.
#pragma once

#include <string>

namespace proftrace {

// Returns its path; its name alone where that cannot be told.
std::string OwnPath();

}  // namespace proftrace
