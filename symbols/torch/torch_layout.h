// Finds the layout of tensors and scalars of a torch version in memory.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "bpf/abi/records.h"
#include "symbols/process/process_memory.h"
#include "symbols/torch/call_arguments.h"
#include "symbols/torch/operator_schema.h"

namespace proftrace {

struct TorchLayout {
  abi::pt_torch_layout layout{};
  OptionalForm optional_form = OptionalForm::kStd;
  std::string refusal;  // why the layout is not known; empty where it is known
};

// Finds the layout in a table of versions ("2.11.0+cu130"), measured with the headers of 1.13 and
// 2.0 to 2.15. Checks it on the live c10::UndefinedTensorImpl at `undefined_tensor` (its shape is
// [0], with stride 1 and no element) and on the numbers of types that `schemas` have. Refuses a
// layout that does not agree, so that no shape is wrong.
TorchLayout FindTorchLayout(const TargetMemory& memory, std::string_view torch_version,
                            uint64_t undefined_tensor, const SchemaReading& schemas);

}  // namespace proftrace
