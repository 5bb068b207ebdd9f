// A probe plan as bytes, on its way from the worker that made it (plan_worker.cc).
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "symbols/held_file.h"
#include "symbols/probe_plan.h"

namespace proftrace {

// Files are told by their state: descriptors do not go with it.
std::string EncodePlan(const ProbePlan& plan);

// The file with that state that the reader of the plan has open itself; null = it has none.
using HeldFileOf = std::function<std::shared_ptr<const HeldFile>(const FileState&)>;

// Nothing where something is not as in a plan: the worker may have been made to lie. What it says
// of places in files may still be wrong, but not lie outside of them, and not in other files.
std::optional<ProbePlan> DecodePlan(std::string_view bytes, const HeldFileOf& held_file);

// Likewise of operators, ascending by address.
std::string EncodeOperators(const std::vector<OperatorInfo>& operators);
std::optional<std::vector<OperatorInfo>> DecodeOperators(std::string_view bytes);

}  // namespace proftrace
