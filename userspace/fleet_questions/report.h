// Makes the page of `fleet report`: sentences first, then tables. All numbers are answers to
// questions; this code only adds units and arranges them.
#pragma once

#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "userspace/fleet_questions/answer.h"

namespace proftrace {

// Returns the names of the questions that a report needs.
std::vector<std::string_view> ReportQuestions();

// Keeps the answers to a report's questions.
class ReportAnswers : public AnswerSink {
 public:
  absl::Status OnQuestion(const std::string& name,
                          const std::vector<AnswerColumn>& columns) override;
  absl::Status OnRow(const std::vector<nlohmann::json>& cells) override;

  // Returns the answer of that name; an answer without rows where the question was not asked.
  const Answer& Of(std::string_view name) const;

 private:
  std::map<std::string, Answer, std::less<>> answers_;
  Answer* last_ = nullptr;
};

// Returns the first sentences of the page: which rank is slow, since when, by how much, why, by
// which evidence and how surely; or why that cannot be known.
std::vector<std::string> ReportSentences(const ReportAnswers& answers);

// Returns the sentences about one slow rank, a row of `verdict`: what, why, by which evidence, how
// surely. All but the first are indented.
std::vector<std::string> SlowRankSentences(const Answer& verdict, size_t row);

// Returns the line that tells how precise the common clock is.
std::string ClockLine(const ReportAnswers& answers);

// Returns the whole page. `directory`: as the commands that the page suggests name it.
std::string ReportText(const ReportAnswers& answers, const std::string& directory);
nlohmann::ordered_json ReportJson(const ReportAnswers& answers);

}  // namespace proftrace
