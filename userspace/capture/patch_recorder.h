// Tier patch: jumps in the code of jobs in place of the kernel's probes (userspace/patch). Keeps
// the patched processes; a thread of its own empties their rings and lets them write on.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "symbols/probe_plan.h"
#include "userspace/capture/code_copies.h"
#include "userspace/capture/job_threads.h"
#include "userspace/capture/record_blocks.h"
#include "userspace/model/ids.h"
#include "userspace/model/recording.h"
#include "userspace/patch/guardian.h"
#include "userspace/patch/patched_process.h"
#include "userspace/patch/plan_spots.h"

namespace proftrace {

class PatchRecorder {
 public:
  // `alone`: there are no probes of the kernel beside the jumps. `with_stack`: rows have the stacks
  // of Python. `cache_directory`: as
  // PlanOptions'.
  // `on_module`: gets each PT_PYTHON_MODULE as soon as it is there, on the recorder's own thread,
  // until Detach() has returned.
  PatchRecorder(bool alone, bool with_stack, std::string cache_directory,
                std::function<void(std::span<const std::byte> record)> on_module);
  ~PatchRecorder();
  PatchRecorder(const PatchRecorder&) = delete;
  PatchRecorder& operator=(const PatchRecorder&) = delete;

  // Puts jumps at the points of `plan` that can have one. What is left of its modules is for the
  // kernel's probes, which must come after the jumps, or for nobody. Fails with why the process
  // cannot be patched; it is as it was then. `held` (may be null): what stands still of it.
  absl::StatusOr<std::vector<ModulePlan>> Attach(Pid pid, std::shared_ptr<const ProbePlan> plan,
                                                 StoppedThreads* held);
  // Gives the rows of the process stacks; to be called before it is attached. Fails with why they
  // cannot have them.
  absl::Status AddPython(Pid pid, const std::string& file, PythonFacts python);
  // Puts jumps into `added`, the libraries that the process has loaded since: they are the last
  // modules of `plan`. Returns what is left of them, as Attach() does.
  std::vector<ModulePlan> Extend(Pid pid, std::shared_ptr<const ProbePlan> plan,
                                 std::vector<ModulePlan> added);
  // Gives the process's operators no sequence numbers from here on (a second PyTorch was loaded).
  void RemoveAutogradLayout(Pid pid);
  // Adds operators that were registered late: those that begin and end annotations matter.
  void AddOperators(Pid pid, const ProbePlan& plan, const std::vector<OperatorInfo>& added);
  // Adds a class of autograd nodes that are Python's.
  void AddPythonNode(Pid pid, uint64_t vtable);
  // Calls at a site are only counted from here on. `number`: of this demotion, of which no two have
  // the same. May be called again. False: there is no counter left for it; true also for a process
  // that has no jumps.
  bool Demote(Pid pid, uint16_t site, uint32_t number, bool records_ends);
  uint64_t CountedCalls(uint32_t number) const;
  // Forgets a process that has ended, or runs another program.
  void Forget(Pid pid);
  // Takes every jump out, also of forked children that nobody recorded.
  void Detach();
  // Returns what could not be taken out, a sentence for each process; to be called after Detach().
  std::vector<std::string> left_behind() const;
  // Fails, after Detach(), where a process's code is not its files' any more, and says where.
  absl::Status code_status() const;

  // Hands over what was recorded since the last time.
  void Take(const std::function<void(std::span<const std::byte> record)>& on_record);
  // Returns until when all rings have been emptied (CLOCK_MONOTONIC).
  int64_t emptied_until_ns() const;

  // Whether any process has had jumps.
  bool has_patched() const;
  // Records that found no room, of all processes.
  uint64_t lost() const;
  uint64_t read_failed() const;
  // As CodeCopies::DistanceOf(), of a process that AddPython() was called for.
  std::optional<uint32_t> DistanceOfCopy(Pid pid, uint64_t code, uint32_t copy) {
    return copies_.DistanceOf(pid, code, copy);
  }
  // Returns what stays in a process, and what was not recorded.
  std::vector<Unsupported> gaps() const;

 private:
  struct Process {
    std::shared_ptr<PatchedProcess> patched;
    std::shared_ptr<const ProbePlan> plan;
    size_t kept_bytes = 0;  // of its records, since the last Take()
  };

  class Begun;

  void Run();
  void Add(Pid pid, Process process, std::shared_ptr<JobThreads> threads);
  // Empties the ring as far as there is room; whether all was taken. The caller holds the lock.
  bool Drain(Process* process);
  // Empties a ring for the last time: nothing comes into it any more.
  void DrainLast(Pid pid, PatchRing* ring);
  void Keep(std::span<const std::byte> record);
  // Puts the jumps in, and adds the process to those whose rings are emptied.
  absl::StatusOr<std::shared_ptr<PatchedProcess>> Patch(
      Pid pid, const std::shared_ptr<const ProbePlan>& plan, StoppedThreads* held);
  void Close(Pid pid, Process process);
  // Returns the places of a plan as recorders in jobs read them.
  std::vector<abi::pt_place> PlacesOf(const ProbePlan& plan) const;
  // Finds forked children of recorded processes that are not recorded themselves: they have their
  // parents' jumps.
  std::vector<Pid> FindForks() const;
  // Takes the jumps out of forked children, but for those of `closed`, which were recorded.
  void CleanForks(const std::map<uint32_t, Process>& closed);
  void NoteLeft(Pid pid, const absl::Status& status);
  // Attaches to a forked child of a patched process; null: it is no such child, or that failed.
  absl::StatusOr<std::unique_ptr<PatchedProcess>> AttachFork(
      Pid pid, const std::shared_ptr<JobThreads>& threads);
  // Finds the spots of the modules of `plan` from `first` on. The modules before it have their
  // jumps in `code` (not read where `first` is 0).
  absl::StatusOr<PlanSpots> SpotsOf(Pid pid, const ProbePlan& plan, size_t first,
                                    const PatchedCode* code) const;
  // Finds the spots of all modules, once for all processes that share a plan.
  absl::StatusOr<PlanSpots> AllSpotsOf(Pid pid, const std::shared_ptr<const ProbePlan>& plan);
  // Says how many places of the modules from `first` on have no jump because somebody else has
  // changed them, or for want of memory near them. The caller holds the lock.
  void NameSpotsWithoutJump(Pid pid, const PatchedCode& code, size_t first);

  const bool alone_;
  const bool with_stack_;
  const std::function<void(std::span<const std::byte>)> on_module_;
  struct Python {
    PythonFacts facts;
    PatchSpot end;
  };
  std::map<uint32_t, Python> pythons_;  // by pid: of processes that are not attached yet
  CodeCopies copies_;
  const std::string cache_directory_;
  std::unique_ptr<PatchGuardian> guardian_;
  mutable std::mutex mutex_;
  std::map<uint32_t, Process> processes_;  // by pid
  // By pid; also for processes whose last records were not taken yet.
  std::map<uint32_t, std::shared_ptr<JobThreads>> threads_;
  RecordBlocks records_;   // taken out of the rings
  PatchRingCounts ended_;  // of processes that are not there any more
  struct Demoted {
    Pid pid{};
    uint16_t site = 0;
    std::optional<uint64_t> calls;  // when its process is not there any more
  };
  std::map<uint32_t, Demoted> demoted_;  // by the demotion's number
  std::vector<Unsupported> gaps_;
  std::vector<std::string> left_behind_;
  absl::Status code_status_;
  std::set<std::string> executables_;  // of all that were patched
  std::set<Pid> forks_;                // children of ended ones, which the guardian knows
  int64_t emptied_until_ns_ = 0;
  std::multiset<int64_t> begun_;  // when attaches began that go on (CLOCK_MONOTONIC)
  int64_t lapse_ns_ = 0;          // in which processes did not record
  bool has_patched_ = false;
  bool stop_ = false;
  std::thread thread_;

  std::mutex spots_mutex_;
  // A forked child has its parent's code at the same places.
  std::weak_ptr<const ProbePlan> last_plan_;
  PlanSpots last_spots_;
};

}  // namespace proftrace
