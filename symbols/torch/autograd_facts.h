// Reads the facts that decide torch's sequence numbers from the code of a few exported functions:
// the thread's next number (at::sequence_number::peek), its number in torch
// (at::RecordFunction::currentThreadId), whether gradients are on (c10::GradMode::is_enabled), and
// which keys of a dispatch key set count (c10::Dispatcher::sequenceNumberForRunningRecordFunction).
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "symbols/torch/thread_variable.h"
#include "symbols/x86/flow_graph.h"

namespace proftrace {

// The facts from one file. c10 and torch lie in different files and have one half of them each.
struct AutogradFacts {
  // Where Node::operator() reads a node's sequence number, as an offset from the node; 0 = not
  // clear.
  uint16_t node_sequence = 0;
  ThreadVariable sequence;
  ThreadVariable thread_number;
  ThreadVariable state;      // c10::AutogradState
  ThreadVariable state_set;  // a byte; 0 = the state is not initialised
  // In the state: the byte whose bit 0 tells whether gradients are on
  std::optional<uint8_t> grad_mode_offset;
  // The lowest of three autograd keys that lie side by side in a key set, from each of the two
  // functions that use it; 0 = not found.
  uint8_t lowest_key = 0;
  uint8_t lowest_key_of_alias = 0;
  bool has_rule = false;
  // Only the highest key of the set counts, which must be one of the three (before 2.2)
  bool highest_only = false;
};

// The functions that AutogradFacts come from.
enum class AutogradFunction : uint8_t {
  kNone,
  kPeek,
  kThreadNumber,
  kState,
  kGradMode,
  kRuleByKey,  // takes the highest key
  kRuleBySet,
  kAlias,  // c10::runtimeDispatchKeySetHas, which goes with kRuleByKey
};

AutogradFunction FindAutogradFunction(std::string_view symbol);

// Adds the facts that the function's code shows.
void ReadAutogradFunction(AutogradFunction function, const FlowGraph& graph, AutogradFacts* facts);

}  // namespace proftrace
