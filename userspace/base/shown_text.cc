#include "userspace/base/shown_text.h"

#include <algorithm>
#include <iterator>

#include "userspace/base/utf8.h"

namespace proftrace {
namespace {

struct CodePoints {
  char32_t first;
  char32_t last;
};

// Ranges of unshowable characters behind ASCII, in ascending order.
constexpr CodePoints kUnshowable[] = {
    {0x80, 0x9F},        // C1
    {0xAD, 0xAD},        // soft hyphen
    {0x61C, 0x61C},      // Arabic letter mark
    {0x180E, 0x180E},    // Mongolian vowel separator
    {0x200B, 0x200F},    // without width; marks of direction
    {0x2028, 0x202E},    // separators of lines and paragraphs; embeddings and overrides
    {0x2060, 0x206F},    // without width; isolates
    {0xFEFF, 0xFEFF},    // byte order mark
    {0xFFF9, 0xFFFB},    // annotations between lines
    {0xE0000, 0xE007F},  // tags
};

void AppendHex(char32_t value, int digits, std::string* text) {
  for (int shift = 4 * (digits - 1); shift >= 0; shift -= 4) {
    text->push_back("0123456789abcdef"[value >> shift & 15]);
  }
}

void AppendEscaped(std::string_view character, std::string* text) {
  const char32_t code = CodePointOf(character);
  text->push_back('\\');
  if (code == '\n' || code == '\t' || code == '\r') {
    text->push_back(code == '\n' ? 'n' : code == '\t' ? 't' : 'r');
  } else if (code < 0x100) {
    text->push_back('x');
    AppendHex(code, 2, text);
  } else if (code < 0x10000) {
    text->push_back('u');
    AppendHex(code, 4, text);
  } else {
    text->push_back('U');
    AppendHex(code, 8, text);
  }
}

std::string Shown(std::string_view text, bool keeps_line_ends) {
  std::string shown;
  shown.reserve(text.size());
  ForEachCharacter(text, [&](std::string_view character) {
    if (IsUnshowable(character) && !(keeps_line_ends && character == "\n")) {
      AppendEscaped(character, &shown);
    } else {
      shown += character;
    }
  });
  return shown;
}

}  // namespace

bool IsUnshowable(std::string_view character) {
  if (character.size() == 1) {
    const auto byte = static_cast<unsigned char>(character[0]);
    return byte < 0x20 || byte == 0x7F;
  }
  const char32_t code = CodePointOf(character);
  const auto* after = std::upper_bound(
      std::begin(kUnshowable), std::end(kUnshowable), code,
      [](char32_t value, const CodePoints& points) { return value < points.first; });
  return after != std::begin(kUnshowable) && code <= (after - 1)->last;
}

std::string ShownText(std::string_view text) { return Shown(text, /*keeps_line_ends=*/false); }

std::string ShownLines(std::string_view text) { return Shown(text, /*keeps_line_ends=*/true); }

}  // namespace proftrace
