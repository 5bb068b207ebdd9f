// The operators that a live process has registered: c10::Dispatcher's list, read from outside.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "symbols/probe_plan.h"
#include "symbols/process/process_memory.h"

namespace proftrace {

struct OperatorList {
  std::vector<OperatorInfo> operators;  // ascending by address
  bool is_whole = false;                // from the list's begin to its end, every link in order
};

// Reads the operators of the Dispatcher to which the word at `slot` points: its first member is a
// std::list of OperatorDef, each beginning with name and overload name. `old_abi`: these are
// pre-C++11 strings. A list that changes while it is read is read again; one that never holds
// together gives what was read up to the first node that cannot be one. Empty, and not whole: there
// is no list yet.
OperatorList ReadOperatorList(const TargetMemory& memory, uint64_t slot, bool old_abi);

// Adds gaps that name what the plan lacks of the Dispatcher's list.
void AddOperatorGaps(ProbePlan* plan);

// Returns the name of the operator in a node of that list; empty: it cannot be read.
std::string NameOfOperatorNode(const TargetMemory& memory, uint64_t node, bool old_abi);

// Returns at::_ops' identifier for an operator: "aten::add", "Tensor" -> "add_Tensor".
std::string OperatorSymbolIdentifier(std::string_view name, std::string_view overload_name);

}  // namespace proftrace
