#include "exporters/parquet/parquet_file.h"

#include <utility>

#include "exporters/parquet/thrift_compact.h"
#include "userspace/base/exit_status.h"

namespace proftrace {
namespace {

constexpr std::string_view kMagic = "PAR1";
constexpr int32_t kOptional = 1;
constexpr int32_t kUtf8 = 0;

// The field numbers are those of parquet.thrift.
void AddSchema(const std::vector<ParquetColumn>& columns, CompactWriter* footer) {
  footer->BeginList(2, CompactWriter::Type::kStruct, columns.size() + 1);
  footer->BeginStructItem();
  footer->Binary(4, "schema");
  footer->Integer(5, static_cast<int32_t>(columns.size()));
  footer->EndStruct();
  for (const ParquetColumn& column : columns) {
    footer->BeginStructItem();
    footer->Integer(1, static_cast<int32_t>(column.type()));
    footer->Integer(3, kOptional);
    footer->Binary(4, column.name());
    if (column.type() == ParquetType::kByteArray) {
      footer->Integer(6, kUtf8);
      footer->BeginStruct(10);  // the type of UTF-8 texts again, for newer readers
      footer->BeginStruct(1);
      footer->EndStruct();
      footer->EndStruct();
    }
    footer->EndStruct();
  }
}

std::string_view BytesOf(const int64_t& number) {
  return {reinterpret_cast<const char*>(&number), sizeof(number)};
}

void AddStatistics(const ColumnChunk& chunk, CompactWriter* footer) {
  footer->BeginStruct(12);
  footer->Long(3, chunk.nulls);
  if (chunk.has_range) {
    footer->Binary(5, BytesOf(chunk.most));
    footer->Binary(6, BytesOf(chunk.least));
  }
  footer->EndStruct();
}

void AddEncodings(const ColumnChunk& chunk, bool has_dictionary, CompactWriter* footer) {
  std::vector<ParquetEncoding> encodings = {ParquetEncoding::kRle};
  // The dictionary itself is PLAIN.
  if (chunk.has_plain_pages || has_dictionary) encodings.push_back(ParquetEncoding::kPlain);
  if (has_dictionary) encodings.push_back(ParquetEncoding::kRleDictionary);
  footer->BeginList(2, CompactWriter::Type::kI32, encodings.size());
  for (const ParquetEncoding encoding : encodings) {
    footer->IntegerItem(static_cast<int32_t>(encoding));
  }
}

}  // namespace

ParquetFile::ParquetFile(ByteSink& sink, const std::vector<TypedColumn>& columns) : sink_(sink) {
  columns_.reserve(columns.size());
  for (const TypedColumn& column : columns) columns_.emplace_back(column, &compressor_);
  Write(kMagic);
}

void ParquetFile::Write(std::string_view bytes) {
  if (status_.ok()) status_ = sink_.Write(bytes);
  offset_ += static_cast<int64_t>(bytes.size());
}

void ParquetFile::EndRowGroup() {
  RowGroup group;
  group.rows = std::exchange(rows_, 0);
  for (ParquetColumn& column : columns_) {
    WrittenChunk written;
    ColumnChunk chunk = column.TakeChunk();
    written.has_dictionary = !chunk.dictionary_page.empty();
    written.offset = offset_;
    Write(chunk.dictionary_page);
    written.data_offset = offset_;
    Write(chunk.data_pages);
    written.bytes = offset_ - written.offset;
    chunk.dictionary_page.clear();
    chunk.data_pages = {};
    written.facts = std::move(chunk);
    group.chunks.push_back(std::move(written));
  }
  row_groups_.push_back(std::move(group));
  if (status_.ok() && !compressor_.ok()) {
    status_ = Fail(ExitCode::kOutputFailed, "there is not enough memory to compress a table");
  }
}

std::string ParquetFile::Footer() const {
  int64_t rows = 0;
  for (const RowGroup& group : row_groups_) rows += group.rows;
  CompactWriter footer;
  footer.Integer(1, 1);  // the version of the format
  AddSchema(columns_, &footer);
  footer.Long(3, rows);
  footer.BeginList(4, CompactWriter::Type::kStruct, row_groups_.size());
  for (const RowGroup& group : row_groups_) {
    footer.BeginStructItem();
    footer.BeginList(1, CompactWriter::Type::kStruct, group.chunks.size());
    int64_t bytes = 0;
    for (size_t i = 0; i < group.chunks.size(); ++i) {
      const WrittenChunk& chunk = group.chunks[i];
      bytes += chunk.facts.uncompressed_bytes;
      footer.BeginStructItem();
      footer.Long(2, chunk.offset);
      footer.BeginStruct(3);
      footer.Integer(1, static_cast<int32_t>(columns_[i].type()));
      AddEncodings(chunk.facts, chunk.has_dictionary, &footer);
      footer.BeginList(3, CompactWriter::Type::kBinary, 1);
      footer.BinaryItem(columns_[i].name());
      footer.Integer(4, kParquetZstd);
      footer.Long(5, chunk.facts.cells);
      footer.Long(6, chunk.facts.uncompressed_bytes);
      footer.Long(7, chunk.bytes);
      footer.Long(9, chunk.data_offset);
      if (chunk.has_dictionary) footer.Long(11, chunk.offset);
      AddStatistics(chunk.facts, &footer);
      footer.EndStruct();
      footer.EndStruct();
    }
    footer.Long(2, bytes);
    footer.Long(3, group.rows);
    footer.EndStruct();
  }
  footer.Binary(6, "proftrace");
  // Readers do not trust the least and most of a column without this list.
  footer.BeginList(7, CompactWriter::Type::kStruct, columns_.size());
  for (size_t i = 0; i < columns_.size(); ++i) {
    footer.BeginStructItem();
    footer.BeginStruct(1);
    footer.EndStruct();
    footer.EndStruct();
  }
  return footer.Finish();
}

absl::Status ParquetFile::Finish() {
  if (rows_ > 0) EndRowGroup();
  std::string footer = Footer();
  const auto size = static_cast<uint32_t>(footer.size());
  footer.append(reinterpret_cast<const char*>(&size), sizeof(size));
  footer += kMagic;
  Write(footer);
  return status_;
}

}  // namespace proftrace
