// Attaches to a child that was forked while its parent had jumps.
#include <sys/mman.h>
#include <sys/syscall.h>

#include <optional>
#include <utility>
#include <vector>

#include "symbols/process/process_maps.h"
#include "userspace/base/clock.h"
#include "userspace/inject/filter_kinship.h"
#include "userspace/patch/patched_process.h"
#include "userspace/patch/ring_file.h"

namespace proftrace {

absl::StatusOr<std::unique_ptr<PatchedProcess>> PatchedProcess::AttachFork(
    Pid child, const PatchedProcess& parent, PatchRing::ThreadNumber thread_number) {
  absl::StatusOr<WritableMemory> memory = WritableMemory::Open(child);
  if (!memory.ok()) return memory.status();
  absl::StatusOr<TargetLock> lock = TargetLock::Take(child);
  if (!lock.ok()) return lock.status();
  std::unique_ptr<PatchedProcess> process(new PatchedProcess(child, *std::move(memory)));
  process->lock_ = *std::move(lock);
  const absl::Status status = process->StartFork(parent, std::move(thread_number));
  if (!status.ok()) return status;
  return process;
}

absl::Status PatchedProcess::StartFork(const PatchedProcess& parent,
                                       PatchRing::ThreadNumber thread_number) {
  const absl::StatusOr<std::vector<Mapping>> mappings = ReadMaps(pid_);
  if (!mappings.ok()) return mappings.status();
  const std::optional<Mapping> inherited = FindRingMapping(*mappings);
  if (!inherited.has_value() || inherited->start != parent.ring_address_) {
    return absl::NotFoundError("it is no fork of a process that had jumps");
  }
  system_calls_ = parent.system_calls_;
  code_.TakeFrom(parent.code_);
  report_.jumps = parent.report_.jumps;
  python_end_ = parent.python_end_;
  if (code_.IsClaimed()) {
    code_.regions().clear();
    return absl::FailedPreconditionError("it has its parent's memory until it runs a program");
  }
  if (!code_.IsStillThere()) return absl::NotFoundError("it has ended, or runs another program");
  if (!code_.HasJumpOfEachRegion()) return absl::NotFoundError("jumps of its parent are newer");
  ring_address_ = inherited->start;
  ring_bytes_ = inherited->end - inherited->start;

  PatchRingOptions options = parent.ring_->options();
  options.pid = pid_;
  options.address = 0;
  filters_ = options.filters = FiltersOfAllThreads(pid_);
  UniqueFd memory;
  const absl::Status status = StoppedThreads::Use(
      pid_, [&](StoppedThreads* threads) { return ReplaceRing(threads, &options, &memory); });
  if (!status.ok()) return status;
  absl::StatusOr<std::unique_ptr<PatchRing>> made =
      PatchRing::Make(memory, options, std::move(thread_number));
  if (!made.ok()) return made.status();
  ring_ = *std::move(made);
  ring_->SetEndsAreSeen(parent.ring_->ends_are_seen());
  if (parent.ring_->are_stacks_read()) ring_->LetReadStacks();
  ring_->LetWrite(kPatchLeaseNs);
  for (const PatchedCode::Region& region : code_.regions()) {
    if (!code_.Claim(region)) return absl::UnavailableError("its memory cannot be written");
  }
  return code_.Publish(ring_address_) ? absl::OkStatus()
                                      : absl::UnavailableError("its memory cannot be written");
}

absl::Status PatchedProcess::ReplaceRing(StoppedThreads* threads, PatchRingOptions* options,
                                         UniqueFd* memory) {
  const Hurry hurry;
  int64_t begin_ns = 0;
  absl::StatusOr<RemoteCalls> calls = BeginCalls(threads, &begin_ns, &options->tid_offset);
  if (!calls.ok()) return calls.status();
  const AddressRange inherited{ring_address_, ring_bytes_};
  absl::Status status = MakeRingFile(&*calls, *options, memory);
  if (status.ok()) status = MapRing(&*calls);
  if (status.ok()) {
    options->address = ring_address_;
    status = calls->Call(SYS_munmap, {inherited.address, inherited.bytes, 0, 0, 0, 0}).status();
  }
  report_.held_ns = MonotonicNs() - begin_ns;
  return status;
}

}  // namespace proftrace
