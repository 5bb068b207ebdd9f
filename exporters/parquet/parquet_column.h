// One column of a Parquet file. It collects the cells of a row group, page by page, and returns the
// column chunk.
//
// Numbers are PLAIN. Texts are indices into a dictionary until the dictionary has 1 MiB; then the
// rest of the row group is PLAIN. Each page is compressed when it is full, so that a column takes
// the memory of a page, a dictionary and the compressed pages.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "exporters/tables/column.h"

namespace proftrace {

// Compresses pages with zstd, each one by itself.
class PageCompressor {
 public:
  PageCompressor();
  ~PageCompressor();
  PageCompressor(const PageCompressor&) = delete;
  PageCompressor& operator=(const PageCompressor&) = delete;

  // Returns the compressed bytes, valid until the next call; empty after an error.
  std::string_view Compress(std::string_view bytes);
  // Returns whether there was no error. zstd fails only where memory is short.
  bool ok() const { return is_ok_; }

 private:
  void* context_;
  std::string buffer_;
  bool is_ok_ = true;
};

// The numbers are Parquet's.
enum class ParquetType : int32_t { kInt64 = 2, kDouble = 5, kByteArray = 6 };
enum class ParquetEncoding : int32_t { kPlain = 0, kRle = 3, kRleDictionary = 8 };
inline constexpr int32_t kParquetZstd = 6;

// A column of a row group as it is in the file: its pages, and its facts in the footer.
struct ColumnChunk {
  std::string dictionary_page;  // empty: there is none
  std::string data_pages;
  int64_t uncompressed_bytes = 0;  // of all pages, with their headers
  int64_t cells = 0;
  int64_t nulls = 0;
  bool has_plain_pages = false;
  bool has_range = false;  // `least` and `most` of the integers are set
  int64_t least = 0;
  int64_t most = 0;
};

class ParquetColumn {
 public:
  static constexpr size_t kMostPageRows = 16 * 1024;
  static constexpr size_t kMostPageBytes = size_t{1} << 20;
  static constexpr size_t kMostDictionaryBytes = size_t{1} << 20;

  // `compressor` must outlive this.
  ParquetColumn(const TypedColumn& column, PageCompressor* compressor);

  const std::string& name() const { return name_; }
  ParquetType type() const { return type_; }

  void AddNull() { AddLevel(0); }
  void AddInteger(int64_t value) {
    words_.push_back(static_cast<uint64_t>(value));
    if (value < least_ || !has_range_) least_ = value;
    if (value > most_ || !has_range_) most_ = value;
    has_range_ = true;
    AddLevel(1);
  }
  void AddReal(double value) {
    words_.push_back(std::bit_cast<uint64_t>(value));
    AddLevel(1);
  }
  // Adds a text, which may be any bytes, if the row group has it already. Returns false where it
  // has not. So a long text is checked for UTF-8 once and not for each of its rows: members of a
  // group take kilobytes.
  bool AddKnown(std::string_view text);
  // `text` is UTF-8.
  void AddText(std::string_view text);

  // Returns the row group's chunk. The next cell belongs to the next row group.
  ColumnChunk TakeChunk();

 private:
  void AddLevel(uint8_t level) {
    levels_[rows_++] = level;
    if (rows_ == kMostPageRows) EndPage();
  }
  void AddIndex(uint32_t index) {
    indices_.push_back(index);
    AddLevel(1);
  }
  void EndPage();
  void AppendValues(std::string* body) const;
  std::string DictionaryPage();

  const std::string name_;
  const ParquetType type_;
  PageCompressor* const compressor_;

  // The page so far:
  size_t rows_ = 0;
  std::vector<uint8_t> levels_ = std::vector<uint8_t>(kMostPageRows);  // 1 a cell, 0 an absent one
  std::vector<uint64_t> words_;                                        // numbers
  std::vector<uint32_t> indices_;
  std::string plain_;  // texts, each after its length
  std::string body_;

  // The row group so far:
  std::string dictionary_;  // texts, each after its length; never moves
  absl::flat_hash_map<std::string_view, uint32_t> index_of_;
  // The text that was added last, and its index, because many columns have the same text in row
  // after row.
  std::string_view last_text_;
  uint32_t last_index_ = 0;
  bool is_plain_ = false;  // the dictionary is full
  bool has_range_ = false;
  int64_t least_ = 0;
  int64_t most_ = 0;
  ColumnChunk chunk_;
};

}  // namespace proftrace
