// Encodes a probe plan as bytes, in which form the worker that made it sends it (plan_worker.cc).
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

// Encodes a plan. Files are named by their state, because descriptors cannot be part of the bytes.
std::string EncodePlan(const ProbePlan& plan);

// Returns the file with that state which the receiver of the plan itself has open; null: there is
// none.
using HeldFileOf = std::function<std::shared_ptr<const HeldFile>(const FileState&)>;

// Decodes a plan. nullopt: the bytes are no plan. A hostile target may have made the worker lie:
// places in a decoded plan may be wrong, but they lie inside of the files that the receiver has
// open.
std::optional<ProbePlan> DecodePlan(std::string_view bytes, const HeldFileOf& held_file);

// Encode and decode operators, ascending by address, with the same checks.
std::string EncodeOperators(const std::vector<OperatorInfo>& operators);
std::optional<std::vector<OperatorInfo>> DecodeOperators(std::string_view bytes);

}  // namespace proftrace
