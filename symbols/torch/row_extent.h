// Finds where a row that is a piece of a function is over.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "symbols/x86/flow_graph.h"

namespace proftrace {

// Returns the instruction at which the row that began at node `from` is over, whether there were
// callbacks or not: where both ways meet again, moved on to a cheap instruction. nullopt: the row
// outlives the function.
std::optional<uint32_t> FindMeetingPoint(const FlowGraph& graph, uint32_t from);

// Does this for functions that destroy the callbacks on each way separately: returns the jumps
// after the tests whether there were any, of which each way passes one. Empty: it is not so.
std::vector<uint32_t> FindFlagTests(const FlowGraph& graph, uint32_t from);

// Does this for unoptimised code: returns the calls that destroy the callbacks.
std::vector<uint32_t> FindDestructions(const FlowGraph& graph, uint32_t from);

}  // namespace proftrace
