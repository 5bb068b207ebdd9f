// The page of `fleet diff`: what has changed from one run to another.
#pragma once

#include <absl/status/status.h>

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "userspace/fleet_questions/report.h"
#include "userspace/fleet_questions/request.h"

namespace proftrace {

// Which of a directory's runs is compared; nullopt: the only one.
struct RunChoice {
  std::optional<std::string> job;
  std::optional<int64_t> attempt;
};

// Has the request work out the averages of a run, over the tables that it has last been given.
// `is_after`: it is the second of the two runs.
void AddRun(const RunChoice& choice, bool is_after, FleetRequest* request);

// Fails with kUsage where a directory has several runs that the choice leaves, or none: averages of
// several are those of no run.
absl::Status CheckIsOneRun(const ReportAnswers& answers, const RunChoice& choice, bool is_after,
                           const std::string& directory);

// Returns the names of the questions that it asks.
std::vector<std::string_view> DiffQuestions();

std::string DiffText(const ReportAnswers& answers);
nlohmann::ordered_json DiffJson(const ReportAnswers& answers);

}  // namespace proftrace
