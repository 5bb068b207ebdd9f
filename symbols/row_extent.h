// Where a row that is a piece of a function is over.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "symbols/flow_graph.h"

namespace proftrace {

// The instruction at which the row that began at node `from` is over, whether there were callbacks
// or not: where both ways meet again, moved on to a cheap instruction. Nothing for a row that
// outlives the function.
std::optional<uint32_t> FindMeetingPoint(const FlowGraph& graph, uint32_t from);

// The same for functions that destroy the callbacks on each way of their own: the jumps after the
// tests whether there were any, of which each way passes one. Empty where that is not so.
std::vector<uint32_t> FindFlagTests(const FlowGraph& graph, uint32_t from);

// The same for code that was not optimised: the calls that destroy the callbacks.
std::vector<uint32_t> FindDestructions(const FlowGraph& graph, uint32_t from);

}  // namespace proftrace
