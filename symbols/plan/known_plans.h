// The facts of libraries that nearly all users run, also of those in which there is nothing to
// probe, because that takes as long to find. They were found beforehand and are shipped inside of
// the program (scripts/make-known-plans.py), so that an analysis that takes seconds for a libtorch
// is not needed.
//
// An entry is that of a file with the same size and the same code at the places that the entry
// names, so that a file which only claims to be that library is analysed itself. Where the build-id
// is another one, ModuleFacts::dispatcher_slot is left out, and entries with other addresses of
// data are not used: libtorch_cuda.so has the same code for each Python, and its data elsewhere.
// Entries of another kAnalysisVersion are left out.
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

// Returns the facts of a file. nullopt: there is no entry for it, or another process has to read
// the file. Takes some 30 ms for a libtorch_cpu.so, and next to nothing for a file of another size.
std::optional<ModuleFacts> FindKnownPlan(const HeldFile& file, const std::string& build_id);

// Does the same with `entries`, which lie one behind the other.
std::optional<ModuleFacts> FindPlanIn(std::string_view entries, const HeldFile& file,
                                      const std::string& build_id);

// Returns an entry with the facts of a file; empty: the file could not be read.
std::string MakeKnownPlan(const HeldFile& file, const std::string& build_id,
                          const ModuleFacts& facts);

}  // namespace proftrace
