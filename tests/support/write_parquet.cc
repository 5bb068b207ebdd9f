// Writes a made-up table as Parquet and as CSV, for tests that compare what readers make of both.
//
//   write_parquet empty|absent|hostile|long|groups|names TABLE.parquet TABLE.csv
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <optional>
#include <string>
#include <string_view>

#include "exporters/parquet/parquet_table.h"
#include "exporters/tables/column.h"
#include "exporters/tables/csv_table.h"

namespace proftrace {
namespace {

struct MadeUp {
  std::optional<int64_t> number;
  std::optional<Decimal> share;
  NsAsUs time_us;
  std::string text;
  std::string other_text;
};

template <typename Visit>
void ForEachCell(const MadeUp& row, Visit&& visit) {
  visit(Column{"number", ""}, row.number);
  visit(Column{"share", ""}, row.share);
  visit(Column{"time_us", ""}, row.time_us);
  visit(Column{"text", ""}, row.text);
  visit(Column{"other text", ""}, row.other_text);
}

class FileOf : public ByteSink {
 public:
  explicit FileOf(const char* path) : file_(path, std::ios::binary) {}
  absl::Status Write(std::string_view bytes) override {
    file_.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    return file_.good() ? absl::OkStatus() : absl::InternalError("cannot write");
  }
  absl::Status Finish() override { return absl::OkStatus(); }

 private:
  std::ofstream file_;
};

// Returns the row `index` of the table; nullopt: it has no more.
std::optional<MadeUp> RowOf(std::string_view kind, int64_t index) {
  MadeUp row;
  if (kind == "absent") return index < 1'000 ? std::optional(row) : std::nullopt;
  if (kind == "hostile") {
    static constexpr std::string_view kTexts[] = {"'; DROP TABLE events; --",
                                                  "\"quoted\", with a comma",
                                                  "line\nend\r\n",
                                                  "=cmd|' /C calc'!A0",
                                                  "../../etc/passwd",
                                                  "\xFF\xFE no UTF-8",
                                                  "NULL",
                                                  " ",
                                                  "\xF0\x9F\x94\xA5",
                                                  "\\N",
                                                  "PAR1",
                                                  "\x1B[31mred"};
    constexpr auto kCount = static_cast<int64_t>(std::size(kTexts));
    if (index >= 2 * kCount) return std::nullopt;
    row.text = kTexts[index % kCount];
    row.other_text = index % 3 == 0 ? "" : kTexts[(index * 5) % kCount];
    row.number = index % 2 == 0 ? INT64_MIN + index : INT64_MAX - index;
    return row;
  }
  if (kind == "long") {
    if (index >= 40) return std::nullopt;
    row.text =
        std::string(static_cast<size_t>(index) * 50'000, static_cast<char>('a' + index % 26));
    row.number = index;
    return row;
  }
  if (kind == "groups" || kind == "names") {
    if (index >= 140'000) return std::nullopt;
    const bool is_known = index % 7 != 0;
    if (is_known) row.number = index * index - 1'000'000;
    if (index % 5 == 0) row.share = Decimal{static_cast<double>(index) / 7, 4};
    row.time_us = {index * 1'003};
    row.text = kind == "groups" ? "name " + std::to_string(index % 1'000)
                                : "a name that only one row has " + std::to_string(index);
    row.other_text = index / 1'000 % 2 == 0 ? "always" : is_known ? "mostly" : "";
    return row;
  }
  return std::nullopt;
}

int Run(std::string_view kind, const char* parquet_path, const char* csv_path) {
  FileOf parquet(parquet_path);
  FileOf csv(csv_path);
  ParquetTable<MadeUp> table(parquet);
  CsvTable<MadeUp> text(csv, CsvText::kExact);
  for (int64_t index = 0;; ++index) {
    const std::optional<MadeUp> row = RowOf(kind, index);
    if (!row.has_value() || !table.Add(*row) || !text.Add(*row)) break;
  }
  return table.Finish().ok() && text.Finish().ok() ? 0 : 1;
}

}  // namespace
}  // namespace proftrace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "write_parquet KIND TABLE.parquet TABLE.csv\n");
    return 2;
  }
  return proftrace::Run(argv[1], argv[2], argv[3]);
}
