// Turns mangled C++ names into the names that people write.
#pragma once

#include <optional>
#include <string>

namespace proftrace {

// Returns the C++ name that a mangled symbol, or the mangled name of a type, stands for (Itanium
// C++ ABI, section 5.1). nullopt: the text is neither, or is longer than 16 KiB, or its demangled
// name is longer than 64 KiB.
std::optional<std::string> Demangle(const std::string& mangled);

}  // namespace proftrace
