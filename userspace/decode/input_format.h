// Turns recorded values (bpf/abi/records.h, enum pt_value) into the texts that torch.profiler
// shows.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "userspace/model/operator_inputs.h"

namespace proftrace {

// The forms in which a version of torch shows inputs (torch/csrc/profiler/collection.cpp,
// util.cpp).
struct InputForm {
  bool has_strides = true;       // from 2.2 on
  bool has_nested_lists = true;  // a list of tensors shows their shapes, from 2.2 on
  bool has_scalar_lists = true;  // lists of scalars have a type, from 2.1 on
  bool has_whole_lists = true;   // a list with a tensor of no shape shows nothing, from 2.0 on

  bool operator==(const InputForm&) const = default;
};
InputForm InputFormOf(std::string_view torch_version);

// Formats the values of `count` arguments. `doubles`: the floating-point registers as bits; the
// value of a missing register is shown as "?". nullopt where the values are malformed.
std::optional<OperatorInputs> FormatInputs(std::span<const uint64_t> values, uint32_t count,
                                           std::span<const uint64_t> doubles,
                                           const InputForm& form);

}  // namespace proftrace
