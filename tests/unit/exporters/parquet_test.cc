#include <gtest/gtest.h>
#include <zstd.h>

#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "exporters/parquet/hybrid_runs.h"
#include "exporters/parquet/parquet_column.h"
#include "exporters/parquet/parquet_table.h"
#include "exporters/parquet/thrift_compact.h"

namespace proftrace {

struct TwoCells {
  std::optional<int64_t> number;
  std::string_view text;
};

template <typename Visit>
void ForEachCell(const TwoCells& row, Visit&& visit) {
  visit(Column{"number", "A number."}, row.number);
  visit(Column{"text", "A text."}, row.text);
}

namespace {

std::string Hex(std::string_view bytes) {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string text;
  for (const char byte : bytes) {
    text.push_back(kDigits[static_cast<uint8_t>(byte) >> 4]);
    text.push_back(kDigits[static_cast<uint8_t>(byte) & 15]);
  }
  return text;
}

// Reads what AppendHybridRuns() writes, after the format's own words.
std::vector<uint32_t> ReadHybridRuns(std::string_view bytes, int bit_width, size_t count) {
  std::vector<uint32_t> numbers;
  size_t at = 0;
  while (numbers.size() < count && at < bytes.size()) {
    uint64_t head = 0;
    for (int shift = 0;; shift += 7) {
      const auto byte = static_cast<uint8_t>(bytes.at(at++));
      head |= uint64_t{byte & 0x7Fu} << shift;
      if (byte < 0x80) break;
    }
    if ((head & 1) == 0) {
      uint32_t number = 0;
      for (int shift = 0; shift < bit_width; shift += 8) {
        number |= uint32_t{static_cast<uint8_t>(bytes.at(at++))} << shift;
      }
      numbers.insert(numbers.end(), head >> 1, number);
      continue;
    }
    const size_t packed = (head >> 1) * 8;
    for (size_t i = 0; i < packed; ++i) {
      uint32_t number = 0;
      for (int bit = 0; bit < bit_width; ++bit) {
        const size_t place = i * static_cast<size_t>(bit_width) + static_cast<size_t>(bit);
        const auto byte = static_cast<uint8_t>(bytes.at(at + place / 8));
        number |= uint32_t{byte >> (place % 8) & 1u} << bit;
      }
      numbers.push_back(number);
    }
    at += packed * static_cast<size_t>(bit_width) / 8;
  }
  EXPECT_EQ(at, bytes.size());
  EXPECT_LT(numbers.size(), count + 8);
  numbers.resize(count);
  return numbers;
}

std::string HybridRuns(const std::vector<uint32_t>& numbers, int bit_width) {
  std::string bytes;
  AppendHybridRuns(std::span<const uint32_t>(numbers), bit_width, &bytes);
  return bytes;
}

TEST(HybridRunsTest, LongRunsAreALengthAndANumber) {
  EXPECT_EQ(Hex(HybridRuns(std::vector<uint32_t>(8, 1), 1)), "1001");
  EXPECT_EQ(Hex(HybridRuns(std::vector<uint32_t>(300, 0x1234), 13)), "d8043412");
}

TEST(HybridRunsTest, OtherNumbersArePackedInGroupsOfEight) {
  // The example of the format's documents: 0 to 7 in three bits each.
  EXPECT_EQ(Hex(HybridRuns({0, 1, 2, 3, 4, 5, 6, 7}, 3)), "0388c6fa");
  EXPECT_EQ(Hex(HybridRuns({1, 0, 1}, 1)), "0305");
  EXPECT_EQ(HybridRuns({}, 1), "");
}

TEST(HybridRunsTest, AnyMixIsReadBack) {
  uint64_t random = 1;
  const auto next = [&random] {
    random = random * 6364136223846793005u + 1442695040888963407u;
    return static_cast<uint32_t>(random >> 33);
  };
  for (int bit_width = 1; bit_width <= 20; ++bit_width) {
    std::vector<uint32_t> numbers;
    while (numbers.size() < 2'000) {
      numbers.insert(numbers.end(), 1 + next() % (next() % 3 == 0 ? 40 : 3),
                     next() & ((1u << bit_width) - 1));
      EXPECT_EQ(ReadHybridRuns(HybridRuns(numbers, bit_width), bit_width, numbers.size()), numbers);
      if (HasFailure()) return;
    }
  }
}

TEST(HybridRunsTest, TheWidthIsThatOfTheLargestNumber) {
  EXPECT_EQ(BitWidthOf(0), 1);
  EXPECT_EQ(BitWidthOf(1), 1);
  EXPECT_EQ(BitWidthOf(2), 2);
  EXPECT_EQ(BitWidthOf(255), 8);
  EXPECT_EQ(BitWidthOf(256), 9);
}

TEST(CompactWriterTest, WritesFieldsListsAndStructs) {
  CompactWriter writer;
  writer.Integer(1, 1);
  writer.Long(3, -2);
  writer.Binary(20, "ab");  // a step of more than 15
  writer.BeginList(21, CompactWriter::Type::kI32, 2);
  writer.IntegerItem(300);
  writer.IntegerItem(-1);
  writer.BeginStruct(22);
  writer.Integer(1, 0);
  writer.EndStruct();
  writer.BeginList(23, CompactWriter::Type::kStruct, 15);
  for (int i = 0; i < 15; ++i) {
    writer.BeginStructItem();
    writer.EndStruct();
  }
  EXPECT_EQ(Hex(writer.Finish()),
            "1502"        // 1: i32 1
            "2603"        // 3: i64 -2
            "0828026162"  // 20: "ab"
            "1925d80401"  // 21: [300, -1]
            "1c150000"    // 22: {1: 0}
            "19fc0f"      // 23: 15 structs
            "000000000000000000000000000000"
            "00");
}

// A page of a column chunk: its header, and its bytes without compression.
struct Page {
  std::string header;
  std::string body;
};

std::vector<Page> PagesOf(std::string_view bytes) {
  static constexpr std::string_view kZstdMagic = "\x28\xB5\x2F\xFD";
  std::vector<Page> pages;
  while (!bytes.empty()) {
    const size_t begin = bytes.find(kZstdMagic);
    if (begin == std::string_view::npos) break;
    Page& page = pages.emplace_back();
    page.header = bytes.substr(0, begin);
    bytes.remove_prefix(begin);
    const size_t size = ZSTD_findFrameCompressedSize(bytes.data(), bytes.size());
    page.body.resize(ZSTD_getFrameContentSize(bytes.data(), bytes.size()));
    EXPECT_EQ(ZSTD_decompress(page.body.data(), page.body.size(), bytes.data(), size),
              page.body.size());
    bytes.remove_prefix(size);
  }
  EXPECT_TRUE(bytes.empty());
  return pages;
}

TEST(ParquetColumnTest, TextsAreNumbersOfADictionary) {
  PageCompressor compressor;
  ParquetColumn column({"text", CellType::kText, "TEXT"}, &compressor);
  column.AddText("b");
  column.AddNull();
  column.AddText("a");
  column.AddText("b");
  const ColumnChunk chunk = column.TakeChunk();
  EXPECT_EQ(chunk.cells, 4);
  EXPECT_EQ(chunk.nulls, 1);
  EXPECT_FALSE(chunk.has_plain_pages);
  EXPECT_FALSE(chunk.has_range);
  const std::vector<Page> dictionary = PagesOf(chunk.dictionary_page);
  ASSERT_EQ(dictionary.size(), 1u);
  EXPECT_EQ(Hex(dictionary[0].body),
            "01000000"
            "62"
            "01000000"
            "61");
  const std::vector<Page> data = PagesOf(chunk.data_pages);
  ASSERT_EQ(data.size(), 1u);
  // Levels 1, 0, 1, 1 in two bytes; then numbers 0, 1, 0 of one bit.
  EXPECT_EQ(Hex(data[0].body),
            "02000000"
            "030d"
            "01"
            "0302");
  EXPECT_TRUE(column.TakeChunk().data_pages.empty());
}

TEST(ParquetColumnTest, NumbersArePlainAndHaveARange) {
  PageCompressor compressor;
  ParquetColumn column({"number", CellType::kInteger, "INTEGER"}, &compressor);
  column.AddInteger(-1);
  column.AddInteger(258);
  ColumnChunk chunk = column.TakeChunk();
  EXPECT_TRUE(chunk.dictionary_page.empty());
  EXPECT_TRUE(chunk.has_plain_pages);
  EXPECT_TRUE(chunk.has_range);
  EXPECT_EQ(chunk.least, -1);
  EXPECT_EQ(chunk.most, 258);
  const std::vector<Page> pages = PagesOf(chunk.data_pages);
  ASSERT_EQ(pages.size(), 1u);
  EXPECT_EQ(Hex(pages[0].body),
            "02000000"
            "0303"
            "ffffffffffffffff"
            "0201000000000000");
  column.AddInteger(7);  // of the next row group
  chunk = column.TakeChunk();
  EXPECT_EQ(chunk.least, 7);
  EXPECT_EQ(chunk.most, 7);
}

TEST(ParquetColumnTest, AColumnWithoutACellHasNoDictionaryAndNoRange) {
  PageCompressor compressor;
  for (const CellType type : {CellType::kInteger, CellType::kReal, CellType::kText}) {
    ParquetColumn column({"absent", type, ""}, &compressor);
    for (int i = 0; i < 100; ++i) column.AddNull();
    const ColumnChunk chunk = column.TakeChunk();
    EXPECT_TRUE(chunk.dictionary_page.empty());
    EXPECT_TRUE(chunk.has_plain_pages);
    EXPECT_FALSE(chunk.has_range);
    EXPECT_EQ(chunk.nulls, 100);
    ASSERT_EQ(PagesOf(chunk.data_pages).size(), 1u);
    EXPECT_EQ(Hex(PagesOf(chunk.data_pages)[0].body),
              "03000000"
              "c80100");
  }
}

TEST(ParquetColumnTest, TextsThatTheDictionaryHasNoRoomForArePlain) {
  PageCompressor compressor;
  ParquetColumn column({"text", CellType::kText, "TEXT"}, &compressor);
  const std::string large(ParquetColumn::kMostDictionaryBytes / 2, 'x');
  column.AddText("a");
  column.AddText(large + "1");
  column.AddText(large + "2");
  column.AddText("a");  // in the dictionary, but a page has one encoding
  ColumnChunk chunk = column.TakeChunk();
  EXPECT_TRUE(chunk.has_plain_pages);
  const std::vector<Page> dictionary = PagesOf(chunk.dictionary_page);
  ASSERT_EQ(dictionary.size(), 1u);
  EXPECT_EQ(dictionary[0].body.size(), 4 + 1 + 4 + large.size() + 1);
  const std::vector<Page> data = PagesOf(chunk.data_pages);
  ASSERT_EQ(data.size(), 2u);
  EXPECT_EQ(Hex(data[0].body),
            "02000000"
            "0303"
            "01"
            "0302");
  EXPECT_EQ(data[1].body.substr(10), large + "2" +
                                         std::string("\x01\x00\x00\x00"
                                                     "a",
                                                     5));
  // The next row group has a dictionary again.
  column.AddText("b");
  chunk = column.TakeChunk();
  EXPECT_FALSE(chunk.has_plain_pages);
  EXPECT_EQ(Hex(PagesOf(chunk.dictionary_page).at(0).body),
            "01000000"
            "62");
}

TEST(ParquetColumnTest, PagesEndWithTheirRowsOrTheirBytes) {
  PageCompressor compressor;
  ParquetColumn numbers({"number", CellType::kInteger, "INTEGER"}, &compressor);
  for (size_t i = 0; i <= ParquetColumn::kMostPageRows; ++i) numbers.AddInteger(1);
  EXPECT_EQ(PagesOf(numbers.TakeChunk().data_pages).size(), 2u);
  ParquetColumn texts({"text", CellType::kText, "TEXT"}, &compressor);
  for (int i = 0; i < 10; ++i) texts.AddText(std::string(ParquetColumn::kMostPageBytes, '0' + i));
  const std::vector<Page> pages = PagesOf(texts.TakeChunk().data_pages);
  ASSERT_EQ(pages.size(), 10u);
  for (const Page& page : pages) EXPECT_EQ(page.body.size(), 6 + 4 + ParquetColumn::kMostPageBytes);
}

std::string FileOf(const std::vector<TwoCells>& rows) {
  StringSink sink;
  ParquetTable<TwoCells> table(sink);
  for (const TwoCells& row : rows) EXPECT_TRUE(table.Add(row));
  EXPECT_TRUE(table.Finish().ok());
  return sink.text();
}

// The footer of a file, from the length behind it.
std::string FooterOf(const std::string& file) {
  EXPECT_TRUE(file.starts_with("PAR1") && file.ends_with("PAR1"));
  uint32_t size = 0;
  std::memcpy(&size, &file[file.size() - 8], sizeof(size));
  return file.substr(file.size() - 8 - size, size);
}

TEST(ParquetFileTest, TheFooterOfATableWithoutARow) {
  const std::string file = FileOf({});
  const std::string footer = FooterOf(file);
  EXPECT_EQ(file.size(), 4 + footer.size() + 8);
  EXPECT_EQ(Hex(footer),
            "1502"  // 1: the version, 1
            "193c"  // 2: the schema, three elements
            "4806736368656d61"
            "1504"
            "00"  //    "schema", with two children
            "1504"
            "2502"
            "18066e756d626572"
            "00"  // INT64, optional, "number"
            "150c"
            "2502"
            "180474657874"
            "2500"  // BYTE_ARRAY, optional, "text", UTF8
            "4c1c0000"
            "00"                      //    also as the logical type STRING
            "1600"                    // 3: no rows
            "190c"                    // 4: no row groups
            "280970726f667472616365"  // 6: "proftrace"
            "192c"
            "1c0000"
            "1c0000"
            "00");  // 7: order of columns, by their type
}

TEST(ParquetFileTest, TheFooterSaysWhereTheColumnsAre) {
  const std::string file = FileOf({{5, "a"}, {std::nullopt, ""}, {-5, "a"}});
  EXPECT_EQ(Hex(FooterOf(file)),
            "1502"  // 1: the version, 1
            "193c"  // 2: the schema, three elements
            "4806736368656d61"
            "1504"
            "00"  //    "schema", with two children
            "1504"
            "2502"
            "18066e756d626572"
            "00"  // INT64, optional, "number"
            "150c"
            "2502"
            "180474657874"
            "2500"  // BYTE_ARRAY, optional, "text", UTF8
            "4c1c0000"
            "00"    //    also as the logical type STRING
            "1606"  // 3: three rows
            "191c"  // 4: one row group
            "192c"  // 1: two columns
            "2608"
            "1c"  // 2: at byte 4; 3: what it is
            "1504"
            "192506"
            "00"                  // INT64, RLE and PLAIN
            "1918066e756d626572"  // ["number"]
            "150c"
            "1606"
            "164e"
            "1660"  // zstd, 3 cells, 39 bytes, 48 compressed
            "2608"  // the first data page at byte 4
            "3c"
            "3602"                  // statistics: one is absent
            "28080500000000000000"  // the most, 5
            "1808fbffffffffffffff"  // the least, -5
            "00"
            "00"
            "00"
            "2668"
            "1c"  // at byte 52
            "150c"
            "1935060010"      // BYTE_ARRAY, RLE, PLAIN, RLE_DICTIONARY
            "19180474657874"  // ["text"]
            "150c"
            "1606"
            "1658"
            "167c"  // zstd, 3 cells, 44 bytes, 62 compressed
            "269e01"
            "2668"  // data pages at byte 79, the dictionary at 52
            "1c"
            "3602"  // statistics: one is absent
            "00"
            "00"
            "00"
            "16a601"
            "1606"
            "00"                      // 2: 83 bytes; 3: three rows
            "280970726f667472616365"  // 6: "proftrace"
            "192c"
            "1c0000"
            "1c0000"
            "00");  // 7: order of columns, by their type
}

TEST(ParquetFileTest, ARowGroupHas128KiRows) {
  StringSink sink;
  ParquetTable<TwoCells> table(sink);
  for (int64_t i = 0; i <= 2 * ParquetFile::kRowGroupRows; ++i) {
    ASSERT_TRUE(table.Add({i, "always"}));
  }
  ASSERT_TRUE(table.Finish().ok());
  const std::string footer = FooterOf(sink.text());
  size_t groups = 0;
  // Each has a chunk of the column "number": its name, after the list's head and the name's length.
  for (size_t at = 0;
       (at = footer.find(std::string("\x19\x18\x06number"), at)) != std::string::npos; ++at) {
    ++groups;
  }
  EXPECT_EQ(groups, 3u);
}

TEST(ParquetFileTest, StopsWhenTheSinkFails) {
  class FullSink : public ByteSink {
   public:
    absl::Status Write(std::string_view) override { return absl::ResourceExhaustedError("full"); }
    absl::Status Finish() override { return absl::OkStatus(); }
  };
  FullSink sink;
  ParquetTable<TwoCells> table(sink);
  EXPECT_FALSE(table.Add({1, "a"}));
  EXPECT_EQ(table.Finish().message(), "full");
}

}  // namespace
}  // namespace proftrace
