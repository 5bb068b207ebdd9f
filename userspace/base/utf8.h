// The characters of a text whose bytes may be no well-formed UTF-8.
#pragma once

#include <cstdint>
#include <string_view>

namespace proftrace {

// U+FFFD, which stands for bytes that are no text.
inline constexpr std::string_view kReplacementCharacter = "\xEF\xBF\xBD";

// Returns the length of the well-formed sequence at the front of `text`, which is not empty
// (Unicode 15, table 3-7); 0 when it is ill-formed, and then `invalid` is the length of the maximal
// subpart to replace.
size_t Utf8Length(std::string_view text, size_t* invalid);

// Returns the code point of a well-formed sequence.
char32_t CodePointOf(std::string_view character);

// Calls visit(sequence) for each well-formed sequence except NUL, and visit(U+FFFD) for NUL and for
// each ill-formed sequence.
template <typename Visitor>
void ForEachCharacter(std::string_view text, Visitor&& visit) {
  while (!text.empty()) {
    size_t invalid = 1;
    const size_t length = text[0] == '\0' ? 0 : Utf8Length(text, &invalid);
    visit(length == 0 ? kReplacementCharacter : text.substr(0, length));
    text.remove_prefix(length == 0 ? invalid : length);
  }
}

}  // namespace proftrace
