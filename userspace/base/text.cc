#include "userspace/base/text.h"

namespace proftrace {

std::vector<std::string_view> SplitText(std::string_view text, std::string_view separators,
                                        bool skip_empty) {
  std::vector<std::string_view> pieces;
  while (true) {
    const size_t at = text.find_first_of(separators);
    const std::string_view piece = text.substr(0, at);
    if (!piece.empty() || !skip_empty) pieces.push_back(piece);
    if (at == std::string_view::npos) return pieces;
    text.remove_prefix(at + 1);
  }
}

std::string_view StripBlanks(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r\n";
  const size_t first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

}  // namespace proftrace
