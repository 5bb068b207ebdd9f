// Writes answers as text: as a table for a terminal, as CSV, or as JSON.
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
  // Writes the rest. To be called when the engine has ended without an error.
  virtual void Finish() = 0;
};

// Returns a writer of one answer, which passes its text to `write` as it comes. A table is written
// by Finish() only: its first kMostTableRows rows, and how many rows there are.
inline constexpr size_t kMostTableRows = 1000;
std::unique_ptr<AnswerWriter> NewAnswerWriter(AnswerForm form,
                                              std::function<void(const std::string&)> write);

// Returns a cell as text for a table. Numbers get no more decimals than a reader needs.
std::string CellText(const nlohmann::json& cell);

}  // namespace proftrace
