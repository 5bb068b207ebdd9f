// C++ names as people write them.
#pragma once

#include <optional>
#include <string>

namespace proftrace {

// Returns what a mangled symbol, or the mangled name of a type, stands for (Itanium C++ ABI,
// section 5.1); nullopt where it is neither, or longer than 64 KiB (a mangled name: 16 KiB).
std::optional<std::string> Demangle(const std::string& mangled);

}  // namespace proftrace
