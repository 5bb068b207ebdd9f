// A Parquet file, written in one pass from the first byte to the last (Apache Parquet's format 1:
// data pages V1, zstd, row groups of 128 Ki rows, statistics of integers). Each column is optional:
// INT64 without a logical type, DOUBLE, or BYTE_ARRAY with the type of UTF-8 texts.
#pragma once

#include <absl/status/status.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "exporters/parquet/parquet_column.h"
#include "exporters/sinks/output_file.h"
#include "exporters/tables/column.h"

namespace proftrace {

class ParquetFile {
 public:
  static constexpr int64_t kRowGroupRows = 128 * 1024;

  // `sink` must outlive this; the caller finishes it.
  ParquetFile(ByteSink& sink, const std::vector<TypedColumn>& columns);

  // Returns the columns. A row is added by one cell for each column, and then EndRow().
  std::vector<ParquetColumn>& columns() { return columns_; }
  // Ends a row. Returns false after an error: then no more rows are wanted.
  bool EndRow() {
    if (++rows_ == kRowGroupRows) EndRowGroup();
    return status_.ok();
  }
  // Writes the last row group and the footer.
  absl::Status Finish();

 private:
  struct WrittenChunk {
    ColumnChunk facts;  // without its pages
    int64_t offset = 0;
    int64_t data_offset = 0;
    int64_t bytes = 0;
    bool has_dictionary = false;
  };
  struct RowGroup {
    int64_t rows = 0;
    std::vector<WrittenChunk> chunks;
  };

  void EndRowGroup();
  void Write(std::string_view bytes);
  std::string Footer() const;

  ByteSink& sink_;
  PageCompressor compressor_;
  std::vector<ParquetColumn> columns_;
  int64_t rows_ = 0;  // rows in the current row group
  std::vector<RowGroup> row_groups_;
  int64_t offset_ = 0;
  absl::Status status_;
};

}  // namespace proftrace
