// The files of fleet/. The build embeds them in the program, which needs none of them at run time.
#pragma once

#include <string_view>
#include <vector>

#include "userspace/base/embedded_text.h"

namespace proftrace {

// Returns fleet/sql/*.sql ("12_stragglers") in the order of their names.
const std::vector<EmbeddedText>& EmbeddedQuestions();

// The text of fleet/engine/driver.py, which asks DuckDB's or Spark's Python package.
extern const std::string_view kEngineDriver;

}  // namespace proftrace
