#include "userspace/fleet_questions/report_section.h"

#include <absl/strings/str_format.h>

#include <algorithm>
#include <utility>

#include "exporters/text/text_table.h"
#include "userspace/base/shown_text.h"
#include "userspace/fleet_questions/answer_output.h"
#include "userspace/fleet_questions/units.h"

namespace proftrace {
namespace {

using nlohmann::json;

constexpr size_t kMostRows = 6;

std::string ShownCell(const json& cell, Unit unit) {
  switch (unit) {
    case Unit::kTime:
      return TimeOf(cell);
    case Unit::kShare:
      return ShareOf(cell);
    case Unit::kBytes:
      return BytesOf(cell);
    case Unit::kNumber:
    case Unit::kText:
      break;
  }
  return CellText(cell);
}

}  // namespace

std::string SectionText(const ReportSection& section, const Answer& answer,
                        const std::string& directory) {
  std::vector<TextColumn> titles;
  for (const ReportColumn& column : section.columns) {
    titles.push_back({column.title, column.unit != Unit::kText});
  }
  TextTable table(std::move(titles));
  const size_t rows = std::min(answer.rows.size(), kMostRows);
  for (size_t row = 0; row < rows; ++row) {
    std::vector<std::string> cells;
    for (const ReportColumn& column : section.columns) {
      cells.push_back(ShownCell(answer.At(row, column.name), column.unit));
    }
    table.AddRow(std::move(cells));
  }
  std::string text = "\n" + std::string(section.title) + "\n" + table.Take();
  if (rows < answer.rows.size() && !directory.empty()) {
    text += absl::StrFormat("%d of %d rows; all: proftrace fleet query %s %s\n", rows,
                            answer.rows.size(), ShownText(directory), section.question);
  }
  return text;
}

nlohmann::ordered_json RowsJson(const Answer& answer) {
  auto rows = nlohmann::ordered_json::array();
  for (const std::vector<json>& row : answer.rows) {
    nlohmann::ordered_json one = nlohmann::ordered_json::object();
    for (size_t i = 0; i < row.size(); ++i) one[answer.columns[i].name] = row[i];
    rows.push_back(std::move(one));
  }
  return rows;
}

}  // namespace proftrace
