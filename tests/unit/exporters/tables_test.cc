#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "exporters/tables/cell_form.h"
#include "exporters/tables/column.h"
#include "exporters/tables/csv_table.h"

namespace proftrace {

struct MadeUpRow {
  std::optional<int64_t> time_ns;
  bool is_known = false;
  NsAsUs time_us;
  std::optional<Decimal> share;
  std::string_view text;
  CellText made;
  PathPieces path;
  uint32_t version = 0;
};

template <typename Visit>
void ForEachCell(const MadeUpRow& row, Visit&& visit) {
  visit(Column{"time_ns", "A time."}, row.time_ns);
  visit(Column{"is_known", "A flag."}, row.is_known);
  visit(Column{"time_us", "A time."}, row.time_us);
  visit(Column{"share", "A share."}, row.share);
  visit(Column{"text", "Any text."}, row.text);
  visit(Column{"made", "A text in the form of the output."}, row.made);
  visit(Column{"path", "A text in pieces."}, row.path);
  visit(Column{"version", "A number that SQLite has as a text.", "TEXT"}, row.version);
}

namespace {

TEST(ColumnTest, TypesAreThoseOfTheCells) {
  std::string types;
  for (const TypedColumn& column : ColumnsOf<MadeUpRow>()) {
    types += std::string(column.name) + " " + std::string(column.sql_type) + "\n";
    EXPECT_EQ(column.type == CellType::kInteger,
              column.name == "time_ns" || column.name == "is_known" || column.name == "version");
  }
  EXPECT_EQ(types,
            "time_ns INTEGER\nis_known INTEGER\ntime_us REAL\nshare REAL\ntext TEXT\nmade TEXT\n"
            "path TEXT\nversion TEXT\n");
}

TEST(CsvTableTest, WritesEachKindOfCellAndNothingForWhatIsNotKnown) {
  StringSink sink;
  CsvTable<MadeUpRow> table(sink, CsvText::kForSpreadsheets);
  MadeUpRow row;
  EXPECT_TRUE(table.Add(row));
  row.time_ns = -1;
  row.is_known = true;
  row.time_us = {1'500};
  row.share = Decimal{12.34567, 4};
  row.text = "=a,\xFF";
  row.made = {"=kept"};
  row.path.Add("\"a/");
  row.path.Add("");
  row.path.Add("b\"");
  row.version = 7;
  EXPECT_TRUE(table.Add(row));
  ASSERT_TRUE(table.Finish().ok());
  EXPECT_EQ(sink.text(),
            "time_ns,is_known,time_us,share,text,made,path,version\n"
            ",0,0.000,,,,,0\n"
            "-1,1,1.500,12.3457,\"'=a,\uFFFD\",=kept,\"a/b\",7\n");
}

TEST(CsvTableTest, StopsWhenTheSinkFails) {
  class FullSink : public ByteSink {
   public:
    absl::Status Write(std::string_view) override { return absl::ResourceExhaustedError("full"); }
    absl::Status Finish() override { return absl::OkStatus(); }
  };
  FullSink sink;
  CsvTable<MadeUpRow> table(sink, CsvText::kExact);
  MadeUpRow row;
  const std::string text(10'000, 'x');
  row.text = text;
  int rows = 0;
  while (rows < 1'000 && table.Add(row)) ++rows;
  EXPECT_LT(rows, 100);
  EXPECT_FALSE(table.Finish().ok());
}

TEST(CellFormTest, PlainTextIsNeitherQuotedNorGuarded) {
  EXPECT_EQ(CellForm::Plain().Cell("=\"a\",\xFF"), "=\"a\",\uFFFD");
  EXPECT_EQ(CellForm(CsvText::kExact).Cell("=\"a\","), "\"=\"\"a\"\",\"");
  EXPECT_EQ(CellForm(CsvText::kForSpreadsheets).Cell("=1"), "'=1");
}

}  // namespace
}  // namespace proftrace
