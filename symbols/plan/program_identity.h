// What tells this build of the program from every other one.
#pragma once

#include <string>

namespace proftrace {

// Returns the build-ids of this program and of the disassembler that it runs with, in hex; empty
// where one of them has none.
const std::string& ProgramIdentity();

}  // namespace proftrace
