// Takes our own CSV (RFC 4180, lines end in "\n") piece by piece and gives it row by row.
#pragma once

#include <absl/status/status.h>

#include <string>
#include <string_view>
#include <vector>

#include "exporters/sinks/output_file.h"

namespace proftrace {

struct CsvCell {
  std::string_view text;
  bool is_empty = false;  // nothing between the commas, not even quotes
};

class CsvReader : public ByteSink {
 public:
  absl::Status Write(std::string_view bytes) override;
  absl::Status Finish() override { return absl::OkStatus(); }

 protected:
  // Takes the next row; the header is the first. The cells are valid during the call.
  virtual absl::Status TakeRow(const std::vector<CsvCell>& cells) = 0;

 private:
  absl::Status EndRow();
  void EndCell();

  struct Cell {
    size_t end;  // in text_
    bool was_quoted;
  };
  std::string text_;  // of the row's cells, one after the other
  std::vector<Cell> ends_;
  std::vector<CsvCell> cells_;
  bool was_quoted_ = false;
  bool in_quotes_ = false;
  bool after_quote_ = false;  // a quote inside of quotes: their end, or half of a doubled one
};

}  // namespace proftrace
