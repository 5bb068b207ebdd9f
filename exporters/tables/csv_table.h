// Writes a table as CSV: a header, then a line for each row. It is made for millions of rows: the
// code for each cell is chosen when this is compiled, and a row is written without a call into a
// sink.
#pragma once

#include <absl/status/status.h>

#include <concepts>
#include <string>
#include <string_view>

#include "exporters/sinks/escape.h"
#include "exporters/sinks/output_file.h"
#include "exporters/sinks/text_writer.h"
#include "exporters/tables/column.h"

namespace proftrace {

namespace internal {

// Returns the most bytes that a cell takes, with its comma.
template <typename Cell>
size_t CsvBytes(const Cell& cell) {
  using Kind = PlainCell<Cell>;
  if constexpr (std::integral<Kind> || std::same_as<Kind, NsAsUs>) {
    return kMaxNumberBytes + 1;
  } else if constexpr (std::same_as<Kind, Decimal>) {
    return kMaxDecimalBytes + 1;
  } else if constexpr (std::same_as<Kind, CellText>) {
    return cell.text.size() + 1;
  } else if constexpr (std::same_as<Kind, PathPieces>) {
    return cell.size() + 1;
  } else {
    // Each byte of invalid UTF-8 becomes a character of three bytes. Quotes and an apostrophe are
    // added.
    return 3 * cell.size() + 4;
  }
}

template <typename Cell>
[[gnu::always_inline]] inline char* PutCell(char* at, const Cell& cell, CsvText kind) {
  if constexpr (std::same_as<Cell, bool>) {
    *at++ = cell ? '1' : '0';
    return at;
  } else if constexpr (std::integral<Cell>) {
    return PutInteger(at, cell);
  } else if constexpr (std::same_as<Cell, NsAsUs>) {
    return PutMicroseconds(at, cell.ns);
  } else if constexpr (std::same_as<Cell, Decimal>) {
    return PutDecimal(at, cell.value, cell.decimals);
  } else if constexpr (std::same_as<Cell, CellText>) {
    return PutText(at, cell.text);
  } else if constexpr (std::same_as<Cell, PathPieces>) {
    for (size_t i = 0; i < cell.count; ++i) at = PutText(at, cell.pieces[i]);
    return at;
  } else {
    return PutText(at, CsvField(cell, kind));
  }
}

}  // namespace internal

template <typename Row>
class CsvTable {
 public:
  // `sink` must outlive this; the caller finishes it.
  CsvTable(ByteSink& sink, CsvText kind) : writer_(sink), kind_(kind) {
    std::string header;
    for (const TypedColumn& column : ColumnsOf<Row>()) {
      header += (header.empty() ? "" : ",") + std::string(column.name);
    }
    writer_.Text(header + "\n");
  }

  // Adds a row. Returns false after an error of the sink: then no more rows are wanted.
  bool Add(const Row& row) {
    size_t bytes = 0;
    ForEachCell(
        row, [&bytes](const Column&, const auto& cell)
                 __attribute__((always_inline)) { bytes += internal::CsvBytes(cell); });
    char* at = writer_.Reserve(bytes);
    ForEachCell(
        row, [&at, this ](const Column&, const auto& cell) __attribute__((always_inline)) {
          if constexpr (requires { cell.has_value(); }) {
            if (cell.has_value()) at = internal::PutCell(at, *cell, kind_);
          } else {
            at = internal::PutCell(at, cell, kind_);
          }
          *at++ = ',';
        });
    at[-1] = '\n';
    writer_.Advance(at);
    return writer_.ok();
  }

  absl::Status Finish() { return writer_.Flush(); }

 private:
  TextWriter writer_;
  CsvText kind_;
};

}  // namespace proftrace
