// The form in which an output writes the text of a cell. Texts that many rows share are converted
// once, to this form.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "exporters/sinks/escape.h"

namespace proftrace {

class CellForm {
 public:
  // Returns the form for outputs that take any text: the text itself, as valid UTF-8.
  static constexpr CellForm Plain() { return CellForm(); }
  constexpr explicit CellForm(CsvText kind) : csv_(kind) {}

  bool is_csv() const { return csv_.has_value(); }
  // Returns the inside of the quotes that NeedsQuotes() asks for.
  std::string Escaped(std::string_view text) const {
    return is_csv() ? CsvEscaped(text) : ToValidUtf8(text);
  }
  bool NeedsQuotes(std::string_view text) const { return is_csv() && CsvNeedsQuotes(text); }
  bool NeedsGuard(std::string_view text) const { return is_csv() && CsvNeedsGuard(text, *csv_); }
  // Returns a whole cell.
  std::string Cell(std::string_view text) const {
    return is_csv() ? CsvField(text, *csv_) : ToValidUtf8(text);
  }
  // Return the quote around a text that CSV always quotes, and a quote within such a text.
  std::string_view quote() const { return is_csv() ? "\"" : ""; }
  std::string_view inner_quote() const { return is_csv() ? "\"\"" : "\""; }

 private:
  constexpr CellForm() = default;

  std::optional<CsvText> csv_;  // nullopt: plain text
};

}  // namespace proftrace
