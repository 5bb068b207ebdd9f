// The page of `fleet diff`: what has changed from one run to another.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "userspace/fleet_questions/report.h"

namespace proftrace {

// Returns the names of the questions that it asks.
std::vector<std::string_view> DiffQuestions();

std::string DiffText(const ReportAnswers& answers);
nlohmann::ordered_json DiffJson(const ReportAnswers& answers);

}  // namespace proftrace
