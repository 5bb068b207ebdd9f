#include "userspace/fleet_questions/answer.h"

#include <absl/strings/numbers.h>

#include <set>
#include <utility>

#include "userspace/base/exit_status.h"
#include "userspace/base/shown_text.h"
#include "userspace/base/text.h"

namespace proftrace {
namespace {

using nlohmann::json;

constexpr std::string_view kNoNumbers[] = {"-Infinity", "Infinity", "-NaN", "NaN"};

// Returns the line with null for the infinities and NaN that DuckDB writes, because JSON does not
// have them.
std::string WithoutInfinities(std::string_view line) {
  std::string text;
  bool is_in_text = false;
  for (size_t at = 0; at < line.size();) {
    size_t skipped = 0;
    for (const std::string_view word : kNoNumbers) {
      if (!is_in_text && line.substr(at).starts_with(word)) skipped = word.size();
      if (skipped > 0) break;
    }
    if (skipped > 0) {
      text += "null";
      at += skipped;
      continue;
    }
    if (is_in_text && line[at] == '\\') text += line[at++];
    if (at < line.size() && line[at] == '"' && (text.empty() || text.back() != '\\')) {
      is_in_text = !is_in_text;
    }
    if (at < line.size()) text += line[at++];
  }
  return text;
}

// Returns whether DuckDB writes numbers of this type as texts.
bool IsWrittenAsText(std::string_view type) {
  return type.starts_with("HUGEINT") || type.starts_with("UHUGEINT") || type.starts_with("DECIMAL");
}

json NumberOf(const json& cell) {
  if (!cell.is_string()) return cell;
  const auto& text = cell.get_ref<const std::string&>();
  if (const auto whole = ParseNumber<int64_t>(text)) return *whole;
  double number = 0;
  return absl::SimpleAtod(text, &number) ? json(number) : cell;
}

}  // namespace

const json& Answer::At(size_t row, std::string_view column) const {
  static const json kNull;
  for (size_t i = 0; i < columns.size(); ++i) {
    if (columns[i].name == column && row < rows.size()) return rows[row][i];
  }
  return kNull;
}

absl::Status AnswerReader::BeginRows() {
  std::set<std::string> names;
  for (const AnswerColumn& column : columns_) {
    if (names.insert(column.name).second) continue;
    return Fail(ExitCode::kUsage, "two columns are called " + ShownText(column.name) +
                                      "; give one of them another name with AS");
  }
  is_in_rows_ = true;
  return sink_.OnQuestion(question_, columns_);
}

absl::Status AnswerReader::ReadLine(std::string_view line) {
  if (line.empty()) return absl::OkStatus();
  auto document = nlohmann::ordered_json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (document.is_discarded()) {
    document = nlohmann::ordered_json::parse(WithoutInfinities(line), nullptr, false);
  }
  if (!document.is_object()) {
    return Fail(ExitCode::kBug, "the engine's answer cannot be read: " + ShownText(line));
  }
  if (const auto name = document.find("proftrace_question");
      name != document.end() && name->is_string()) {
    question_ = name->get<std::string>();
    columns_.clear();
    is_in_rows_ = false;
    return absl::OkStatus();
  }
  if (!is_in_rows_) {
    if (document.contains("proftrace_rows")) return BeginRows();
    columns_.push_back({document.value("column_name", ""), document.value("column_type", "")});
    return absl::OkStatus();
  }
  std::vector<json> cells;
  for (const AnswerColumn& column : columns_) {
    json cell = document.contains(column.name) ? json(document[column.name]) : json();
    cells.push_back(IsWrittenAsText(column.type) ? NumberOf(cell) : std::move(cell));
  }
  return sink_.OnRow(cells);
}

}  // namespace proftrace
