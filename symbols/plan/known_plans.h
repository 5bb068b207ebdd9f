// The facts of libraries that nearly all users run. They were found beforehand and are shipped
// inside of the program (scripts/make-known-plans.py), so that an analysis that takes seconds for a
// libtorch is not needed.
//
// An entry belongs to one library, by its build-id. Before the entry is used, the code at the
// places that it names is compared with the file's code, so that a file which only claims the
// build-id is analysed itself. Entries of another kAnalysisVersion are left out.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "symbols/process/held_file.h"
#include "symbols/torch/module_analysis.h"

namespace proftrace {

// Must be raised whenever AnalyzeModule() gives another result for a library that has an entry.
// `plan_dump --check-known LIBRARY.so`, which the tests run, tells when that is so.
inline constexpr uint32_t kAnalysisVersion = 1;

// Returns the facts of a file. nullopt: there is no entry, the file's code is not that of the
// entry, or another process has to read the file. Takes some 30 ms.
std::optional<ModuleFacts> FindKnownPlan(const HeldFile& file, const std::string& build_id);

// Does the same with `entries`, which lie one behind the other.
std::optional<ModuleFacts> FindPlanIn(std::string_view entries, const HeldFile& file,
                                      const std::string& build_id);

// Returns an entry with the facts of a file; empty: the file could not be read.
std::string MakeKnownPlan(const HeldFile& file, const std::string& build_id,
                          const ModuleFacts& facts);

}  // namespace proftrace
