#include "exporters/sinks/csv_reader.h"

namespace proftrace {

absl::Status CsvReader::Write(std::string_view bytes) {
  while (!bytes.empty()) {
    if (in_quotes_ && !after_quote_) {
      const size_t length = std::min(bytes.find('"'), bytes.size());
      text_ += bytes.substr(0, length);
      after_quote_ = length < bytes.size();
      bytes.remove_prefix(length + (after_quote_ ? 1 : 0));
      continue;
    }
    const char c = bytes.front();
    if (after_quote_) {
      after_quote_ = false;
      if (c == '"') {
        text_.push_back(c);
        bytes.remove_prefix(1);
        continue;
      }
      in_quotes_ = false;
    }
    bytes.remove_prefix(1);
    if (c == ',') {
      EndCell();
    } else if (c == '\n') {
      if (absl::Status status = EndRow(); !status.ok()) return status;
    } else if (c == '"') {
      in_quotes_ = was_quoted_ = true;
    } else {
      text_.push_back(c);
    }
  }
  return absl::OkStatus();
}

void CsvReader::EndCell() {
  ends_.push_back({text_.size(), was_quoted_});
  was_quoted_ = false;
}

absl::Status CsvReader::EndRow() {
  EndCell();
  cells_.clear();
  size_t begin = 0;
  for (const Cell& cell : ends_) {
    const std::string_view text = std::string_view(text_).substr(begin, cell.end - begin);
    cells_.push_back({text, text.empty() && !cell.was_quoted});
    begin = cell.end;
  }
  absl::Status status = TakeRow(cells_);
  text_.clear();
  ends_.clear();
  return status;
}

}  // namespace proftrace
