// A process that is about to load PyTorch, or is loading it. It is looked at again and again,
// cheaply, until its probes can be planned.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <optional>

#include "symbols/plan/planner.h"
#include "symbols/probe_plan.h"
#include "userspace/capture/targets/target_reader.h"
#include "userspace/model/ids.h"

namespace proftrace {

class LoadingProcess {
 public:
  // `reader` has a worker that runs ReadTargetWords(), and must outlive this object.
  explicit LoadingProcess(TargetReader* reader) : reader_(reader) {}

  // Returns whether the process has loaded PyTorch. Fails where it can never be recorded. With
  // `hold`, the process is stopped while its files are analysed, so that it runs nothing meanwhile.
  absl::StatusOr<bool> IsReady(Pid pid, const PlanOptions& options, bool hold);
  // Returns the plan of a process that is ready. The plan is made anew where operators have been
  // registered since, which takes a while: a process that must not run meanwhile is held during
  // this call and the attach. Returns nullopt where the process has no complete PyTorch any more.
  absl::StatusOr<std::optional<ProbePlan>> TakePlan(Pid pid, const PlanOptions& options);

  // Whether a file of PyTorch was mapped at the last look.
  bool has_torch() const { return mappings_ > 0; }

  // Returns the time (CLOCK_MONOTONIC) from which the process may have run operators: the last look
  // at which operators were not registered, or the first look. 0: operators are not registered yet.
  int64_t could_run_ns() const { return could_run_ns_; }

 private:
  // Whether nothing has changed for long enough. A plan that is made while libraries still register
  // their operators has no names and annotations of these.
  bool HasSettled(int64_t now_ns, bool hold) const;

  absl::StatusOr<bool> IsReadyNow(Pid pid, const PlanOptions& options, bool hold);
  // Makes plan_, except where PyTorch is only partly loaded.
  absl::Status Plan(Pid pid, const PlanOptions& options);
  // Does the same, with `hold` while the process is stopped.
  absl::Status PlanNow(Pid pid, const PlanOptions& options, bool hold);
  bool has_operators() const { return plan_->dispatcher_slot != 0 && !IsRegistering(*plan_); }

  TargetReader* reader_;
  std::optional<ProbePlan> plan_;
  int64_t planned_ns_ = 0;
  int64_t read_cpu_ns_ = 0;     // CPU time that making the plans took
  bool is_old_ = false;         // operators were registered after plan_ was made
  uint32_t mappings_ = 0;       // mappings of PyTorch's files
  uint64_t last_operator_ = 0;  // the result of AskLastOperator()
  int64_t looked_ns_ = 0;       // the last look
  int64_t could_run_ns_ = 0;
  int64_t first_ns_ = 0;    // when a file of PyTorch was first seen
  int64_t changed_ns_ = 0;  // when a look last differed from the look before
};

}  // namespace proftrace
