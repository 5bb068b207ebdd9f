// The files of fleet/. The build embeds them in the program, which needs none of them at run time.
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

// The text of fleet/engine/driver.py, which asks DuckDB's or Spark's Python package.
extern const std::string_view kEngineDriver;

}  // namespace proftrace
