// Tells where this program is, for commands that messages tell users to type: sudo does not search
// the directories of a Python virtual environment.
#pragma once

#include <string>

namespace proftrace {

// Returns the path of this program; its name alone where the path cannot be read.
std::string OwnPath();

}  // namespace proftrace
