// Answers as text: for a terminal, as CSV, as JSON.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "userspace/fleet_questions/answer.h"

namespace proftrace {

enum class AnswerForm : uint8_t { kTable, kCsv, kJson };

class AnswerWriter : public AnswerSink {
 public:
  // Writes the rest, when the engine has ended well.
  virtual void Finish() = 0;
};

// Returns a writer of one answer, which gives its text to `write` as it comes. A table is there
// when it is finished: kMostTableRows of its rows, and how many there are.
inline constexpr size_t kMostTableRows = 1000;
std::unique_ptr<AnswerWriter> NewAnswerWriter(AnswerForm form,
                                              std::function<void(const std::string&)> write);

// Returns a cell for a table: numbers with decimals as short as they read well.
std::string CellText(const nlohmann::json& cell);

}  // namespace proftrace
