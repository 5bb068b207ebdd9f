// Keeps a recording within its budget (--max-overhead): measures how much time it takes of the
// recorded processes, lets an OverheadBudget decide for each of them, and has operators demoted in
// the kernel's programs, in the rings of patched jobs and in the links.
//
// An operator that is demoted goes through three states: first its begins are counted and its ends
// recorded, as calls may be open; then begins are counted and ends are not recorded; then its
// probes at ends are gone. Where that is not enough, the probe at its begin goes, too. Used by one
// thread.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "bpf/abi/records.h"
#include "userspace/capture/cost/live_meter.h"
#include "userspace/capture/cost/operator_meter.h"
#include "userspace/capture/cost/overhead_budget.h"
#include "userspace/capture/cost/recording_cost.h"
#include "userspace/capture/jumps/patch_recorder.h"
#include "userspace/capture/kernel/operator_links.h"
#include "userspace/capture/processes/process_set.h"
#include "userspace/capture/session/recorder.h"
#include "userspace/capture/session/step_watch.h"
#include "userspace/capture/targets/process_cpu_times.h"
#include "userspace/model/recording.h"

namespace proftrace {

class BudgetKeeper {
 public:
  // The parts that the keeper works with. All must outlive it.
  struct Parts {
    BpfPrograms* programs = nullptr;
    PatchRecorder* patch = nullptr;  // null: nothing is recorded by jumps
    ProcessSet* processes = nullptr;
    StepWatch* steps = nullptr;
    const LiveMeter* probe_meter = nullptr;
    const LiveMeter* jump_meter = nullptr;
    ProcessCpuTimes* cpu_times = nullptr;
  };
  struct Options {
    double max_percent = 0;
    // Whether the user waits for steps. Then no operator is demoted by which steps may be
    // recognised.
    bool keeps_steps = false;
    bool keeps_counting = false;  // no operator loses its last probe (tests)
  };
  BudgetKeeper(const Options& options, const Parts& parts, int64_t start_ns)
      : options_(options), parts_(parts), last_look_ns_(start_ns) {}

  // Takes any record, thread by thread in their order.
  void Observe(const abi::pt_record& head) { meter_.Observe(head); }
  // Forgets a process that has ended, or runs another program.
  void OnProcessEnd(Pid pid, int64_t time_ns);
  // Whether it is time for a look: about every 250 ms.
  bool IsDue(int64_t now_ns) const;
  // Looks at the budget by the CPU times, which must just have been read. Returns what has changed.
  std::vector<BudgetNews> Look(int64_t now_ns, const HitCost& hit);
  // Ends the keeping: from here on nothing is demoted, and no more counted calls are read.
  void Finish(int64_t now_ns);

  // Returns the budget as it is now. `estimated_percent` is the overhead of the whole recording, by
  // which the budget is judged where no process was looked at.
  Budget Describe(double estimated_percent) const;
  // Whether any operator was demoted.
  bool has_demoted() const { return !demotions_.empty(); }
  // Returns how many calls were only counted, as of the last look.
  uint64_t counted_calls() const;
  // Returns the nanoseconds that counted calls took, in the process in which they took the most.
  double counted_ns() const;

 private:
  enum class State { kBegins, kWhole };
  // All hits of one thread, by their source.
  struct Hits {
    LiveMeter::Hits probes;
    LiveMeter::Hits jumps;
  };
  struct Demotion {
    uint32_t number = 0;
    DemotedOperator what;
    State state = State::kBegins;
    int looks = 0;  // the looks since it began
    bool is_removed = false;
    bool is_over = false;
  };
  struct Process {
    explicit Process(OverheadBudget made) : budget(made) {}
    OverheadBudget budget;
    RemovedProbes removed;
    size_t demoted = 0;
    double counted_ns = 0;  // nanoseconds that counting took
    bool is_settled = true;
    bool is_told = true;  // whether BudgetNews told how the last change went
  };

  // Sums up several processes: whether all keep the budget, and the overhead of the worst one.
  struct Outcome {
    bool is_known = false;
    bool is_kept = true;
    std::optional<double> before_percent;
    std::optional<double> after_percent;

    double counted_ns = 0;  // of the process in which counting took the most

    void Add(const Process& process);
  };

  BudgetCosts CostsOf(const HitCost& hit) const;
  // Returns the nanoseconds that recording took a thread from `before` to `now`.
  static double CostBetween(const Hits& before, const Hits& now, const HitCost& hit);
  std::map<uint32_t, BudgetLook> TakeLooks(const HitCost& hit, const BudgetCosts& costs);
  int64_t TimeWithoutRecording(uint32_t pid, const BudgetLook& look);
  void AddCounted(const BudgetCosts& costs, std::map<uint32_t, BudgetLook>* looks);
  void ReadCalls(Demotion* demotion);
  DemotionRank RankOf(Pid pid, uint16_t site) const;
  // Takes demotions that wait for something, such as open calls, to their next state.
  void Advance(int64_t now_ns);
  bool IsSettled(Pid pid) const;
  void Apply(Pid pid, Process* process, const BudgetChange& change, int64_t now_ns);
  bool Demote(Pid pid, uint16_t site, uint32_t number, State state);
  void SetSteps(Budget* budget) const;

  Options options_;
  Parts parts_;
  int64_t last_look_ns_;
  OperatorMeter meter_;
  std::map<uint32_t, Hits> last_hits_;     // by tid
  std::map<uint32_t, Process> processes_;  // by pid
  Outcome ended_;                          // sums up the processes that have ended
  std::vector<Demotion> demotions_;
  bool has_steps_ = false;
  int looks_ = 0;
  bool is_finished_ = false;
  int64_t first_change_ns_ = 0;  // 0: there was none
  int64_t last_change_ns_ = 0;   // when the last change was carried out; 0: there was none
};

}  // namespace proftrace
