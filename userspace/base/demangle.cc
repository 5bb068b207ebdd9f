#include "userspace/base/demangle.h"

#include <cxxabi.h>

#include <cstdlib>
#include <memory>

namespace proftrace {

std::optional<std::string> Demangle(const std::string& mangled) {
  int status = 0;
  const std::unique_ptr<char, decltype(&std::free)> demangled(
      abi::__cxa_demangle(mangled.c_str(), nullptr, nullptr, &status), &std::free);
  if (status != 0 || demangled == nullptr) return std::nullopt;
  return std::string(demangled.get());
}

}  // namespace proftrace
