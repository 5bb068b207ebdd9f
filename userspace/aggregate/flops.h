// Estimates how many floating-point operations a call does, by torch.profiler's formulas
// (with_flops=True; torch/csrc/profiler/util.cpp, computeFlops). There are formulas for a few
// operators, which use the shapes of the inputs.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <cstdint>
#include <string_view>
#include <vector>

#include "userspace/model/operator_inputs.h"
#include "userspace/model/timeline.h"

namespace proftrace {

// Returns whether torch has a formula for the operator.
bool HasFlops(std::string_view name);

// Returns the flops of an operator; 0, as in torch: there is no formula, or it does not fit the
// inputs.
int64_t FlopsOf(std::string_view name, const OperatorInputs& inputs);

// The flops of a recording's spans, computed once for each operator and its inputs.
class SpanFlops {
 public:
  // Returns 0 for all spans where flops were not asked for. `timeline` must outlive this.
  explicit SpanFlops(const Timeline& timeline);
  int64_t Of(SpanId id, const Span& span);

 private:
  const Timeline& timeline_;
  std::vector<bool> has_formula_;                 // by label
  absl::flat_hash_map<uint64_t, int64_t> known_;  // by label and inputs
};

}  // namespace proftrace
