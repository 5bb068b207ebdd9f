// Makes the page of `fleet diff`, which shows what has changed from one run to another.
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

// The run of a directory that is compared. A member that is nullopt allows any run, of which there
// must be only one.
struct RunChoice {
  std::optional<std::string> job;
  std::optional<int64_t> attempt;
};

// Adds the averages of a run to the request, over the tables that the request was given last.
// `is_after`: whether this is the second of the two runs.
void AddRun(const RunChoice& choice, bool is_after, FleetRequest* request);

// Fails with kUsage where the choice leaves several runs of the directory, because averages over
// several runs are meaningless, and where the chosen run is not there.
absl::Status CheckIsOneRun(const ReportAnswers& answers, const RunChoice& choice, bool is_after,
                           const std::string& directory);

// Returns the names of the questions that the page needs.
std::vector<std::string_view> DiffQuestions();

std::string DiffText(const ReportAnswers& answers);
nlohmann::ordered_json DiffJson(const ReportAnswers& answers);

}  // namespace proftrace
