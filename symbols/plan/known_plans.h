// The facts of libraries that nearly all users run, found out beforehand and shipped inside of the
// program: what takes seconds for a libtorch is there at once (scripts/make-known-plans.py).
//
// An entry is of one library by its build-id. Before it is used, the code that it speaks of is
// compared with the file's: a file that only says that it has that build-id is analysed. Entries
// that another analysis made (kAnalysisVersion) are left out.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "symbols/process/held_file.h"
#include "symbols/torch/module_analysis.h"

namespace proftrace {

// To be raised whenever AnalyzeModule() would answer otherwise for a library that is shipped:
// `plan_dump --check-known LIBRARY.so`, which the tests run, says so.
inline constexpr uint32_t kAnalysisVersion = 1;

// Returns the facts of a file; nullopt: it is not known, or its code is not what the entry speaks
// of. Some 30 ms. Not for files that another process has to read.
std::optional<ModuleFacts> FindKnownPlan(const HeldFile& file, const std::string& build_id);

// As FindKnownPlan(), among `entries`, one behind the other.
std::optional<ModuleFacts> FindPlanIn(std::string_view entries, const HeldFile& file,
                                      const std::string& build_id);

// Returns an entry with the facts of a file; empty: it could not be read.
std::string MakeKnownPlan(const HeldFile& file, const std::string& build_id,
                          const ModuleFacts& facts);

}  // namespace proftrace
