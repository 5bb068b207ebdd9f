// What hits of probes, jumps and stacks of Python cost a job: measured in the job and in proftrace,
// and scaled to what jobs pay. Counts the window's records for that.
#pragma once

#include <cstdint>
#include <optional>

#include "bpf/abi/records.h"
#include "userspace/capture/cost/job_hit_cost.h"
#include "userspace/capture/cost/job_stack_cost.h"
#include "userspace/capture/cost/live_meter.h"
#include "userspace/capture/cost/price_comparison.h"
#include "userspace/capture/cost/recording_cost.h"
#include "userspace/capture/kernel/site_reuse.h"
#include "userspace/patch/jump_cost.h"

namespace proftrace {

class HitPrices {
 public:
  // These three count a record of the window.
  void Count(const abi::pt_record& head) {
    meter_.Count(head);
    probe_reuse_.Observe(head);
  }
  void CountJump(const abi::pt_record& head) {
    jump_meter_.Count(head);
    jump_reuse_.Observe(head);
  }
  void CountSystem(const abi::pt_record& head) { meter_.Count(head); }
  // Takes any record of a jump, where jumps read Python's stacks.
  void ObserveStack(const abi::pt_record& head) { stack_cost_.Observe(head); }
  // Forgets a thread that has ended: another thread may have its number from here on.
  void OnThreadExit(uint32_t tid) {
    meter_.OnThreadExit(tid);
    jump_meter_.OnThreadExit(tid);
  }

  // Between these calls, Observe() takes all records of probes, which come in pairs.
  // `ns_in_tracer`: of a hit, by a loop in proftrace.
  void BeginInJob() { measures_hit_ = true; }
  void EndInJob(double ns_in_tracer);
  void Observe(const abi::pt_record& head) {
    if (measures_hit_) job_hit_cost_.Observe(head);
  }
  bool has_enough_pairs() const { return job_hit_cost_.pairs() >= JobHitCost::kEnoughPairs; }
  // Whether a hit was measured in the job.
  bool is_known_in_job() const { return job_ns_per_hit_.has_value(); }

  void SetJumpCost(const JumpCost& cost) { jump_cost_ = cost; }
  // Returns what hits cost, by `comparison` where that tells. `with_stack`: probes read Python's
  // stacks.
  HitCost Find(double ns_in_tracer, bool with_stack, const PriceComparison& comparison) const;
  // Returns the nanoseconds of the job's time that recording an operator by probes usually takes,
  // which is needed before anything is recorded.
  static double UsualNsPerOperator(double ns_in_tracer, bool record_shapes, bool with_stack);

  const LiveMeter& meter() const { return meter_; }
  const LiveMeter& jump_meter() const { return jump_meter_; }

 private:
  PredictedPrice Predict(double ns_in_tracer, bool with_stack) const;

  LiveMeter meter_;  // of probes and of system activity
  LiveMeter jump_meter_;
  SiteReuse probe_reuse_;
  SiteReuse jump_reuse_;
  JobHitCost job_hit_cost_;
  JobStackCost stack_cost_;
  bool measures_hit_ = false;
  std::optional<double> job_ns_per_hit_;
  std::optional<double> job_ns_per_call_;  // for a begin that reads inputs
  std::optional<JumpCost> jump_cost_;
};

}  // namespace proftrace
