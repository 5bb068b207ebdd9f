#include "exporters/text/text_table.h"

#include <algorithm>
#include <cstdio>
#include <string_view>
#include <utility>

#include "exporters/sinks/escape.h"
#include "userspace/base/shown_text.h"

namespace proftrace {
namespace {

constexpr std::string_view kCut = "...";

std::string Shortened(std::string text) {
  const size_t points = CodePoints(text);
  if (points <= TextTable::kMostCells) return text;
  const size_t left_out = points - TextTable::kMostCells + kCut.size();
  return std::string(kCut) + text.substr(FirstCodePoints(text, left_out).size());
}

}  // namespace

TextTable::TextTable(std::vector<TextColumn> columns) : columns_(std::move(columns)) {
  for (const TextColumn& column : columns_) widths_.push_back(CodePoints(column.title));
}

void TextTable::AddRow(std::vector<std::string> cells) {
  cells.resize(columns_.size());
  for (size_t i = 0; i < cells.size(); ++i) {
    cells[i] = Shortened(ShownText(cells[i]));
    widths_[i] = std::max(widths_[i], CodePoints(cells[i]));
  }
  rows_.push_back(std::move(cells));
}

std::string TextTable::Take() const {
  std::string text;
  const auto add_line = [&](const auto& cell_of) {
    std::string line;
    for (size_t i = 0; i < columns_.size(); ++i) {
      const std::string& cell = cell_of(i);
      const std::string blanks(widths_[i] - CodePoints(cell), ' ');
      if (i > 0) line += "  ";
      line += columns_[i].is_number ? blanks + cell : cell + blanks;
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  };
  add_line([&](size_t i) -> const std::string& { return columns_[i].title; });
  size_t width = columns_.empty() ? 0 : 2 * (columns_.size() - 1);
  for (const size_t one : widths_) width += one;
  text += std::string(width, '-') + "\n";
  for (const std::vector<std::string>& row : rows_) {
    add_line([&](size_t i) -> const std::string& { return row[i]; });
  }
  return text;
}

std::string TimeText(int64_t ns) {
  char text[64];
  const double time = static_cast<double>(ns);
  if (ns >= 1'000'000'000) {
    std::snprintf(text, sizeof(text), "%.3fs", time / 1e9);
  } else if (ns >= 1'000'000) {
    std::snprintf(text, sizeof(text), "%.3fms", time / 1e6);
  } else {
    std::snprintf(text, sizeof(text), "%.3fus", time / 1e3);
  }
  return text;
}

}  // namespace proftrace
