// An answer as a table of a page, or as JSON.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "userspace/fleet_questions/answer.h"

namespace proftrace {

enum class Unit : uint8_t { kText, kNumber, kTime, kShare, kBytes };

struct ReportColumn {
  const char* name;  // in the answer
  const char* title;
  Unit unit = Unit::kText;
};

struct ReportSection {
  const char* question;
  const char* title;
  std::vector<ReportColumn> columns;
};

// Returns the title and the first rows. `directory` is as it is named in the command that gives
// all; empty: no such command is named.
std::string SectionText(const ReportSection& section, const Answer& answer,
                        const std::string& directory);

// Returns an object a row.
nlohmann::ordered_json RowsJson(const Answer& answer);

}  // namespace proftrace
