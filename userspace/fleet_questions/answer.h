// Reads an engine's answer: lines of JSON, which DuckDB's program and the driver write alike.
// fleet/engine/driver.py describes the lines.
#pragma once

#include <absl/status/status.h>

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace proftrace {

struct AnswerColumn {
  std::string name;
  std::string type;  // the engine's name of the type
};

// Takes the answers of a request, one after the other.
class AnswerSink {
 public:
  virtual ~AnswerSink() = default;
  virtual absl::Status OnQuestion(const std::string& name,
                                  const std::vector<AnswerColumn>& columns) = 0;
  // Takes a row, with one cell for each column: null, a number, a flag or a text; lists and other
  // values are passed on as they are.
  virtual absl::Status OnRow(const std::vector<nlohmann::json>& cells) = 0;
};

// A whole answer in memory, for short answers.
struct Answer {
  std::vector<AnswerColumn> columns;
  std::vector<std::vector<nlohmann::json>> rows;

  // Returns the cell; a JSON null where there is no such row or column.
  const nlohmann::json& At(size_t row, std::string_view column) const;
};

// Reads an engine's lines into a sink.
class AnswerReader {
 public:
  explicit AnswerReader(AnswerSink& sink) : sink_(sink) {}

  // Reads a line. Fails with kUsage where two columns of an answer have the same name, and with
  // kBug where the line is not an answer.
  absl::Status ReadLine(std::string_view line);

  // Returns whether the rows of the last question have begun.
  bool IsInRows() const { return is_in_rows_; }

 private:
  absl::Status BeginRows();

  AnswerSink& sink_;
  std::string question_;
  std::vector<AnswerColumn> columns_;
  bool is_in_rows_ = false;
};

}  // namespace proftrace
