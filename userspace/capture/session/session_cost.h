// What a recording costs its job: measured before, in and after the window, and estimated from
// that.
//
//   one probe | all probes go in | a pair of probes at each operator | the window | one probe
//   (early)                        (in the job)                        (stretches)  (after)
//
// All calls come from the session's thread.
#pragma once

#include <absl/status/status.h>

#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <vector>

#include "userspace/base/clock.h"
#include "userspace/capture/cost/price_comparison.h"
#include "userspace/capture/cost/stretch_meter.h"
#include "userspace/capture/jumps/patch_recorder.h"
#include "userspace/capture/kernel/system_programs.h"
#include "userspace/capture/processes/process_set.h"
#include "userspace/capture/session/budget_keeper.h"
#include "userspace/capture/session/hit_prices.h"
#include "userspace/capture/session/recorder.h"
#include "userspace/capture/targets/process_cpu_times.h"

namespace proftrace {

class SessionCost {
 public:
  // The session's parts. Each may come, or be another one, later: a measurement looks at what is
  // there when it begins.
  struct Parts {
    const RecordOptions& options;
    const std::unique_ptr<BpfPrograms>& programs;
    const std::unique_ptr<ProcessSet>& processes;
    const std::unique_ptr<PatchRecorder>& patch;    // null: no jumps are put in
    const std::unique_ptr<SystemPrograms>& system;  // null: no activities are recorded
    const std::unique_ptr<BudgetKeeper>& budget;    // null: there is no budget
  };
  // What the session does for measurements.
  struct Session {
    std::function<absl::Status(int timeout_ms)> drain;  // takes the records that are there
    std::function<bool()> is_any_target_alive;
    std::function<std::vector<Pid>()> pids;  // of the recorded processes
  };
  SessionCost(const Parts& parts, Session session) : parts_(parts), session_(std::move(session)) {}

  // Takes any record of the kernel's probes.
  void Observe(const abi::pt_record& head) {
    prices_.Observe(head);
    stretch_.Observe(head);
  }
  // Takes any record of a jump.
  void ObserveJump(const abi::pt_record& head, bool reads_stacks) {
    stretch_.ObserveJump(head);
    if (reads_stacks) prices_.ObserveStack(head);
  }
  // Takes any record of system activity.
  void ObserveSystem(const abi::pt_record& head) {
    if (IsInWindow(head)) prices_.CountSystem(head);
    stretch_.Observe(head);
  }
  // Counts a record of the window.
  void Count(const abi::pt_record& head) { prices_.Count(head); }
  void CountJump(const abi::pt_record& head) { prices_.CountJump(head); }
  // The process has other sites from here on.
  void OnExec(Pid pid) {
    if (stretch_.followed() == pid) comparison_.Forget();
  }
  void OnThreadExit(uint32_t tid) { prices_.OnThreadExit(tid); }

  // The estimate is made from the records between these moments, without those of measurements
  // before and after.
  void BeginWindow(int64_t start_ns);
  void EndWindow(int64_t end_ns);
  // This program's own CPU time counts from now on.
  void CountOwnTime() { cpu_at_start_ns_ = ProcessCpuNs(); }
  bool IsInWindow(const abi::pt_record& head) const {
    const auto time_ns = static_cast<int64_t>(head.time_ns);
    return time_ns >= from_ns_ && time_ns < until_ns_;
  }

  void SetJumpCost(const JumpCost& cost) { prices_.SetJumpCost(cost); }
  // Measures what an operator takes of the job's CPU time without probes, before they go in into
  // the processes of `plans`, where the price is needed during the recording.
  absl::Status MeasureBefore(const std::vector<std::pair<Pid, absl::StatusOr<ProbePlan>>>& plans);
  // Measures what a hit takes in the job.
  absl::Status MeasureInJob();
  bool is_known_in_job() const { return prices_.is_known_in_job(); }
  // Measures what MeasureBefore() does, after the probes are out. The user need not wait for it.
  absl::Status MeasureAfter();
  // Reads the CPU time that processes have used by now, about four times a second however often it
  // is called, and compares what the job takes with and without probes.
  void ReadCpuTimes(int64_t now_ns);
  // Ends the stretch that is measured, at the window's end.
  void CutStretch() {
    if (compares_) stretch_.Cut();
  }
  // Keeps the stretch that was ended, when all of its records have come.
  void KeepStretch();

  // Returns what a hit costs, as far as it is known now.
  HitCost CostsOfHits() const;
  // nullopt: no system activity is recorded, or nothing of it that has a price.
  std::optional<SystemCost> CostOfSystem() const;
  // Returns the nanoseconds of the job's time that recording an operator by probes usually takes.
  double UsualProbeNsPerOperator() const;
  // Returns the estimate for the window up to now; `lost`: records.
  Cost Measure(int64_t window_ns, uint64_t lost) const;

  const LiveMeter& meter() const { return prices_.meter(); }
  const LiveMeter& jump_meter() const { return prices_.jump_meter(); }
  ProcessCpuTimes& cpu_times() { return cpu_times_; }
  const ProcessCpuTimes& cpu_times() const { return cpu_times_; }

 private:
  // Whether the job's CPU time with and without probes can be compared at all.
  bool CanCompare() const;
  // Whether the CPU time without probes is measured before they go in.
  bool ComparesEarly() const;
  absl::Status MeasureStretch(int64_t most_cpu_ns);
  // Whether records were lost since the last call.
  bool HasLost();
  // Gives the stretch that has ended to the comparison, and begins the next one.
  void CompareStretch(int64_t now_ns);
  // Follows the process that uses most CPU time, for a comparison that is not made early.
  void FollowBusiest();

  const Parts parts_;
  const Session session_;
  HitPrices prices_;
  StretchMeter stretch_;
  PriceComparison comparison_;
  ProcessCpuTimes cpu_times_;
  bool compares_ = false;  // whether a stretch of the window is being measured
  int64_t last_cut_ns_ = 0;
  int64_t last_cpu_look_ns_ = 0;
  int64_t cpu_at_start_ns_ = 0;  // this program's own
  uint64_t lost_compared_ = 0;   // lost records until the last look at stretches
  int64_t from_ns_ = std::numeric_limits<int64_t>::max();
  int64_t until_ns_ = std::numeric_limits<int64_t>::max();
};

}  // namespace proftrace
