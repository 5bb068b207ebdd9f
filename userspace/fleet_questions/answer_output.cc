#include "userspace/fleet_questions/answer_output.h"

#include <absl/strings/str_format.h>

#include <cmath>
#include <utility>

#include "exporters/sinks/escape.h"
#include "exporters/sinks/json_writer.h"
#include "exporters/text/text_table.h"

namespace proftrace {
namespace {

using nlohmann::json;
using Write = std::function<void(const std::string&)>;

// Returns a value as JSON text, with bytes that are not UTF-8 replaced.
std::string Dump(const json& cell) {
  return cell.is_string() ? JsonQuoted(cell.get_ref<const std::string&>()) : cell.dump();
}

class TableWriter : public AnswerWriter {
 public:
  explicit TableWriter(Write write) : write_(std::move(write)) {}

  absl::Status OnQuestion(const std::string& /*name*/,
                          const std::vector<AnswerColumn>& columns) override {
    columns_ = columns;
    return absl::OkStatus();
  }

  absl::Status OnRow(const std::vector<json>& cells) override {
    if (count_++ < kMostTableRows) rows_.push_back(cells);
    return absl::OkStatus();
  }

  void Finish() override {
    std::vector<TextColumn> titles;
    for (size_t i = 0; i < columns_.size(); ++i) {
      bool is_number = false;
      for (const std::vector<json>& row : rows_) is_number = is_number || row[i].is_number();
      titles.push_back({columns_[i].name, is_number});
    }
    TextTable table(std::move(titles));
    for (const std::vector<json>& row : rows_) {
      std::vector<std::string> cells;
      for (const json& cell : row) cells.push_back(CellText(cell));
      table.AddRow(std::move(cells));
    }
    write_(table.Take());
    if (count_ > rows_.size()) {
      write_(absl::StrFormat("%d of %d rows; --csv and --json give all\n", rows_.size(), count_));
    }
  }

 private:
  Write write_;
  std::vector<AnswerColumn> columns_;
  std::vector<std::vector<json>> rows_;
  size_t count_ = 0;
};

class CsvWriter : public AnswerWriter {
 public:
  explicit CsvWriter(Write write) : write_(std::move(write)) {}

  absl::Status OnQuestion(const std::string& /*name*/,
                          const std::vector<AnswerColumn>& columns) override {
    std::string line;
    for (const AnswerColumn& column : columns) {
      line += (line.empty() ? "" : ",") + CsvField(column.name);
    }
    write_(line + "\n");
    return absl::OkStatus();
  }

  absl::Status OnRow(const std::vector<json>& cells) override {
    std::string line;
    for (size_t i = 0; i < cells.size(); ++i) {
      if (i > 0) line += ",";
      if (cells[i].is_string()) line += CsvField(cells[i].get_ref<const std::string&>());
      if (!cells[i].is_string() && !cells[i].is_null())
        line += CsvField(cells[i].dump(), CsvText::kExact);
    }
    write_(line + "\n");
    return absl::OkStatus();
  }

  void Finish() override {}

 private:
  Write write_;
};

class AnswerJsonWriter : public AnswerWriter {
 public:
  explicit AnswerJsonWriter(Write write) : write_(std::move(write)) {}

  absl::Status OnQuestion(const std::string& name,
                          const std::vector<AnswerColumn>& columns) override {
    for (const AnswerColumn& column : columns) keys_.push_back(JsonEscaped(column.name));
    json_.BeginObject();
    json_.Key("question").String(name);
    json_.Key("columns").BeginArray();
    for (const std::string& key : keys_) json_.Word(key);
    json_.EndArray();
    json_.Key("rows").BeginArray();
    Pass();
    return absl::OkStatus();
  }

  absl::Status OnRow(const std::vector<json>& cells) override {
    json_.Line().BeginObject();
    for (size_t i = 0; i < cells.size(); ++i) json_.Key(keys_[i]).Raw(Dump(cells[i]));
    json_.EndObject();
    Pass();
    return absl::OkStatus();
  }

  void Finish() override {
    json_.EndLine();
    json_.EndArray();
    json_.EndObject();
    json_.EndLine();
    write_(json_.Done().Take());
  }

 private:
  // Passes on what was written, so that an answer of many rows is never a whole in memory.
  void Pass() { write_(json_.output().Take()); }

  Write write_;
  std::vector<std::string> keys_;  // escaped
  JsonText json_{StringText()};
};

}  // namespace

std::unique_ptr<AnswerWriter> NewAnswerWriter(AnswerForm form, Write write) {
  switch (form) {
    case AnswerForm::kCsv:
      return std::make_unique<CsvWriter>(std::move(write));
    case AnswerForm::kJson:
      return std::make_unique<AnswerJsonWriter>(std::move(write));
    case AnswerForm::kTable:
      break;
  }
  return std::make_unique<TableWriter>(std::move(write));
}

std::string CellText(const json& cell) {
  if (cell.is_null()) return "";
  if (cell.is_string()) return cell.get<std::string>();
  if (!cell.is_number_float()) return cell.dump();
  const double value = cell.get<double>();
  if (std::abs(value) >= 1000) return absl::StrFormat("%.0f", value);
  return absl::StrFormat("%.4g", value);
}

}  // namespace proftrace
