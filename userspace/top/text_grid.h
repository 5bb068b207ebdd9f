// A screen as a grid of characters: what is drawn into it cannot command the terminal, whatever
// names are in it.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace proftrace {

enum class TextStyle : uint8_t {
  kPlain = 0,
  kBold,
  kReverse,
  kGood,     // colours from here on: green,
  kNotable,  // yellow,
  kBad,      // red,
  kTitle,    // cyan
};

struct GridCell {
  char32_t code = U' ';  // 0: the second half of the wide character before it
  TextStyle style = TextStyle::kPlain;

  bool operator==(const GridCell&) const = default;
};

// Returns how many columns terminals give a character: 0 for marks that go over the one before, 2
// for those of East Asia and pictures (Unicode 15, East Asian Width W and F), else 1.
int ColumnsOf(char32_t code);
// Returns the columns that TextGrid gives a text.
int ColumnsOf(std::string_view text, bool is_utf8);

class TextGrid {
 public:
  // `is_utf8`: false: what is not ASCII becomes '?'.
  TextGrid(int rows, int columns, bool is_utf8);

  int rows() const { return rows_; }
  int columns() const { return columns_; }
  bool is_utf8() const { return is_utf8_; }
  const GridCell& at(int row, int column) const {
    return cells_[static_cast<size_t>(row) * static_cast<size_t>(columns_) +
                  static_cast<size_t>(column)];
  }

  // Puts a text on one line, as ShownText() shows it; marks without width are left out. What has no
  // room before the column `end` (-1: the last one is the screen's) is cut, and the cut is marked.
  // Returns the column behind it. Outside of the grid it puts nothing.
  int Put(int row, int column, std::string_view text, TextStyle style = TextStyle::kPlain,
          int end = -1);
  // Gives cells a style.
  void Paint(int row, int from, int to, TextStyle style);

  // Returns a row's text without the blanks at its end.
  std::string RowText(int row) const;
  // Returns all rows, each with a line end, without empty ones at the end.
  std::string Text() const;

 private:
  GridCell& Cell(int row, int column) {
    return cells_[static_cast<size_t>(row) * static_cast<size_t>(columns_) +
                  static_cast<size_t>(column)];
  }

  // Puts a character; of a wide one that it covers in part nothing is left.
  void Set(int row, int column, const GridCell& cell);

  int rows_;
  int columns_;
  bool is_utf8_;
  std::vector<GridCell> cells_;
};

// Appends a character as UTF-8.
void AppendUtf8(char32_t code, std::string* text);

}  // namespace proftrace
