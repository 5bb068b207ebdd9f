// A process whose code has jumps to trampolines that record what the process does. The jumps are
// written and removed from outside while the process runs. No library is loaded into it, and none
// of its functions is called.
//
// Meanwhile the process has: near the code, for each group of libraries within reach of a jump, one
// private mapping (control page | recorder | tables | trampolines); the ring (patch_memory.h); and
// the jumps, none of which replaces a function's first instruction unless that is a jump itself
// (patch_windows.h). All threads stand still while the jumps are written, for milliseconds. If
// proftrace is killed, the job goes on: its threads stop recording when the ring's deadline has
// passed, and proftrace's guardian (guardian.h), `proftrace clean` or a later run takes everything
// away (RemoveLeftPatches). Until then nobody else patches the process (target_lock.h).
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

// For how long threads may record after the tracer's last sign of life. Then the tracer counts as
// gone.
inline constexpr int64_t kPatchLeaseNs = 2'000'000'000;

// How often regions are placed at most. They are placed again if the process has mapped the free
// memory near its code in the meantime.
inline constexpr int kMostPlacings = 5;

// Sorts the spots as PatchedCode needs them, and removes the spots that are not allowed in the
// process `pid`: those whose window has a call, if the process has a shadow stack.
void PrepareSpots(Pid pid, std::vector<PatchSpot>* spots);

// A spot that has no jump.
struct RefusedSpot {
  size_t spot = 0;  // index into the spots that PrepareSpots() has sorted
  std::string reason;
};

struct PatchReport {
  size_t jumps = 0;
  std::vector<RefusedSpot> refused;
  uint64_t trampoline_bytes = 0;
  StopTimes attach;  // how long all threads stood still
  StopTimes detach;
  int64_t held_ns = 0;  // how long one thread was stopped alone, to make system calls for us
};

// The jumps that were found in a process and taken away, and the memory that was unmapped.
struct RemovedPatches {
  size_t jumps = 0;
  uint64_t bytes = 0;
};

class PatchedProcess {
 public:
  // Puts the jumps, the regions and the ring into the process. Fails with one sentence
  // (kNotPermitted: another proftrace is patching the process); the process is then as it was,
  // unless the sentence says what stays in it. In `ring`, the caller leaves out the PID, the
  // address, the offset of threads' ids, the filters, the regions and the jumps, which are found
  // out here; the slots may become smaller. `held` (may be null): a thread of the process that
  // stands still already, and still does after a success. Only one thread at a time may use the
  // object; the ring is excepted.
  static absl::StatusOr<std::unique_ptr<PatchedProcess>> Attach(
      Pid pid, std::vector<PatchSpot> spots, const PatchRingOptions& ring,
      PatchRing::ThreadNumber thread_number, StoppedThreads* held = nullptr);
  // Attaches to a child that was forked from `parent` while `parent` had its jumps, which the child
  // has inherited. Gives the child a ring of its own, for which only one of its threads is stopped.
  // Fails if the process is no such child; RemoveLeftPatches() can then take out whatever it has
  // inherited. Does not change `parent`, which must outlive the new object.
  static absl::StatusOr<std::unique_ptr<PatchedProcess>> AttachFork(
      Pid child, const PatchedProcess& parent, PatchRing::ThreadNumber thread_number);
  // Puts jumps at more places, in libraries that the process has mapped since. Fails with one
  // sentence; then none of the new jumps is in the process, unless the sentence says so, and the
  // older jumps stay in use. `facts` must be those of code(). Adopt() must be called afterwards in
  // any case.
  absl::Status Extend(std::vector<PatchSpot> spots, RecorderTables tables, uint16_t node_signature,
                      const JobFacts& facts);
  // Adds to code() the jumps and regions that Extend() has put into the process. No other thread
  // may use code() meanwhile.
  void Adopt();
  ~PatchedProcess();
  PatchedProcess(const PatchedProcess&) = delete;
  PatchedProcess& operator=(const PatchedProcess&) = delete;

  PatchRing* ring() { return ring_.get(); }
  // Frees the ring's slots of threads that have ended. Must be called on the thread that drains the
  // ring.
  void FreeSlots() const;
  const PatchReport& report() const { return report_; }
  PatchedCode* code() { return &code_; }

  // Takes everything out of the process. Fails with a sentence that says what stays; the call may
  // be made again.
  absl::Status Detach();

 private:
  // Whether the thread has ended, as PatchRing::HasEnded is to say.
  bool HasThreadEnded(uint64_t control_block, uint32_t tid) const;
  PatchedProcess(Pid pid, WritableMemory memory)
      : pid_(pid), memory_(std::move(memory)), code_(pid, memory_) {}

  friend absl::StatusOr<bool> RemoveLeftPatches(Pid pid, RemovedPatches* removed);
  // Does the work of RemoveLeftPatches() for a caller who holds the lock.
  static absl::StatusOr<bool> RemoveLeft(Pid pid, RemovedPatches* removed);
  // Takes away what one killed run has left. Returns false if nothing was left.
  static absl::StatusOr<bool> RemoveOneLeft(Pid pid, RemovedPatches* removed);
  absl::Status TakeOut();
  // Takes out, after TakeOut(), a mapping or descriptor that a system call has left in the process
  // and whose return was not seen. Finds it by the process's map, as RemoveLeft() does.
  absl::Status TakeOutUnseen() const;
  // Takes out the jumps and regions of `code`. For code_, takes out the ring as well.
  absl::Status TakeOut(PatchedCode* code);
  absl::Status TryExtend(std::vector<PatchSpot> spots, const RecorderTables& tables,
                         uint16_t node_signature, const JobFacts& facts);
  absl::Status MapLate(StoppedThreads* threads);
  absl::Status Start(std::vector<PatchSpot> spots, const PatchRingOptions& ring,
                     PatchRing::ThreadNumber thread_number, StoppedThreads* held);
  // Maps the regions and the ring, by one thread that is stopped for it or `held`. `memory`:
  // receives the ring's file.
  absl::Status MapAll(PatchRingOptions* options, UniqueFd* memory, StoppedThreads* held);
  absl::Status MapAllBy(StoppedThreads* threads, PatchRingOptions* options, UniqueFd* memory);
  // Makes the ring's file, whose header says what will be mapped. By the header a later run finds
  // what this run has left if it is killed.
  absl::Status MakeRingFile(RemoteCalls* calls, const PatchRingOptions& options, UniqueFd* memory);
  absl::Status MapRegion(RemoteCalls* calls, const PatchedCode& code, PatchedCode::Region* region);
  absl::Status MapRing(RemoteCalls* calls);
  absl::Status UnmapAll(QuietMoment* moment, PatchedCode* code);
  // Fails with kFailedPrecondition where the child has its parent's memory (vfork), not a copy.
  absl::Status StartFork(const PatchedProcess& parent, PatchRing::ThreadNumber thread_number);
  // Maps a new ring, and unmaps the ring that was inherited.
  absl::Status ReplaceRing(StoppedThreads* threads, PatchRingOptions* options, UniqueFd* memory);
  // Stops one thread, unless one stands still already, and finds where the process's threads keep
  // their numbers. Sets `begin_ns` to the time of the stop.
  absl::StatusOr<RemoteCalls> BeginCalls(StoppedThreads* threads, int64_t* begin_ns,
                                         int32_t* tid_offset);

  Pid pid_;
  TargetLock lock_;  // held until nothing is in the process any more
  WritableMemory memory_;
  SystemCallPlaces system_calls_;
  PatchedCode code_;
  std::unique_ptr<PatchedCode> late_;  // the code of the last Extend(), until Adopt()
  std::unique_ptr<PatchRing> ring_;
  uint64_t ring_address_ = 0;  // 0 = not mapped
  uint64_t ring_bytes_ = 0;
  std::optional<int> filters_;  // how many seccomp filters each thread had at the attach
  uint64_t python_end_ = 0;  // address of the jump at which Python's end waits; 0 = there is none
  std::vector<int> descriptors_;  // of the ring, in the process; empty once the ring is mapped
  PatchReport report_;
};

// Takes away what killed runs have left in a process, or in the process from which it was forked.
// Returns whether there was anything, and adds it to `removed`. Fails with kNotPermitted where the
// proftrace that put it there still runs.
absl::StatusOr<bool> RemoveLeftPatches(Pid pid, RemovedPatches* removed = nullptr);

// Checks whether PatchedProcess::Attach() may do its work, as far as that can be seen without
// stopping a thread. Only Attach() itself can check filters of system calls that are not known
// beforehand.
absl::Status CheckPatchable(Pid pid);

// Whether there may be jumps in the process, judged by its map: it has a ring mapped, which is its
// own or was its parent's.
bool HasPatches(Pid pid);
// Whether this process, the tracer itself, has put the jumps there.
bool HasOwnPatches(Pid pid);

}  // namespace proftrace
