// A probe plan as bytes, on its way from the worker that made it (plan_worker.cc).
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "symbols/probe_plan.h"
#include "symbols/process/held_file.h"

namespace proftrace {

// Encodes a plan. Files are named by their state: descriptors do not go with it.
std::string EncodePlan(const ProbePlan& plan);

// Returns the file with that state that the reader of the plan has open itself; null: none.
using HeldFileOf = std::function<std::shared_ptr<const HeldFile>(const FileState&)>;

// Decodes a plan. nullopt: something is not as in a plan, as the worker may have been made to lie.
// Places in files may still be wrong then, but do not lie outside of them, nor in other files.
std::optional<ProbePlan> DecodePlan(std::string_view bytes, const HeldFileOf& held_file);

// Encode and decode operators, ascending by address, with the same checks.
std::string EncodeOperators(const std::vector<OperatorInfo>& operators);
std::optional<std::vector<OperatorInfo>> DecodeOperators(std::string_view bytes);

}  // namespace proftrace
