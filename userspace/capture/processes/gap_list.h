// Keeps the sentences of what a recording does not have, and why: what plans, attaching and the
// kernel could not do, and what processes ran before their probes were live.
#pragma once

#include <absl/status/status.h>

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "symbols/probe_plan.h"
#include "userspace/capture/kernel/attach.h"
#include "userspace/capture/kernel/bpf_programs.h"
#include "userspace/capture/processes/late_starts.h"
#include "userspace/capture/targets/target_info.h"
#include "userspace/model/ids.h"
#include "userspace/model/recording.h"

namespace proftrace {

// Returns what this kernel cannot do for any process, and why.
std::vector<Unsupported> GapsOfKernel(const BpfPrograms& programs);

// May be used by several threads. Its lock is held by its own methods alone, and none of them takes
// another lock meanwhile; so they may be called whatever locks the caller holds.
class GapList {
 public:
  // Begins the window: what ran before it is not missed.
  void BeginWindow(int64_t start_ns);

  // Adds a gap. Each is kept once, and there is a limit to their number.
  void Add(Unsupported gap);
  void AddAll(std::vector<Unsupported> gaps);
  void AddGapsOf(const ProbePlan& plan);
  // Adds what a search for processes with PyTorch could not do. With `again`, the search is
  // repeated once a second, because the kernel does not report such processes.
  void AddSearch(const TorchProcesses& found, bool again);
  // Adds a process that is not recorded. A process that has no PyTorch, or has ended, has nothing
  // that could be lost; any other process is counted (follow_failed). `living` is the number of
  // refused processes that live, this one included: only the first are named.
  void AddRefusal(Pid pid, const absl::Status& why, size_t living);
  // Adds the places that the kernel refused, and those that no probe reaches.
  void AddMissing(Pid pid, const AttachReport& report);
  // Adds code of a process that no probe reaches, with a warning where it is the first of the
  // process.
  void AddUnreached(Pid pid, const std::string& why);
  // Adds another tracer's jumps in a process. `left` of the plan's `all` places can have probes.
  void AddAnothersJumps(Pid pid, size_t left, size_t all);
  // Adds a process that has probes because it was refused jumps.
  void AddRefusedJumps(Pid pid, const absl::Status& why);
  // Adds a library of a process whose probes could not all go in.
  void AddFailedLibrary(Pid pid, const absl::Status& why);

  // Add a process or library whose rows are missing up to the moment when its probes were live.
  // The times are as in LateStarts::Add().
  void AddLateFork(Pid pid, int64_t forked_ns, int64_t live_ns);
  void AddLateLoad(Pid pid, int64_t could_run_ns, int64_t live_ns);
  void AddLateLibrary();
  // Counts a process with PyTorch that ended before its probes were live.
  void AddEndedEarly();

  // What the last sentences are made of, beside the list itself.
  struct Facts {
    std::vector<Unsupported> of_schemas;  // SchemaCollector::gaps()
    std::vector<Unsupported> of_kernel;   // GapsOfKernel()
    std::vector<Pid> loaded;              // processes that could run operators, and have no probes
    size_t waiting_forks = 0;             // UnprobedForks::waiting()
    uint64_t ended_forks = 0;             // UnprobedForks::ended()
    uint64_t replaced_operators = 0;      // OperatorWatch::replaced()
  };
  // Returns all gaps, in the order in which outputs show them.
  std::vector<Unsupported> Describe(const Facts& facts) const;

  // Returns the warnings that are new since the last call. Each names a process with code that no
  // probe reaches.
  std::vector<std::string> TakeWarnings();
  // Returns the pids of all processes with code that no probe reaches, and of those with another
  // tracer's jumps.
  std::set<uint32_t> unreached() const;
  // Returns why the first process that was refused is not recorded; OK where none was refused.
  absl::Status refusal() const;
  // Returns how many processes were refused that had something to lose.
  uint64_t follow_failed() const;
  // Returns how many processes with PyTorch ended before their probes were live.
  uint64_t ended_early() const;
  // Returns why the first process that was refused jumps has none; empty where none was refused.
  std::string jumps_refused() const;
  // Returns a sentence about the first process that was found to have another tracer's jumps; empty
  // where no process has any.
  std::string anothers_jumps() const;

 private:
  // The callers of the next functions hold the lock.
  void AddLocked(Unsupported gap);
  void AddUnreachedLocked(Pid pid, const std::string& why);
  void AppendLateStarts(std::vector<Unsupported>* gaps) const;

  mutable std::mutex mutex_;
  std::vector<Unsupported> gaps_;
  std::vector<std::string> warnings_;
  std::set<uint32_t> unreached_;  // pids
  absl::Status refusal_;
  uint64_t follow_failed_ = 0;
  std::string jumps_refused_;
  std::string anothers_jumps_;
  LateStarts late_forks_;
  LateStarts late_loads_;
  uint64_t late_libraries_ = 0;
  uint64_t ended_early_ = 0;
};

}  // namespace proftrace
