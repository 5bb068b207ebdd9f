// The files of fleet/, which the build puts into the program: it asks without any of them.
#pragma once

#include <string_view>
#include <vector>

namespace proftrace {

struct EmbeddedQuestion {
  std::string_view file_name;  // "12_stragglers"
  std::string_view text;
};

// Returns fleet/sql/*.sql in the order of their names.
const std::vector<EmbeddedQuestion>& EmbeddedQuestions();

// fleet/engine/driver.py: asks DuckDB's or Spark's Python package.
extern const std::string_view kEngineDriver;

}  // namespace proftrace
