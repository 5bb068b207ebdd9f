// Writes a table as a Parquet file, as a visitor of the table's columns.
#pragma once

#include <absl/status/status.h>

#include <concepts>
#include <cstdlib>
#include <string>
#include <string_view>

#include "exporters/parquet/parquet_file.h"
#include "exporters/sinks/escape.h"
#include "exporters/sinks/text_writer.h"
#include "exporters/tables/column.h"

namespace proftrace {

template <typename Row>
class ParquetTable {
 public:
  // `sink` must outlive this; the caller finishes it.
  explicit ParquetTable(ByteSink& sink) : file_(sink, ColumnsOf<Row>()) {}

  // Adds a row. Returns false after an error: then no more rows are wanted.
  bool Add(const Row& row) {
    ParquetColumn* column = file_.columns().data();
    ForEachCell(row, [&](const Column&, const auto& cell) {
      if constexpr (requires { cell.has_value(); }) {
        if (cell.has_value()) {
          Put(*cell, column);
        } else {
          column->AddNull();
        }
      } else {
        Put(cell, column);
      }
      ++column;
    });
    return file_.EndRow();
  }

  absl::Status Finish() { return file_.Finish(); }

 private:
  // Adds a cell. Real numbers are rounded as in the CSV file, so that both files give the same
  // numbers.
  template <typename Cell>
  void Put(const Cell& cell, ParquetColumn* column) {
    if constexpr (std::integral<Cell>) {
      column->AddInteger(static_cast<int64_t>(cell));
    } else if constexpr (std::same_as<Cell, NsAsUs>) {
      column->AddReal(static_cast<double>(cell.ns) / 1000.0);
    } else if constexpr (std::same_as<Cell, Decimal>) {
      char text[kMaxDecimalBytes + 1];
      *PutDecimal(text, cell.value, cell.decimals) = '\0';
      column->AddReal(std::strtod(text, nullptr));
    } else if constexpr (std::same_as<Cell, CellText>) {
      PutText(cell.text, column);
    } else if constexpr (std::same_as<Cell, PathPieces>) {
      path_.clear();
      for (size_t i = 0; i < cell.count; ++i) path_ += cell.pieces[i];
      PutText(path_, column);
    } else if (!column->AddKnown(cell)) {
      PutText(ToValidUtf8(cell), column);
    }
  }

  static void PutText(std::string_view text, ParquetColumn* column) {
    if (text.empty()) {
      column->AddNull();
    } else {
      column->AddText(text);
    }
  }

  ParquetFile file_;
  std::string path_;
};

}  // namespace proftrace
