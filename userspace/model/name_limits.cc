#include "userspace/model/name_limits.h"

#include <algorithm>

namespace proftrace {
namespace {

constexpr size_t kShortestHex = 8;  // digits; shorter texts may be words: "add2"

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsHex(char c) { return IsDigit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }
bool IsOfWord(char c) {
  return IsDigit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
         static_cast<unsigned char>(c) >= 0x80;
}

size_t LengthWhile(std::string_view text, bool (*is_part)(char)) {
  return static_cast<size_t>(std::find_if_not(text.begin(), text.end(), is_part) - text.begin());
}

// Returns the length in bytes of a UUID at the front of `text` (RFC 9562, section 4); 0: there is
// none.
size_t UuidLength(std::string_view text) {
  constexpr size_t kParts[] = {8, 4, 4, 4, 12};
  size_t at = 0;
  for (const size_t part : kParts) {
    if (at > 0 && (at >= text.size() || text[at++] != '-')) return 0;
    if (LengthWhile(text.substr(std::min(at, text.size())), IsHex) != part) return 0;
    at += part;
  }
  return at < text.size() && IsOfWord(text[at]) ? 0 : at;
}

// Returns the length in bytes of a decimal number at the front of `text`, with its fraction and
// exponent; 0: there is none.
size_t NumberLength(std::string_view text) {
  size_t length = LengthWhile(text, IsDigit);
  while (length + 1 < text.size() && text[length] == '.' && IsDigit(text[length + 1])) {
    length += 1 + LengthWhile(text.substr(length + 1), IsDigit);
  }
  if (length + 2 < text.size() && (text[length] == 'e' || text[length] == 'E') &&
      (text[length + 1] == '-' || text[length + 1] == '+') && IsDigit(text[length + 2])) {
    length += 2 + LengthWhile(text.substr(length + 2), IsDigit);
  }
  return length;
}

// Returns the length in bytes of a hexadecimal number that is the whole word at the front of
// `text`; 0: there is none.
size_t HexLength(std::string_view text) {
  const size_t length = LengthWhile(text, IsOfWord);
  const std::string_view word = text.substr(0, length);
  const bool has_prefix = length > 2 && word[0] == '0' && (word[1] == 'x' || word[1] == 'X');
  if (has_prefix && LengthWhile(word.substr(2), IsHex) == length - 2) return length;
  const bool is_hex = length >= kShortestHex && LengthWhile(word, IsHex) == length &&
                      std::any_of(word.begin(), word.end(), IsDigit);
  return is_hex ? length : 0;
}

}  // namespace

std::optional<std::string> GroupOfName(std::string_view name) {
  std::string group;
  bool has_number = false;
  for (size_t at = 0; at < name.size();) {
    const std::string_view rest = name.substr(at);
    const bool begins_word = at == 0 || !IsOfWord(name[at - 1]);
    size_t length = begins_word ? std::max(UuidLength(rest), HexLength(rest)) : 0;
    if (length == 0) length = NumberLength(rest);
    if (length == 0) {
      group += name[at++];
      continue;
    }
    has_number = true;
    group += '*';
    at += length;
  }
  if (!has_number) return std::nullopt;
  return group;
}

std::optional<Label> LabelInstead(const Label& label, bool is_group) {
  Label instead = label;
  instead.overload_name.clear();
  if (!is_group) {
    instead.name = kOtherNames;
    return instead;
  }
  std::optional<std::string> group = GroupOfName(label.name);
  if (!group.has_value()) return std::nullopt;
  instead.name = *std::move(group);
  return instead;
}

}  // namespace proftrace
