#include "userspace/top/text_grid.h"

#include <algorithm>
#include <iterator>

#include "userspace/base/shown_text.h"
#include "userspace/base/utf8.h"

namespace proftrace {
namespace {

struct CodeRange {
  char32_t first;
  char32_t last;
};

// Combining marks and other characters without a column, in ascending order.
constexpr CodeRange kNarrow[] = {
    {0x300, 0x36F},    {0x483, 0x489},   {0x591, 0x5BD},   {0x610, 0x61A},   {0x64B, 0x65F},
    {0x6D6, 0x6DC},    {0x900, 0x902},   {0x93C, 0x93C},   {0x941, 0x948},   {0xE31, 0xE31},
    {0xE34, 0xE3A},    {0xE47, 0xE4E},   {0x1160, 0x11FF}, {0x1AB0, 0x1AFF}, {0x1DC0, 0x1DFF},
    {0x20D0, 0x20FF},  {0x302A, 0x302D}, {0x3099, 0x309A}, {0xFE00, 0xFE0F}, {0xFE20, 0xFE2F},
    {0xE0100, 0xE01EF}};
constexpr CodeRange kWide[] = {
    {0x1100, 0x115F},   {0x231A, 0x231B},   {0x2329, 0x232A},   {0x23E9, 0x23EC},
    {0x23F0, 0x23F0},   {0x23F3, 0x23F3},   {0x25FD, 0x25FE},   {0x2614, 0x2615},
    {0x2648, 0x2653},   {0x267F, 0x267F},   {0x2693, 0x2693},   {0x26A1, 0x26A1},
    {0x26AA, 0x26AB},   {0x26BD, 0x26BE},   {0x26C4, 0x26C5},   {0x26CE, 0x26CE},
    {0x26D4, 0x26D4},   {0x26EA, 0x26EA},   {0x26F2, 0x26F3},   {0x26F5, 0x26F5},
    {0x26FA, 0x26FA},   {0x26FD, 0x26FD},   {0x2705, 0x2705},   {0x270A, 0x270B},
    {0x2728, 0x2728},   {0x274C, 0x274C},   {0x274E, 0x274E},   {0x2753, 0x2755},
    {0x2757, 0x2757},   {0x2795, 0x2797},   {0x27B0, 0x27B0},   {0x27BF, 0x27BF},
    {0x2B1B, 0x2B1C},   {0x2B50, 0x2B50},   {0x2B55, 0x2B55},   {0x2E80, 0x303E},
    {0x3041, 0x33FF},   {0x3400, 0x4DBF},   {0x4E00, 0x9FFF},   {0xA000, 0xA4CF},
    {0xA960, 0xA97F},   {0xAC00, 0xD7A3},   {0xF900, 0xFAFF},   {0xFE10, 0xFE19},
    {0xFE30, 0xFE6F},   {0xFF00, 0xFF60},   {0xFFE0, 0xFFE6},   {0x16FE0, 0x16FE4},
    {0x17000, 0x18CD5}, {0x1AFF0, 0x1B2FB}, {0x1F004, 0x1F004}, {0x1F0CF, 0x1F0CF},
    {0x1F18E, 0x1F18E}, {0x1F191, 0x1F19A}, {0x1F200, 0x1F320}, {0x1F32D, 0x1F335},
    {0x1F337, 0x1F37C}, {0x1F37E, 0x1F393}, {0x1F3A0, 0x1F3CA}, {0x1F3CF, 0x1F3D3},
    {0x1F3E0, 0x1F3F0}, {0x1F3F4, 0x1F3F4}, {0x1F3F8, 0x1F43E}, {0x1F440, 0x1F440},
    {0x1F442, 0x1F4FC}, {0x1F4FF, 0x1F53D}, {0x1F54B, 0x1F54E}, {0x1F550, 0x1F567},
    {0x1F57A, 0x1F57A}, {0x1F595, 0x1F596}, {0x1F5A4, 0x1F5A4}, {0x1F5FB, 0x1F64F},
    {0x1F680, 0x1F6C5}, {0x1F6CC, 0x1F6CC}, {0x1F6D0, 0x1F6D2}, {0x1F6D5, 0x1F6D7},
    {0x1F6DC, 0x1F6DF}, {0x1F6EB, 0x1F6EC}, {0x1F6F4, 0x1F6FC}, {0x1F7E0, 0x1F7EB},
    {0x1F7F0, 0x1F7F0}, {0x1F90C, 0x1F93A}, {0x1F93C, 0x1F945}, {0x1F947, 0x1F9FF},
    {0x1FA70, 0x1FAFF}, {0x20000, 0x2FFFD}, {0x30000, 0x3FFFD}};

template <size_t count>
bool IsIn(char32_t code, const CodeRange (&ranges)[count]) {
  const auto* after =
      std::upper_bound(std::begin(ranges), std::end(ranges), code,
                       [](char32_t value, const CodeRange& range) { return value < range.first; });
  return after != std::begin(ranges) && code <= (after - 1)->last;
}

// Returns the characters of a text as a grid shows them.
std::vector<char32_t> ShownCodes(std::string_view text, bool is_utf8) {
  std::vector<char32_t> codes;
  const std::string shown = ShownText(text);
  ForEachCharacter(shown, [&](std::string_view character) {
    const char32_t code = CodePointOf(character);
    if (ColumnsOf(code) == 0) return;
    codes.push_back(is_utf8 || code < 0x80 ? code : U'?');
  });
  return codes;
}

}  // namespace

int ColumnsOf(char32_t code) {
  if (code < 0x300) return 1;
  if (IsIn(code, kNarrow)) return 0;
  return IsIn(code, kWide) ? 2 : 1;
}

int ColumnsOf(std::string_view text, bool is_utf8) {
  int columns = 0;
  for (const char32_t code : ShownCodes(text, is_utf8)) columns += ColumnsOf(code);
  return columns;
}

std::vector<std::string_view> WrappedLines(std::string_view text, int columns, bool is_utf8) {
  std::vector<std::string_view> lines;
  while (ColumnsOf(text, is_utf8) > columns) {
    // The longest part that has room, and of that the longest one before a blank.
    size_t room = 1;
    size_t blank = 0;
    for (size_t length = 1; length < text.size(); ++length) {
      const bool is_begin = (static_cast<unsigned char>(text[length]) & 0xC0) != 0x80;
      if (!is_begin) continue;
      if (ColumnsOf(text.substr(0, length), is_utf8) > columns) break;
      room = length;
      if (text[length] == ' ' && text.find_first_not_of(' ') < length) blank = length;
    }
    lines.push_back(text.substr(0, blank > 0 ? blank : room));
    text.remove_prefix(blank > 0 ? blank + 1 : room);
  }
  lines.push_back(text);
  return lines;
}

TextGrid::TextGrid(int rows, int columns, bool is_utf8)
    : rows_(std::max(0, rows)), columns_(std::max(0, columns)), is_utf8_(is_utf8) {
  cells_.resize(static_cast<size_t>(rows_) * static_cast<size_t>(columns_));
}

void TextGrid::Set(int row, int column, const GridCell& cell) {
  if (at(row, column).code == 0) Cell(row, column - 1).code = U' ';
  if (column + 1 < columns_ && at(row, column + 1).code == 0) Cell(row, column + 1).code = U' ';
  Cell(row, column) = cell;
}

int TextGrid::Put(int row, int column, std::string_view text, TextStyle style, int end) {
  if (end < 0 || end > columns_) end = columns_;
  if (row < 0 || row >= rows_ || column < 0) return column;
  const std::vector<char32_t> codes = ShownCodes(text, is_utf8_);
  int left = 0;
  for (const char32_t code : codes) left += ColumnsOf(code);
  const bool is_cut = column + left > end;
  const int stop = is_cut ? end - 1 : end;  // the mark of a cut takes one column
  for (const char32_t code : codes) {
    const int width = ColumnsOf(code);
    if (column + width > stop) break;
    Set(row, column, {code, style});
    if (width == 2) {
      Set(row, column + 1, {U' ', style});
      Cell(row, column + 1).code = 0;
    }
    column += width;
  }
  if (is_cut && column < end) {
    Set(row, column, {is_utf8_ ? U'…' : U'~', style});
    ++column;
  }
  return column;
}

void TextGrid::Paint(int row, int from, int to, TextStyle style) {
  if (row < 0 || row >= rows_) return;
  for (int column = std::max(0, from); column < std::min(to, columns_); ++column) {
    Cell(row, column).style = style;
  }
}

std::string TextGrid::RowText(int row) const {
  std::string text;
  for (int column = 0; column < columns_; ++column) {
    if (const char32_t code = at(row, column).code; code != 0) AppendUtf8(code, &text);
  }
  text.erase(text.find_last_not_of(' ') + 1);
  return text;
}

std::string TextGrid::Text() const {
  std::string text;
  size_t used = 0;
  for (int row = 0; row < rows_; ++row) {
    const std::string of_row = RowText(row);
    text += of_row + "\n";
    if (!of_row.empty()) used = text.size();
  }
  text.resize(used);
  return text;
}

void AppendUtf8(char32_t code, std::string* text) {
  const auto byte = [text](char32_t value) { text->push_back(static_cast<char>(value)); };
  if (code < 0x80) {
    byte(code);
  } else if (code < 0x800) {
    byte(0xC0 | code >> 6);
    byte(0x80 | (code & 0x3F));
  } else if (code < 0x10000) {
    byte(0xE0 | code >> 12);
    byte(0x80 | (code >> 6 & 0x3F));
    byte(0x80 | (code & 0x3F));
  } else {
    byte(0xF0 | code >> 18);
    byte(0x80 | (code >> 12 & 0x3F));
    byte(0x80 | (code >> 6 & 0x3F));
    byte(0x80 | (code & 0x3F));
  }
}

}  // namespace proftrace
