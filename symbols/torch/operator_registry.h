// Reads the operators that a live process has registered, from the list of c10::Dispatcher.
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
  // true: the list was read from its begin to its end, with all links in order
  bool is_whole = false;
};

// Reads the operators of the Dispatcher to which the word at `slot` points. Its first member is a
// std::list of OperatorDef, each of which begins with a name and an overload name. `old_abi`: these
// are pre-C++11 strings. A list that changes while it is read is read again. If it is never read
// whole, the result has the operators up to the first broken node. Empty and not whole: there is no
// list yet.
OperatorList ReadOperatorList(const TargetMemory& memory, uint64_t slot, bool old_abi);

// Adds gaps that name the operators of the Dispatcher's list that the plan lacks.
void AddOperatorGaps(ProbePlan* plan);

// Returns the name of the operator in a node of that list; empty: the node cannot be read.
std::string NameOfOperatorNode(const TargetMemory& memory, uint64_t node, bool old_abi);

// Returns at::_ops' identifier for an operator: "aten::add", "Tensor" -> "add_Tensor".
std::string OperatorSymbolIdentifier(std::string_view name, std::string_view overload_name);

}  // namespace proftrace
