// C++ names as people write them.
#pragma once

#include <optional>
#include <string>

namespace proftrace {

// What a mangled symbol, or the mangled name of a type, stands for (Itanium C++ ABI, section 5.1);
// nothing if it is not one, or is longer than 64 KiB (of a mangled name: 16 KiB).
std::optional<std::string> Demangle(const std::string& mangled);

}  // namespace proftrace
