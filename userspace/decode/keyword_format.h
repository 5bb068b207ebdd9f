// Turns recorded keyword values of annotations (bpf/abi/records.h, PT_KEYWORDS) into KeywordValues.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "userspace/model/operator_inputs.h"

namespace proftrace {

// Returns `count` names, each with its value. nullopt: the values are malformed.
std::optional<std::vector<KeywordValue>> FormatKeywords(std::span<const uint64_t> values,
                                                        uint32_t count);

}  // namespace proftrace
