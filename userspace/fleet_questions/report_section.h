// Shows an answer as a table of a page, or as JSON.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "userspace/fleet_questions/answer.h"

namespace proftrace {

enum class Unit : uint8_t { kText, kNumber, kTime, kShare, kBytes };

struct ReportColumn {
  const char* name;  // the column's name in the answer
  const char* title;
  Unit unit = Unit::kText;
};

struct ReportSection {
  const char* question;
  const char* title;
  std::vector<ReportColumn> columns;
};

// Returns the title and the first rows. `directory`: as the suggested command for all rows names
// it; empty where no command is to be suggested.
std::string SectionText(const ReportSection& section, const Answer& answer,
                        const std::string& directory);

// Returns a list with one object per row.
nlohmann::ordered_json RowsJson(const Answer& answer);

}  // namespace proftrace
