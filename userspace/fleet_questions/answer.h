// What an engine answers: lines of JSON (fleet/engine/driver.py says which), of DuckDB's program
// and of the driver alike.
#pragma once

#include <absl/status/status.h>

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace proftrace {

struct AnswerColumn {
  std::string name;
  std::string type;  // the engine's word
};

// Takes the answers of a request, one after the other.
class AnswerSink {
 public:
  virtual ~AnswerSink() = default;
  virtual absl::Status OnQuestion(const std::string& name,
                                  const std::vector<AnswerColumn>& columns) = 0;
  // A cell a column: null, a number, a flag, a text; lists and the like as they are.
  virtual absl::Status OnRow(const std::vector<nlohmann::json>& cells) = 0;
};

// An answer as a whole: for those that are short.
struct Answer {
  std::vector<AnswerColumn> columns;
  std::vector<std::vector<nlohmann::json>> rows;

  // Returns the cell; null where there is no such row or column.
  const nlohmann::json& At(size_t row, std::string_view column) const;
};

// Reads an engine's lines into a sink.
class AnswerReader {
 public:
  explicit AnswerReader(AnswerSink& sink) : sink_(sink) {}

  // Fails with kUsage where two columns of an answer have one name, and with kBug for what is no
  // answer.
  absl::Status ReadLine(std::string_view line);

  // Whether the last question's rows have begun.
  bool IsInRows() const { return is_in_rows_; }

 private:
  absl::Status BeginRows();

  AnswerSink& sink_;
  std::string question_;
  std::vector<AnswerColumn> columns_;
  bool is_in_rows_ = false;
};

}  // namespace proftrace
