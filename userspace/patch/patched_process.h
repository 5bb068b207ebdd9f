// A process whose code has jumps to trampolines that record what it does. They are put there and
// taken away again from outside while it runs; no library is loaded, and none of its functions is
// called.
//
// Meanwhile the process has: near the code, for each group of libraries within reach of a jump,
// one private mapping (control page | recorder | trampolines); the ring (patch_memory.h); and the
// jumps, never over a function's first instruction. All threads stand still while the jumps are
// written: milliseconds. Should proftrace be killed, the job goes on: threads stop recording when
// the ring's deadline has passed, and its guardian (guardian.h), `proftrace clean` or a later run
// takes all of it away (RemoveLeftPatches). Meanwhile nobody else patches the process
// (target_lock.h).
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "userspace/inject/quiet_moment.h"
#include "userspace/inject/remote_calls.h"
#include "userspace/inject/writable_memory.h"
#include "userspace/model/ids.h"
#include "userspace/patch/patch_ring.h"
#include "userspace/patch/patched_code.h"
#include "userspace/patch/target_lock.h"
#include "userspace/patch/trampoline.h"

namespace proftrace {

// So long after its last sign of life a tracer counts as gone.
inline constexpr int64_t kPatchLeaseNs = 2'000'000'000;

// Memory near the code that is free may be the process's own a moment later.
inline constexpr int kMostPlacings = 5;

// Brings them into the order that PatchedCode needs, without those that `pid` may not have.
void PrepareSpots(Pid pid, std::vector<PatchSpot>* spots);

// A spot that has no jump.
struct RefusedSpot {
  size_t spot = 0;  // index
  std::string reason;
};

struct PatchReport {
  size_t jumps = 0;
  std::vector<RefusedSpot> refused;
  uint64_t trampoline_bytes = 0;
  StopTimes attach;  // of all threads
  StopTimes detach;
  int64_t held_ns = 0;  // one thread alone, for the system calls that it made for us
};

// How much was found in a process and taken away.
struct RemovedPatches {
  size_t jumps = 0;
  uint64_t bytes = 0;  // of memory that was mapped
};

class PatchedProcess {
 public:
  // Must be used by one thread at a time, but for the ring. Fails with one sentence (kNotPermitted:
  // another proftrace is at it); the process is then as it was, but where the sentence says what
  // stays in it. `ring`: pid, size of a slot, salt; the rest is found out. `held` (may be null):
  // one thread of it that stands still already, and goes on doing so.
  static absl::StatusOr<std::unique_ptr<PatchedProcess>> Attach(
      Pid pid, std::vector<PatchSpot> spots, const PatchRingOptions& ring,
      PatchRing::ThreadNumber thread_number, StoppedThreads* held = nullptr);
  // Attaches to a child that was forked from `parent` while that had its jumps: it has them, too,
  // and gets a ring of its own; only one of its threads is stopped for that. Fails where it is no
  // such child; RemoveLeftPatches() then takes out what it has. `parent` is not changed, and must
  // live.
  static absl::StatusOr<std::unique_ptr<PatchedProcess>> AttachFork(
      Pid child, const PatchedProcess& parent, PatchRing::ThreadNumber thread_number);
  // Puts jumps at more places, in libraries that it has mapped since. Fails with one sentence;
  // nothing of that is in the process then, but where the sentence says so, and the jumps that
  // were there go on. `facts`: those of code(). Adopt() must follow in any case.
  absl::Status Extend(std::vector<PatchSpot> spots, RecorderTables tables, uint16_t node_signature,
                      const JobFacts& facts);
  // Gives code() what Extend() has put there, from here on. The other one may not be used
  // meanwhile.
  void Adopt();
  ~PatchedProcess();
  PatchedProcess(const PatchedProcess&) = delete;
  PatchedProcess& operator=(const PatchedProcess&) = delete;

  PatchRing* ring() { return ring_.get(); }
  // Slots of threads that have ended are for new ones. From the thread that drains the ring.
  void FreeSlots() const;
  const PatchReport& report() const { return report_; }
  PatchedCode* code() { return &code_; }

  // Takes everything out. Fails with what stays; may be called again.
  absl::Status Detach();

 private:
  // As PatchRing::HasEnded.
  bool HasThreadEnded(uint64_t control_block, uint32_t tid) const;
  PatchedProcess(Pid pid, WritableMemory memory)
      : pid_(pid), memory_(std::move(memory)), code_(pid, memory_) {}

  friend absl::StatusOr<bool> RemoveLeftPatches(Pid pid, RemovedPatches* removed);
  // Does that for a caller who has the lock.
  static absl::StatusOr<bool> RemoveLeft(Pid pid, RemovedPatches* removed);
  // Takes away what one killed run has left; false: it has left nothing.
  static absl::StatusOr<bool> RemoveOneLeft(Pid pid, RemovedPatches* removed);
  absl::Status TakeOut();
  // Takes out, after TakeOut(), what a system call in the process has done there, or not done,
  // whose return was not seen. Goes by what the process has mapped, as RemoveLeft().
  absl::Status TakeOutUnseen() const;
  // Takes out the jumps and regions of `code`; with the last of them, the ring.
  absl::Status TakeOut(PatchedCode* code);
  absl::Status TryExtend(std::vector<PatchSpot> spots, const RecorderTables& tables,
                         uint16_t node_signature, const JobFacts& facts);
  absl::Status MapLate(StoppedThreads* threads);
  absl::Status Start(std::vector<PatchSpot> spots, const PatchRingOptions& ring,
                     PatchRing::ThreadNumber thread_number, StoppedThreads* held);
  // Maps regions and ring, by one thread that is stopped for it. `memory`: the ring's.
  absl::Status MapAll(PatchRingOptions* options, UniqueFd* memory, StoppedThreads* held);
  absl::Status MapAllBy(StoppedThreads* threads, PatchRingOptions* options, UniqueFd* memory);
  // Makes the ring's file, with a header that says what will be mapped: a killed run is known by
  // it.
  absl::Status MakeRingFile(RemoteCalls* calls, const PatchRingOptions& options, UniqueFd* memory);
  absl::Status MapRegion(RemoteCalls* calls, const PatchedCode& code, PatchedCode::Region* region);
  absl::Status MapRing(RemoteCalls* calls);
  absl::Status UnmapAll(QuietMoment* moment, PatchedCode* code);
  // Fails with kFailedPrecondition where the child has its parent's memory (vfork), not a copy.
  absl::Status StartFork(const PatchedProcess& parent, PatchRing::ThreadNumber thread_number);
  // Maps a ring in place of the one that was inherited.
  absl::Status ReplaceRing(StoppedThreads* threads, PatchRingOptions* options, UniqueFd* memory);
  // Stops one thread, at `begin_ns`, unless one stands still, and finds where threads have their
  // numbers.
  absl::StatusOr<RemoteCalls> BeginCalls(StoppedThreads* threads, int64_t* begin_ns,
                                         int32_t* tid_offset);

  Pid pid_;
  TargetLock lock_;  // until nothing is in the process any more
  WritableMemory memory_;
  SystemCallPlaces system_calls_;
  PatchedCode code_;
  std::unique_ptr<PatchedCode> late_;  // until it is adopted
  std::unique_ptr<PatchRing> ring_;
  uint64_t ring_address_ = 0;  // 0 = not mapped
  uint64_t ring_bytes_ = 0;
  std::optional<int> filters_;    // seccomp filters of each of its threads, at the attach
  uint64_t python_end_ = 0;       // address of the jump at which it waits; 0 = there is none
  std::vector<int> descriptors_;  // of the ring, in the process: none as soon as it is mapped
  PatchReport report_;
};

// Takes away what a killed run has left in a process, or in the one it was forked from; whether
// there was anything. Adds to `removed`. Fails where the proftrace that put it there is still
// running (kNotPermitted).
absl::StatusOr<bool> RemoveLeftPatches(Pid pid, RemovedPatches* removed = nullptr);

// Whether PatchedProcess::Attach() may do its work, by what can be seen without stopping anybody:
// what filters of system calls let through is seen there only.
absl::Status CheckPatchable(Pid pid);

// Whether there may be jumps in a process, its own or its parent's, by what it has mapped.
bool HasPatches(Pid pid);
// Whether this program has put them there.
bool HasOwnPatches(Pid pid);

}  // namespace proftrace
