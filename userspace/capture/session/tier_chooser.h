// `--tier auto`: chooses whether operators are recorded by the kernel's probes or by jumps. Where
// that can be known, by what probes would cost: operators are counted for a moment.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <atomic>
#include <functional>
#include <utility>
#include <vector>

#include "userspace/capture/cost/operator_rates.h"
#include "userspace/capture/kernel/bpf_programs.h"
#include "userspace/capture/processes/process_set.h"
#include "userspace/capture/session/recorder.h"
#include "userspace/model/recording.h"

namespace proftrace {

class TierChooser {
 public:
  struct Chosen {
    bool puts_jumps = false;
    std::vector<Pid> stay_on_probes;  // processes that have no jumps where others have
    TierChoice told;
  };
  // Operators of threads, and the processes in which they were counted.
  struct Counted {
    std::vector<Pid> pids;
    std::vector<OperatorRates::Thread> threads;
  };
  using PlansByProcess = std::vector<std::pair<Pid, const ProbePlan*>>;

  TierChooser(const RecordOptions& options, const std::atomic<bool>& stop)
      : options_(options), stop_(stop) {}

  // Takes every record of the kernel's probes.
  void Observe(const abi::pt_record& head) { rates_.Observe(head); }

  // Whether the choice depends on what is counted.
  bool NeedsCount(const BpfPrograms& programs) const;
  // Counts the operators of processes for a moment, whose probes `processes` puts in and takes out.
  // `drain` takes the records that are there.
  absl::StatusOr<Counted> Count(const PlansByProcess& plans, const BpfPrograms& programs,
                                ProcessSet* processes,
                                const std::function<absl::Status(int timeout_ms)>& drain);
  // Chooses by what was counted. `ns_per_operator`: what probes usually cost.
  Chosen ChooseByCount(const Counted& counted, const BpfPrograms& programs,
                       double ns_per_operator) const;
  // Chooses where NeedsCount() is false.
  Chosen ChooseWithoutCount(const BpfPrograms& programs) const;

 private:
  absl::Status CheckStacksByJumps(Pid pid, const BpfPrograms& programs) const;
  void ChooseByRates(const Counted& counted, const BpfPrograms& programs, Chosen* chosen) const;

  const RecordOptions& options_;
  const std::atomic<bool>& stop_;
  OperatorRates rates_;
};

}  // namespace proftrace
