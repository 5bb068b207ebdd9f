#include "symbols/elf/code_image.h"

#include "absl/strings/str_format.h"
#include "userspace/base/demangle.h"

namespace proftrace {

std::string SymbolOf(const FunctionRange& range) {
  return range.name.empty() ? absl::StrFormat("sub_%x", range.start) : std::string(range.name);
}

std::string ReadableName(const std::string& symbol) { return Demangle(symbol).value_or(symbol); }

}  // namespace proftrace
