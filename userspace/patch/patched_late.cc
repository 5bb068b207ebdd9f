// Puts jumps into libraries that a process maps when it has jumps already.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "symbols/process/process_maps.h"
#include "userspace/base/clock.h"
#include "userspace/base/exit_status.h"
#include "userspace/inject/remote_calls.h"
#include "userspace/inject/stopped_threads.h"
#include "userspace/patch/patched_process.h"

namespace proftrace {

absl::Status PatchedProcess::Extend(std::vector<PatchSpot> spots, RecorderTables tables,
                                    uint16_t node_signature, const JobFacts& facts) {
  const absl::StatusOr<TargetLock> code = TargetLock::TakeForJumps(pid_);
  if (!code.ok()) return code.status();
  PrepareSpots(pid_, &spots);
  absl::Status status;
  for (int tries = 0; tries < kMostPlacings; ++tries) {
    status = TryExtend(spots, tables, node_signature, facts);
    if (!absl::IsAborted(status)) break;
  }
  return status;
}

absl::Status PatchedProcess::TryExtend(std::vector<PatchSpot> spots, const RecorderTables& tables,
                                       uint16_t node_signature, const JobFacts& facts) {
  const absl::StatusOr<std::vector<Mapping>> mappings = ReadMaps(pid_);
  if (!mappings.ok()) return mappings.status();
  auto late = std::make_unique<PatchedCode>(pid_, memory_);
  late->SetTables(tables, node_signature);
  (void)late->SetFacts(facts);
  late->PlaceRegions(std::move(spots), *mappings);
  std::vector<AddressRange> regions;
  for (const PatchedCode::Region& region : late->regions()) regions.push_back(region.range);
  if (regions.empty()) return Fail(ExitCode::kHostUnfit, "there is no place for more jumps in it");
  const std::vector<uint64_t> jumps = late->JumpAddresses();
  // The new regions and jumps are announced in the ring, so that a later run can take all of them
  // away if this run is killed.
  if (!ring_->Announce(regions, jumps)) {
    return Fail(ExitCode::kHostUnfit, "it has too many libraries with jumps");
  }
  late_ = std::move(late);
  absl::Status status =
      StoppedThreads::Use(pid_, [this](StoppedThreads* threads) { return MapLate(threads); });
  // The libraries' pages are not touched beforehand, because the libraries may be unmapped at any
  // time until the dynamic linker is done with them.
  if (status.ok()) status = late_->WriteTrampolines(/*touches_pages=*/false);
  if (status.ok()) {
    status = AtQuietMoment(
        pid_, memory_, [this](uint64_t address) { return late_->IsInsideJump(address); },
        [this](QuietMoment*) {
          report_.jumps += late_->WriteJumps();
          return late_->Publish(ring_address_)
                     ? absl::OkStatus()
                     : absl::UnavailableError("its memory cannot be written");
        },
        &report_.attach);
  }
  if (status.ok()) return status;
  if (const absl::Status left = TakeOut(late_.get()); !left.ok()) {
    return absl::Status(status.code() == absl::StatusCode::kAborted ? absl::StatusCode::kUnavailable
                                                                    : status.code(),
                        std::string(status.message()) + "; " + std::string(left.message()));
  }
  late_.reset();
  ring_->Retract(regions.size(), jumps.size());
  return status;
}

absl::Status PatchedProcess::MapLate(StoppedThreads* threads) {
  const Hurry hurry;
  int64_t begin_ns = 0;
  int32_t tid_offset = 0;
  absl::StatusOr<RemoteCalls> calls = BeginCalls(threads, &begin_ns, &tid_offset);
  if (!calls.ok()) return calls.status();
  absl::Status status;
  for (PatchedCode::Region& region : late_->regions()) {
    if (status.ok()) status = MapRegion(&*calls, *late_, &region);
  }
  report_.held_ns += MonotonicNs() - begin_ns;
  return status;
}

void PatchedProcess::Adopt() {
  if (late_ == nullptr) return;
  code_.Adopt(*late_);
  late_.reset();
}

}  // namespace proftrace
