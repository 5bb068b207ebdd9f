#include "exporters/parquet/parquet_column.h"

#include <zstd.h>

#include <algorithm>
#include <cstring>
#include <span>
#include <utility>

#include "exporters/parquet/hybrid_runs.h"
#include "exporters/parquet/thrift_compact.h"

namespace proftrace {
namespace {

constexpr int kZstdLevel = 1;
constexpr int32_t kDataPage = 0;
constexpr int32_t kDictionaryPage = 2;

static_assert(std::endian::native == std::endian::little, "Parquet's numbers are little-endian");

template <typename Number>
void AppendNumber(Number number, std::string* bytes) {
  bytes->append(reinterpret_cast<const char*>(&number), sizeof(number));
}

void AppendText(std::string_view text, std::string* bytes) {
  AppendNumber(static_cast<uint32_t>(text.size()), bytes);
  *bytes += text;
}

ParquetType TypeOf(CellType type) {
  switch (type) {
    case CellType::kInteger:
      return ParquetType::kInt64;
    case CellType::kReal:
      return ParquetType::kDouble;
    case CellType::kText:
      return ParquetType::kByteArray;
  }
  return ParquetType::kByteArray;
}

// Returns the begin of a page's header, up to the fields of its kind.
CompactWriter PageHeader(int32_t kind, size_t bytes, size_t compressed_bytes) {
  CompactWriter header;
  header.Integer(1, kind);
  header.Integer(2, static_cast<int32_t>(bytes));
  header.Integer(3, static_cast<int32_t>(compressed_bytes));
  return header;
}

}  // namespace

PageCompressor::PageCompressor() : context_(ZSTD_createCCtx()), is_ok_(context_ != nullptr) {}

PageCompressor::~PageCompressor() { ZSTD_freeCCtx(static_cast<ZSTD_CCtx*>(context_)); }

std::string_view PageCompressor::Compress(std::string_view bytes) {
  if (!is_ok_) return {};
  buffer_.resize(std::max(buffer_.size(), ZSTD_compressBound(bytes.size())));
  const size_t size = ZSTD_compressCCtx(static_cast<ZSTD_CCtx*>(context_), buffer_.data(),
                                        buffer_.size(), bytes.data(), bytes.size(), kZstdLevel);
  is_ok_ = ZSTD_isError(size) == 0;
  return std::string_view(buffer_).substr(0, is_ok_ ? size : 0);
}

ParquetColumn::ParquetColumn(const TypedColumn& column, PageCompressor* compressor)
    : name_(column.name), type_(TypeOf(column.type)), compressor_(compressor) {}

bool ParquetColumn::AddKnown(std::string_view text) {
  if (is_plain_ || index_of_.empty()) return false;
  if (text != last_text_) {
    const auto known = index_of_.find(text);
    if (known == index_of_.end()) return false;
    last_text_ = known->first;
    last_index_ = known->second;
  }
  AddIndex(last_index_);
  return true;
}

void ParquetColumn::AddText(std::string_view text) {
  if (AddKnown(text)) return;
  if (!is_plain_) {
    const size_t end = dictionary_.size() + sizeof(uint32_t) + text.size();
    if (end <= kMostDictionaryBytes) {
      dictionary_.reserve(kMostDictionaryBytes);
      AppendText(text, &dictionary_);
      last_text_ = std::string_view(dictionary_).substr(end - text.size());
      last_index_ = static_cast<uint32_t>(index_of_.size());
      index_of_.emplace(last_text_, last_index_);
      AddIndex(last_index_);
      return;
    }
    EndPage();  // a page has one encoding
    is_plain_ = true;
  }
  AppendText(text, &plain_);
  AddLevel(1);
  if (plain_.size() >= kMostPageBytes) EndPage();
}

void ParquetColumn::AppendValues(std::string* body) const {
  body->append(reinterpret_cast<const char*>(words_.data()), words_.size() * sizeof(uint64_t));
  *body += plain_;
  if (indices_.empty()) return;
  const int bit_width = BitWidthOf(static_cast<uint32_t>(index_of_.size() - 1));
  body->push_back(static_cast<char>(bit_width));
  AppendHybridRuns(std::span<const uint32_t>(indices_), bit_width, body);
}

// Ends the page. It holds the length of its levels in bytes, the levels, and the cells that are not
// null.
void ParquetColumn::EndPage() {
  if (rows_ == 0) return;
  const std::span<const uint8_t> levels = std::span(levels_).first(rows_);
  body_.assign(sizeof(uint32_t), '\0');
  AppendHybridRuns(levels, 1, &body_);
  const auto level_bytes = static_cast<uint32_t>(body_.size() - sizeof(uint32_t));
  std::memcpy(body_.data(), &level_bytes, sizeof(level_bytes));
  AppendValues(&body_);
  // A page without cells is marked PLAIN, because there may be no dictionary.
  const bool is_plain = indices_.empty();
  const std::string_view compressed = compressor_->Compress(body_);
  CompactWriter header = PageHeader(kDataPage, body_.size(), compressed.size());
  header.BeginStruct(5);
  header.Integer(1, static_cast<int32_t>(rows_));
  header.Integer(2, static_cast<int32_t>(is_plain ? ParquetEncoding::kPlain
                                                  : ParquetEncoding::kRleDictionary));
  header.Integer(3, static_cast<int32_t>(ParquetEncoding::kRle));
  header.Integer(4, static_cast<int32_t>(ParquetEncoding::kRle));
  header.EndStruct();
  const std::string header_bytes = header.Finish();
  chunk_.data_pages += header_bytes;
  chunk_.data_pages += compressed;
  chunk_.uncompressed_bytes += static_cast<int64_t>(header_bytes.size() + body_.size());
  chunk_.cells += static_cast<int64_t>(rows_);
  chunk_.nulls += std::count(levels.begin(), levels.end(), 0);
  chunk_.has_plain_pages = chunk_.has_plain_pages || is_plain;
  rows_ = 0;
  words_.clear();
  indices_.clear();
  plain_.clear();
}

std::string ParquetColumn::DictionaryPage() {
  const std::string_view compressed = compressor_->Compress(dictionary_);
  CompactWriter header = PageHeader(kDictionaryPage, dictionary_.size(), compressed.size());
  header.BeginStruct(7);
  header.Integer(1, static_cast<int32_t>(index_of_.size()));
  header.Integer(2, static_cast<int32_t>(ParquetEncoding::kPlain));
  header.EndStruct();
  std::string page = header.Finish();
  chunk_.uncompressed_bytes += static_cast<int64_t>(page.size() + dictionary_.size());
  page += compressed;
  return page;
}

ColumnChunk ParquetColumn::TakeChunk() {
  EndPage();
  if (!index_of_.empty()) chunk_.dictionary_page = DictionaryPage();
  chunk_.has_range = has_range_;
  chunk_.least = least_;
  chunk_.most = most_;
  index_of_.clear();
  dictionary_.clear();
  last_text_ = {};
  is_plain_ = has_range_ = false;
  return std::exchange(chunk_, {});
}

}  // namespace proftrace
