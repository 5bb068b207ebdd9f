// Attaches to one process: numbers its plan, prepares the kernel's maps and the readers of its
// stacks, and puts its jumps or probes in. Takes back what a process had that has ended.
#pragma once

#include <absl/status/status.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "symbols/probe_plan.h"
#include "userspace/capture/names/module_collector.h"
#include "userspace/capture/names/script_collector.h"
#include "userspace/capture/processes/known_processes.h"
#include "userspace/capture/processes/late_arrivals.h"
#include "userspace/capture/processes/shared_parts.h"
#include "userspace/inject/stopped_threads.h"
#include "userspace/model/ids.h"
#include "userspace/model/recording.h"
#include "userspace/wire/metadata.h"

namespace proftrace {

// How a process comes to be recorded.
struct Arrival {
  bool followed = false;     // it was found, and the user did not name it
  int64_t could_run_ns = 0;  // as Target::could_run_ns
};

// May be used by several threads, but for one process by one thread at a time. It has no lock but
// those of its parts, and holds none of them while it attaches.
class Attacher {
 public:
  // Both must outlive the attacher.
  Attacher(SharedParts* shared, LateArrivals* late);

  // Has the kernel report the process's forks, execs and end from here on, and record its system
  // activity where that was asked for.
  absl::Status Trace(Pid pid);
  // Attaches to a process by a plan of its own. `held` (may be null), here and below, has threads
  // of the process that stand still and are not let go.
  absl::Status Attach(Pid pid, ProbePlan plan, Arrival arrival, StoppedThreads* held = nullptr);
  // Attaches to a process by a plan that is already registered, as its parent's is.
  absl::Status AttachBy(const PlannedImage& planned, Pid pid, Arrival arrival,
                        StoppedThreads* held = nullptr);
  // Forgets a process that has ended, or runs something else. Returns its links, which the caller
  // closes: at once where the process goes on, because they would see its new program too.
  LinkSet Forget(Pid pid);
  // Takes out the probes for which KnownProcesses::AskRemoval() was called.
  void RemoveProbes(Pid pid);

  // Takes a PT_PYTHON_MODULE.
  void OnModule(std::span<const std::byte> record) { modules_.Observe(record); }
  // Takes a PT_SCRIPT_STACK.
  void OnScript(std::span<const std::byte> record) { scripts_.Observe(record); }
  // Returns how many places in TorchScript have no names.
  uint64_t unread_scripts() const { return scripts_.not_read(); }
  // Waits for the places of modules, and adds a gap for those without.
  void FinishModules();

 private:
  // Prepares all that must be there before the process's first record. Where this fails, nothing
  // of it is left.
  absl::Status Prepare(Pid pid, const PlannedImage& planned, Target* target);
  void PrepareReaders(Pid pid, const PlannedImage& planned, Target* target);
  // Puts jumps in, and probes where no jumps are.
  absl::Status PutIn(Pid pid, const std::shared_ptr<const ProbePlan>& plan, bool followed,
                     StoppedThreads* held, ProcessLinks* links, AttachReport* report);

  SharedParts* shared_;
  LateArrivals* late_;
  ModuleCollector modules_;
  ScriptCollector scripts_;
};

}  // namespace proftrace
