// Makes the tables of a trace that another profiler has written, from a stream of its events:
// steps, operators and work of GPUs. Columns that such a trace cannot tell stay empty.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/functional/function_ref.h"
#include "exporters/tables/kernel_rows.h"
#include "exporters/tables/operator_rows.h"
#include "exporters/tables/step_rows.h"
#include "userspace/aggregate/step_work.h"
#include "userspace/collectives/source_input.h"

namespace proftrace {

// Needs a few words of memory for each call of an operator and each piece of a GPU's work.
class TraceTables {
 public:
  void Take(const SourceEvent& event);
  // Computes the tables. `base_ns` is added to all times.
  void Finish(int64_t base_ns = 0);

  const std::vector<StepRow>& steps() const { return steps_; }
  void ForEachOperator(absl::FunctionRef<bool(const OperatorRow&)> add) const;
  void ForEachKernel(std::optional<int64_t> pid,
                     absl::FunctionRef<bool(const KernelRow&)> add) const;

 private:
  struct Call {
    int64_t tid = 0;
    int64_t begin_ns = 0;
    int64_t end_ns = 0;
    uint32_t name = 0;
    bool is_annotation = false;
  };
  struct Sums {
    uint64_t calls = 0;
    int64_t self_ns = 0;
    int64_t total_ns = 0;
  };
  struct Work {
    std::vector<int64_t> durations_ns;
    int64_t bytes = 0;
  };

  uint32_t NumberOf(std::string_view name);
  void TakeDeviceWork(const SourceEvent& event, std::string_view kind);
  void TakeStep(const SourceEvent& event);
  void SumOperators();

  absl::flat_hash_map<std::string, uint32_t> numbers_;
  std::vector<std::string> names_;
  std::vector<Call> calls_;
  std::map<std::pair<std::string, bool>, Sums> operators_;  // by name; whether it is an annotation
  // By GPU, kind and number of the name.
  std::map<std::tuple<int64_t, std::string, uint32_t>, Work> works_;
  std::vector<StepRow> steps_;
  WorkCollector collector_;
};

}  // namespace proftrace
