// A table of fixed columns for a terminal.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace proftrace {

struct TextColumn {
  std::string title;
  bool is_number = false;  // at the right; all else at the left
};

class TextTable {
 public:
  explicit TextTable(std::vector<TextColumn> columns);

  // Adds a row with a cell a column: any bytes, shown as ShownText() has them. A cell longer than
  // `kMostCells` code points loses its beginning, which in paths tells the least.
  void AddRow(std::vector<std::string> cells);

  // Titles, a line, the rows; lines end without blanks.
  std::string Take() const;

  static constexpr size_t kMostCells = 72;

 private:
  std::vector<TextColumn> columns_;
  std::vector<std::vector<std::string>> rows_;
  std::vector<size_t> widths_;
};

// "1.234ms": three decimals, with s, ms or us, as torch's tables have times.
std::string TimeText(int64_t ns);

}  // namespace proftrace
