// A screen as a grid of characters. Control characters do not get into the grid, so that no name
// that is drawn can command the terminal.
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
  kGood,     // green, as the first of the colours
  kNotable,  // yellow
  kBad,      // red
  kTitle,    // cyan
};

struct GridCell {
  char32_t code = U' ';  // 0: the second half of the wide character before it
  TextStyle style = TextStyle::kPlain;

  bool operator==(const GridCell&) const = default;
};

// Returns how many columns terminals give a character: 0 for combining marks, 2 for East Asian
// characters and pictures (Unicode 15, East Asian Width W and F), else 1.
int ColumnsOf(char32_t code);
// Returns the columns that TextGrid gives a text.
int ColumnsOf(std::string_view text, bool is_utf8);

// Returns the lines that a text takes in so many columns. Lines end at blanks where they can.
std::vector<std::string_view> WrappedLines(std::string_view text, int columns, bool is_utf8);

class TextGrid {
 public:
  // Makes an empty grid. `is_utf8`: false makes each character that is not ASCII a '?'.
  TextGrid(int rows, int columns, bool is_utf8);

  int rows() const { return rows_; }
  int columns() const { return columns_; }
  bool is_utf8() const { return is_utf8_; }
  const GridCell& at(int row, int column) const {
    return cells_[static_cast<size_t>(row) * static_cast<size_t>(columns_) +
                  static_cast<size_t>(column)];
  }

  // Puts a text on one line, as ShownText() shows it, without marks that have no width. Text that
  // has no room before the column `end` (-1: the end of the row) is cut, and the cut is marked.
  // Returns the column behind the text. Puts nothing outside of the grid.
  int Put(int row, int column, std::string_view text, TextStyle style = TextStyle::kPlain,
          int end = -1);
  // Gives the cells of a row from `from` to `to` a style.
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

  // Puts a character. A wide character that the new one covers in part is removed.
  void Set(int row, int column, const GridCell& cell);

  int rows_;
  int columns_;
  bool is_utf8_;
  std::vector<GridCell> cells_;
};

// Appends a character as UTF-8.
void AppendUtf8(char32_t code, std::string* text);

}  // namespace proftrace
