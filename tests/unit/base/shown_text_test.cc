// What a traced program is called does nothing to the terminal of whoever traces it.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "userspace/base/shown_text.h"
#include "userspace/base/utf8.h"

namespace proftrace {
namespace {

TEST(ShownTextTest, CommandsOfTerminalsAreWords) {
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"aten::add", "aten::add"},
      {"a\nb\tc\rd", "a\\nb\\tc\\rd"},
      {"\x1b[2J", "\\x1b[2J"},
      {"\x1b]0;title\x07", "\\x1b]0;title\\x07"},  // OSC
      {"\x7f", "\\x7f"},
      {"\xC2\x9B"
       "31m",
       "\\x9b31m"},  // CSI as one character
      {"\xC2\x9D"
       "0;title\xC2\x9C",
       "\\x9d0;title\\x9c"},     // OSC as one character
      {"\x9B", "\xEF\xBF\xBD"},  // C1 as a lone byte
      {std::string("a\0b", 3),
       "a\xEF\xBF\xBD"
       "b"},
      {"ok\xE2\x80\xAEgpj.exe", "ok\\u202egpj.exe"},                  // from right to left
      {"\xE2\x81\xA6x\xE2\x81\xA9", "\\u2066x\\u2069"},               // isolates
      {"\xD8\x9C\xE2\x80\x8E\xE2\x80\x8F", "\\u061c\\u200e\\u200f"},  // marks of direction
      {"a\xE2\x80\x8B"
       "b\xEF\xBB\xBF",
       "a\\u200bb\\ufeff"},                            // no width
      {"\xE2\x80\xA8\xE2\x80\xA9", "\\u2028\\u2029"},  // line ends
      {"\xF3\xA0\x81\x81", "\\U000e0041"},             // a tag
      {"\xE6\x97\xA5\xE6\x9C\xAC \xF0\x9F\x94\xA5 \xC3\xBC",
       "\xE6\x97\xA5\xE6\x9C\xAC \xF0\x9F\x94\xA5 \xC3\xBC"},
      {"\xE2\x80", "\xEF\xBF\xBD"},
  };
  for (const auto& [text, shown] : cases) {
    EXPECT_EQ(ShownText(text), shown);
    EXPECT_EQ(ShownText(shown), shown) << "it is shown as it is";
  }
}

TEST(ShownTextTest, LinesKeepTheirEndsAlone) {
  EXPECT_EQ(ShownLines("a\nb\x1b[1m\r\n"), "a\nb\\x1b[1m\\r\n");
}

// Every code point is either shown as it is or escaped as ASCII.
TEST(ShownTextTest, NoCharacterIsHalfShown) {
  const auto encode = [](char32_t code) {
    std::string bytes;
    if (code < 0x80) {
      bytes.push_back(static_cast<char>(code));
    } else if (code < 0x800) {
      bytes.push_back(static_cast<char>(0xC0 | code >> 6));
    } else if (code < 0x10000) {
      bytes.push_back(static_cast<char>(0xE0 | code >> 12));
    } else {
      bytes.push_back(static_cast<char>(0xF0 | code >> 18));
      bytes.push_back(static_cast<char>(0x80 | (code >> 12 & 0x3F)));
    }
    if (code >= 0x800) bytes.push_back(static_cast<char>(0x80 | (code >> 6 & 0x3F)));
    if (code >= 0x80) bytes.push_back(static_cast<char>(0x80 | (code & 0x3F)));
    return bytes;
  };
  size_t escaped = 0;
  for (char32_t code = 1; code < 0x110000; ++code) {
    if (code == 0xD800) code = 0xE000;
    const std::string character = encode(code);
    ASSERT_EQ(CodePointOf(character), code);
    const std::string shown = ShownText(character);
    if (shown == character) continue;
    ++escaped;
    ASSERT_EQ(shown[0], '\\') << static_cast<uint32_t>(code);
    ASSERT_TRUE(IsUnshowable(character));
  }
  EXPECT_EQ(escaped, 31u + 1 + 32 + 3 + 5 + 7 + 16 + 1 + 3 + 128);
}

}  // namespace
}  // namespace proftrace
