// Plans rows outside of the dispatcher's functions: from a file's facts into the plan of one
// process.
#pragma once

#include <absl/container/flat_hash_set.h>

#include <cstdint>
#include <vector>

#include "symbols/plan/input_plan.h"
#include "symbols/probe_plan.h"
#include "symbols/torch/module_analysis.h"
#include "symbols/torch/version_layouts.h"

namespace proftrace {

// Offsets that depend on the versions of torch and Python; 0 = not known.
struct RowOffsets {
  uint32_t python_object = 0;  // PythonNodeObjectOffset()
  uint8_t python_text = 0;     // PythonTextOffset()
  NodeOffsets node;
};

// Returns the label that all rows of autograd nodes have.
Label LabelOfNodes();

class RowPlanner {
 public:
  // `inputs`: null where inputs are not read. `inputs` and `plan` must outlive the planner.
  RowPlanner(const RowOffsets& offsets, InputPlanner* inputs, ProbePlan* plan)
      : offsets_(offsets), inputs_(inputs), plan_(plan) {}

  // Adds the file's rows and their ends to `points`, except at file offsets that are `taken`.
  void AddRows(const ModuleFacts& facts, uint64_t load_bias, absl::flat_hash_set<uint64_t>* taken,
               std::vector<ProbePoint>* points);

 private:
  ProbePoint PointOf(const RowProbe& probe, size_t site, uint64_t load_bias);

  RowOffsets offsets_;
  InputPlanner* inputs_;
  ProbePlan* plan_;
};

}  // namespace proftrace
