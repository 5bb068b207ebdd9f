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
#include "userspace/capture/kernel/code_copies.h"
#include "userspace/capture/records/record_blocks.h"
#include "userspace/capture/targets/job_threads.h"
#include "userspace/model/ids.h"
#include "userspace/model/recording.h"
#include "userspace/patch/guardian.h"
#include "userspace/patch/patched_process.h"
#include "userspace/patch/plan_spots.h"

namespace proftrace {

class PatchRecorder {
 public:
  // With `alone`, there are no probes of the kernel beside the jumps. With `with_stack`, rows have
  // Python's stacks. `cache_directory` is as in PlanOptions. `on_module` gets each record of the
  // kind PT_PYTHON_MODULE as soon as it is there, on the recorder's own thread, until Detach() has
  // returned.
  PatchRecorder(bool alone, bool with_stack, std::string cache_directory,
                std::function<void(std::span<const std::byte> record)> on_module);
  ~PatchRecorder();
  PatchRecorder(const PatchRecorder&) = delete;
  PatchRecorder& operator=(const PatchRecorder&) = delete;

  // Puts jumps at the points of `plan` that can have one. Returns the plan's modules with the
  // points that have none: they are for the kernel's probes, which must come after the jumps, or
  // stay unrecorded. Fails with the reason where the process cannot be patched, and leaves it as it
  // was. `held` (may be null): threads of the process that stand still.
  absl::StatusOr<std::vector<ModulePlan>> Attach(Pid pid, std::shared_ptr<const ProbePlan> plan,
                                                 StoppedThreads* held);
  // Has Python's stacks recorded for the rows of a process. To be called before Attach() for that
  // process. Fails with the reason where its rows cannot have stacks.
  absl::Status AddPython(Pid pid, const std::string& file, PythonFacts python);
  // Puts jumps into `added`, the libraries that the process has loaded since: they are the last
  // modules of `plan`. Returns the points without a jump, as Attach() does.
  std::vector<ModulePlan> Extend(Pid pid, std::shared_ptr<const ProbePlan> plan,
                                 std::vector<ModulePlan> added);
  // Leaves the sequence numbers of the process's operators out from here on, because a second
  // PyTorch was loaded.
  void RemoveAutogradLayout(Pid pid);
  // Adds operators that were registered late. Only operators that begin or end annotations make a
  // difference.
  void AddOperators(Pid pid, const ProbePlan& plan, const std::vector<OperatorInfo>& added);
  // Adds the vtable of a class of autograd nodes that Python defines.
  void AddPythonNode(Pid pid, uint64_t vtable);
  // Has calls at a site only counted from here on. No other demotion has the same `number`. May be
  // called again. Returns false where no counter is left; true also for a process that has no
  // jumps.
  bool Demote(Pid pid, uint16_t site, uint32_t number, bool records_ends);
  uint64_t CountedCalls(uint32_t number) const;
  // Forgets a process that has ended, or runs another program.
  void Forget(Pid pid);
  // Takes every jump out of every process, also out of forked children that were not recorded.
  void Detach();
  // Returns a sentence for each process whose jumps could not be taken out. To be called after
  // Detach().
  std::vector<std::string> left_behind() const;
  // Returns, after Detach(), an error that says where a process's code differs from that of its
  // files.
  absl::Status code_status() const;

  // Hands over the records since the last call.
  void Take(const std::function<void(std::span<const std::byte> record)>& on_record);
  // Returns the time (CLOCK_MONOTONIC) until which all rings have been emptied.
  int64_t emptied_until_ns() const;

  // Whether any process has had jumps.
  bool has_patched() const;
  // Returns how many records of all processes were lost.
  uint64_t lost() const;
  uint64_t read_failed() const;
  // Returns the result of CodeCopies::DistanceOf() for a process for which AddPython() was called.
  std::optional<uint32_t> DistanceOfCopy(Pid pid, uint64_t code, uint32_t copy) {
    return copies_.DistanceOf(pid, code, copy);
  }
  // Returns the gaps of the recording, with their reasons: jumps that stay in processes, and parts
  // of processes that were not recorded.
  std::vector<Unsupported> gaps() const;

 private:
  struct Process {
    std::shared_ptr<PatchedProcess> patched;
    std::shared_ptr<const ProbePlan> plan;
    size_t kept_bytes = 0;  // bytes of its records that were kept since the last Take()
  };

  class Begun;

  void Run();
  void Add(Pid pid, Process process, std::shared_ptr<JobThreads> threads);
  // Empties the ring as far as there is room. Returns whether all was taken. The caller holds the
  // lock.
  bool Drain(Process* process);
  // Stops a ring, and empties it for the last time.
  void DrainLast(Pid pid, PatchRing* ring);
  void Keep(std::span<const std::byte> record);
  // Puts the jumps in, and adds the process to those whose rings are emptied.
  absl::StatusOr<std::shared_ptr<PatchedProcess>> Patch(
      Pid pid, const std::shared_ptr<const ProbePlan>& plan, StoppedThreads* held);
  void Close(Pid pid, Process process);
  // Returns the plan's places as the recorder in a job reads them. Without eBPF some are left out
  // (PlacesWithoutBpf()).
  std::vector<abi::pt_place> PlacesOf(const ProbePlan& plan) const;
  // Finds forked children of recorded processes that are not recorded themselves: they have their
  // parents' jumps.
  std::vector<Pid> FindForks() const;
  // Takes the jumps out of forked children that were not recorded: the ones that are not in
  // `closed`.
  void CleanForks(const std::map<uint32_t, Process>& closed);
  void NoteLeft(Pid pid, const absl::Status& status);
  // Attaches to a forked child of a patched process. Returns null where the process is no such
  // child, or where attaching failed; passes on only kFailedPrecondition.
  absl::StatusOr<std::unique_ptr<PatchedProcess>> AttachFork(
      Pid pid, const std::shared_ptr<JobThreads>& threads);
  // Finds the spots of the modules of `plan` from `first` on. The modules before it have their
  // jumps in `code` (which is not used where `first` is 0).
  absl::StatusOr<PlanSpots> SpotsOf(Pid pid, const ProbePlan& plan, size_t first,
                                    const PatchedCode* code) const;
  // Finds the spots of all modules, once for all processes that share a plan.
  absl::StatusOr<PlanSpots> AllSpotsOf(Pid pid, const std::shared_ptr<const ProbePlan>& plan);
  // Adds a gap that says how many places of the modules from `first` on have no jump, because
  // somebody else has changed them or there is no memory near them. The caller holds the lock.
  void NameSpotsWithoutJump(Pid pid, const PatchedCode& code, size_t first);

  const bool alone_;
  const bool with_stack_;
  const std::function<void(std::span<const std::byte>)> on_module_;
  struct Python {
    PythonFacts facts;
    PatchSpot end;
  };
  std::map<uint32_t, Python> pythons_;  // by pid, for processes that are not attached to yet
  CodeCopies copies_;
  const std::string cache_directory_;
  std::unique_ptr<PatchGuardian> guardian_;
  mutable std::mutex mutex_;
  std::map<uint32_t, Process> processes_;  // by pid
  // Thread numbers by pid. A process that has ended stays here until its last records are taken.
  std::map<uint32_t, std::shared_ptr<JobThreads>> threads_;
  RecordBlocks records_;   // the records that were taken out of the rings
  PatchRingCounts ended_;  // counts of processes that have ended
  struct Demoted {
    Pid pid{};
    uint16_t site = 0;
    std::optional<uint64_t> calls;  // the final count, where its process has ended
  };
  std::map<uint32_t, Demoted> demoted_;  // by the demotion's number
  std::vector<Unsupported> gaps_;
  std::vector<std::string> left_behind_;
  absl::Status code_status_;
  std::set<std::string> executables_;  // files of all processes that were patched
  std::set<Pid> forks_;  // children of processes that have ended; the guardian knows them
  int64_t emptied_until_ns_ = 0;
  std::multiset<int64_t> begun_;  // begins of the attaches that are under way (CLOCK_MONOTONIC)
  int64_t lapse_ns_ = 0;          // how long processes did not record, in all, in nanoseconds
  bool has_patched_ = false;
  bool stop_ = false;
  std::thread thread_;

  std::mutex spots_mutex_;
  // The last plan whose spots were found, and the spots: a forked child has its parent's code at
  // the same places.
  std::weak_ptr<const ProbePlan> last_plan_;
  PlanSpots last_spots_;
};

}  // namespace proftrace
