// The system calls of x86-64 by name.
#pragma once

#include <cstdint>
#include <string>

namespace proftrace {

// "futex"; "system call 999" for one that this build does not know.
std::string SystemCallName(uint64_t number);

}  // namespace proftrace
