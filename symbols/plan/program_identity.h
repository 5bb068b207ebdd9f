// Identifies this build of the program.
#pragma once

#include <string>

namespace proftrace {

// Returns the build-ids of this program and of the disassembler that it runs with, in hex; empty
// where one of the two has no build-id.
const std::string& ProgramIdentity();

}  // namespace proftrace
