// Decides which processes get jumps in their code (--tier patch), and which keep the kernel's
// probes; puts the jumps in.
#pragma once

#include <absl/status/statusor.h>

#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "symbols/probe_plan.h"
#include "userspace/capture/jumps/patch_recorder.h"
#include "userspace/capture/processes/gap_list.h"
#include "userspace/inject/stopped_threads.h"
#include "userspace/model/ids.h"

namespace proftrace {

// How operators are recorded by jumps.
struct JumpOptions {
  PatchRecorder* recorder = nullptr;  // null: the kernel's probes record all
  // Whether also a named process that cannot have jumps is recorded by probes instead.
  bool are_optional = false;
  std::vector<Pid> left_out;  // processes that keep probes, as do their children
};

// May be used by several threads. Its lock guards only which processes are left on probes, and is
// never held while another lock is taken.
class JumpAttacher {
 public:
  // `has_probes` is false where there is no eBPF. The recorder and `gaps` must outlive the
  // attacher.
  JumpAttacher(const JumpOptions& jumps, bool has_probes, GapList* gaps)
      : recorder_(jumps.recorder),
        are_optional_(jumps.are_optional),
        has_probes_(has_probes),
        gaps_(gaps),
        left_on_probes_(jumps.left_out.begin(), jumps.left_out.end()) {}

  // Puts jumps into the process where it is to have any. Returns the points that are left for the
  // kernel's probes: all points of the plan, or those without a jump. `followed`: the process was
  // found, and the user did not name it. `held` (may be null) has threads of the process that stand
  // still and are not let go.
  absl::StatusOr<std::vector<ModulePlan>> Put(Pid pid, const std::shared_ptr<const ProbePlan>& plan,
                                              bool followed, StoppedThreads* held);
  // Returns the recorder of the process's jumps; null where it is to have probes instead, because
  // it or its parent is one of JumpOptions::left_out.
  PatchRecorder* RecorderFor(Pid pid);

 private:
  bool IsLeftOnProbes(Pid pid);
  // Takes jumps out that a killed run has left, or that a fork has from its parent.
  absl::Status RemoveLeft(Pid pid, const ProbePlan& plan);
  // Notes that another tracer has jumps in the process; they stay there.
  void NoteAnothersJumps(Pid pid, const ProbePlan& plan);

  PatchRecorder* recorder_;
  const bool are_optional_;
  const bool has_probes_;
  GapList* gaps_;
  std::mutex mutex_;
  std::set<Pid> left_on_probes_;
};

}  // namespace proftrace
