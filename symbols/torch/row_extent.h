// Finds the ends of a row that is only a part of a function.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "symbols/x86/flow_graph.h"

namespace proftrace {

// Returns the instruction at which the row that began at node `from` has ended, with callbacks or
// without: where both paths meet again, or a cheaper instruction right behind that. nullopt: there
// is no such place, as where the row outlives the function.
std::optional<uint32_t> FindMeetingPoint(const FlowGraph& graph, uint32_t from);

// Finds the ends in functions that destroy the callbacks on each path separately: returns the jumps
// after the tests whether there were callbacks. Every path passes one of them. Empty: the function
// is not like that.
std::vector<uint32_t> FindFlagTests(const FlowGraph& graph, uint32_t from);

// Finds the ends in unoptimised code: returns the calls that destroy the callbacks.
std::vector<uint32_t> FindDestructions(const FlowGraph& graph, uint32_t from);

}  // namespace proftrace
