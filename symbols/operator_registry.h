// The operators that a live process has registered: c10::Dispatcher's list, read from outside.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "symbols/probe_plan.h"
#include "symbols/process_memory.h"

namespace proftrace {

// Reads the operators of the Dispatcher to which the word at `slot` points: its first member is a
// std::list of OperatorDef, each beginning with name and overload name. `old_abi`: these are
// pre-C++11 strings. Stops at the first node that cannot be one, so that a list that changes while
// it is read gives what was read so far. Ascending by address; empty when there is none yet.
std::vector<OperatorInfo> ReadOperatorList(const TargetMemory& memory, uint64_t slot, bool old_abi);

// The name of the operator in a node of that list; empty when it cannot be read.
std::string NameOfOperatorNode(const TargetMemory& memory, uint64_t node, bool old_abi);

// at::_ops' identifier for an operator: "aten::add", "Tensor" -> "add_Tensor".
std::string OperatorSymbolIdentifier(std::string_view name, std::string_view overload_name);

}  // namespace proftrace
