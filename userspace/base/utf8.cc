#include "userspace/base/utf8.h"

namespace proftrace {
namespace {

bool IsContinuation(unsigned char byte) { return (byte & 0xC0) == 0x80; }

}  // namespace

size_t Utf8Length(std::string_view text, size_t* invalid) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  *invalid = 1;
  const unsigned char lead = byte(0);
  if (lead < 0x80) return 1;
  size_t length = 0;
  unsigned char low = 0x80;
  unsigned char high = 0xBF;
  if (lead >= 0xC2 && lead <= 0xDF) {
    length = 2;
  } else if (lead >= 0xE0 && lead <= 0xEF) {
    length = 3;
    if (lead == 0xE0) low = 0xA0;
    if (lead == 0xED) high = 0x9F;  // no surrogates
  } else if (lead >= 0xF0 && lead <= 0xF4) {
    length = 4;
    if (lead == 0xF0) low = 0x90;
    if (lead == 0xF4) high = 0x8F;  // no more than U+10FFFF
  } else {
    return 0;
  }
  if (text.size() < 2 || byte(1) < low || byte(1) > high) return 0;
  for (size_t i = 2; i < length; ++i) {
    *invalid = i;
    if (text.size() <= i || !IsContinuation(byte(i))) return 0;
  }
  return length;
}

char32_t CodePointOf(std::string_view character) {
  const auto lead = static_cast<unsigned char>(character[0]);
  if (character.size() == 1) return lead;
  char32_t code = lead & (0x7F >> character.size());
  for (const char byte : character.substr(1)) code = code << 6 | (byte & 0x3F);
  return code;
}

}  // namespace proftrace
