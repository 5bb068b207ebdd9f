#include "userspace/base/text.h"

#include <algorithm>

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

std::string_view WithoutCutCharacter(std::string_view text) {
  constexpr size_t kLongest = 4;
  for (size_t back = 1; back <= std::min(kLongest, text.size()); ++back) {
    const auto byte = static_cast<unsigned char>(text[text.size() - back]);
    if ((byte & 0xc0) == 0x80) continue;  // not its first byte
    const size_t bytes = byte < 0xc0 ? 1 : byte < 0xe0 ? 2 : byte < 0xf0 ? 3 : 4;
    return bytes > back ? text.substr(0, text.size() - back) : text;
  }
  return text;
}

std::string OneOrMore(uint64_t count, std::string_view one, std::string_view more) {
  std::string text = std::to_string(count) + " ";
  return text.append(count == 1 ? one : more);
}

}  // namespace proftrace
