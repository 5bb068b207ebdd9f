// Rows outside the dispatcher's functions, from a file's facts into the plan of one process.
#pragma once

#include <absl/container/flat_hash_set.h>

#include <cstdint>
#include <vector>

#include "symbols/input_plan.h"
#include "symbols/module_analysis.h"
#include "symbols/probe_plan.h"

namespace proftrace {

class RowPlanner {
 public:
  // `python_text_offset`: see PythonTextOffset(). `inputs`: null where they are not read. Both
  // pointers must outlive the planner.
  RowPlanner(uint8_t python_text_offset, InputPlanner* inputs, ProbePlan* plan)
      : python_text_offset_(python_text_offset), inputs_(inputs), plan_(plan) {}

  // Adds the file's rows and their ends, except at file offsets that are `taken`.
  void AddRows(const ModuleFacts& facts, uint64_t load_bias, absl::flat_hash_set<uint64_t>* taken,
               std::vector<ProbePoint>* points);

 private:
  ProbePoint PointOf(const RowProbe& probe, size_t site, uint64_t load_bias);

  uint8_t python_text_offset_;
  InputPlanner* inputs_;
  ProbePlan* plan_;
};

}  // namespace proftrace
