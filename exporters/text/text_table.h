// A table of fixed columns for a terminal.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace proftrace {

struct TextColumn {
  std::string title;
  bool is_number = false;  // aligned to the right; texts are aligned to the left
};

class TextTable {
 public:
  explicit TextTable(std::vector<TextColumn> columns);

  // Adds a row with one cell for each column. Cells may be any bytes and are escaped by
  // ShownText(). A cell longer than `kMostCells` code points loses its beginning, because the
  // beginning of a path tells the least.
  void AddRow(std::vector<std::string> cells);

  // Returns the titles, a line, and the rows. Lines end without blanks.
  std::string Take() const;

  static constexpr size_t kMostCells = 72;

 private:
  std::vector<TextColumn> columns_;
  std::vector<std::vector<std::string>> rows_;
  std::vector<size_t> widths_;
};

// Returns a time as in torch's tables, with three decimals and s, ms or us: "1.234ms".
std::string TimeText(int64_t ns);

}  // namespace proftrace
