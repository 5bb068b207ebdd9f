// Arguments of system calls that have names, as the kernel's headers and the manual have them.
#pragma once

#include <cstdint>
#include <string>

#include "userspace/model/system_calls.h"

namespace proftrace {

// Whether FlagsText has names for arguments of this kind.
bool HasFlagsText(ArgumentKind kind);

// "O_WRONLY|O_CREAT|0x80000000": names of bits and of values, what is left in hex; a value without
// a name as a number, and 0 without a name as "0". kMode: "0644". Kinds without names: in hex.
std::string FlagsText(ArgumentKind kind, uint64_t value);

// "0x7f0012345678".
std::string HexText(uint64_t value);

}  // namespace proftrace
