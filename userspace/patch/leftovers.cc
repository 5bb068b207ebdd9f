// Finds and takes away what a killed run has left in a process, by the header of its ring.
#include <absl/strings/str_cat.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "bpf/abi/patch_memory.h"
#include "symbols/plan/process.h"
#include "symbols/process/process_maps.h"
#include "userspace/base/clock.h"
#include "userspace/base/exit_status.h"
#include "userspace/inject/loader_places.h"
#include "userspace/patch/patched_process.h"
#include "userspace/patch/ring_file.h"
#include "userspace/patch/target_lock.h"

namespace proftrace {
namespace {

constexpr uint64_t kMostJumps = 1u << 20;
constexpr size_t kMostStatusBytes = 8192;
constexpr int kMostRuns = 64;  // how many killed runs, one after the other, may have left something
// How long the removal is tried again for a process that still seems to be traced. The kernel
// closes a killed tracer's files, and so its lock, before it lets go of the threads that the tracer
// has stopped.
constexpr int64_t kLetGoNs = 500'000'000;
constexpr useconds_t kLookUs = 5000;

struct Leftovers {
  AddressRange ring;  // address 0: the process has no ring
  std::vector<AddressRange> regions;
  std::vector<uint64_t> jumps;
  std::optional<int> filters;    // seccomp filters each thread had before the ring was made
  uint64_t python_end = 0;       // the jump at which Python's end waits for reading threads
  std::vector<int> descriptors;  // descriptors of a ring that was not mapped yet

  bool IsEmpty() const { return ring.address == 0 && regions.empty() && descriptors.empty(); }
};

// Whether the tracer with this PID and start still runs. A killed tracer may be listed without any
// memory, about to end, or as a zombie that waits for its parent; it counts as ended.
bool IsRunning(uint32_t pid, uint64_t start_ticks) {
  const absl::StatusOr<ProcessInfo> info = ReadProcessInfo(Pid{pid});
  if (!info.ok() || info->start_ticks != start_ticks) return false;
  const std::string status =
      ReadSmallFile("/proc/" + std::to_string(pid) + "/status", kMostStatusBytes);
  const std::string_view state = StatusValue(status, "State");
  if (const auto mappings = ReadMaps(Pid{pid}); mappings.ok() && mappings->empty()) return false;
  return !state.empty() && state.front() != 'Z' && state.front() != 'X';
}

// Fails if the tracer that owns a region or a ring still runs. That happens if the process is a
// forked child of a process that the owner is patching, or if the owner's lock cannot be seen from
// here.
absl::Status CheckOwner(Pid pid, uint32_t owner, uint64_t start_ticks) {
  if (owner == 0 || owner == static_cast<uint32_t>(getpid()) || !IsRunning(owner, start_ticks)) {
    return absl::OkStatus();
  }
  return TargetLock::HeldBy(pid, Pid{owner});
}

// Returns the error for jumps that have to stay. The memory that jumps lead to can only be unmapped
// if all of them are known.
absl::Status Stays(Pid pid, std::string_view reason) {
  return Fail(ExitCode::kHostUnfit, absl::StrCat("jumps of a killed proftrace stay in PID ",
                                                 Raw(pid), ": ", std::string(reason)));
}

// Finds the regions by their control pages. The control pages of a forked child are empty; its
// regions are found by its parent's ring, which the child has mapped as well
// (AddAnnouncedRegions()).
absl::Status FindRegions(Pid pid, const WritableMemory& memory,
                         const std::vector<Mapping>& mappings, Leftovers* left) {
  for (const Mapping& mapping : mappings) {
    if (mapping.inode != 0 || mapping.executable || !mapping.path.empty()) continue;
    uint64_t fields[PATCH_CONTROL_FIELDS / 8] = {};
    if (!memory.Read(mapping.start, fields, sizeof(fields)) ||
        fields[PATCH_CONTROL_MAGIC / 8] != PATCH_RING_MAGIC_VALUE) {
      continue;
    }
    const AddressRange range{mapping.start, fields[PATCH_CONTROL_REGION / 8]};
    if (!IsRegionMapped(range, mappings)) continue;
    const auto owner = static_cast<uint32_t>(fields[PATCH_CONTROL_OWNER / 8]);
    if (absl::Status status = CheckOwner(pid, owner, fields[PATCH_CONTROL_OWNER_START / 8]);
        !status.ok()) {
      return status;
    }
    left->regions.push_back(range);
  }
  return absl::OkStatus();
}

// The header of a ring, which is mapped, or whose file has not been mapped yet.
struct Header {
  std::vector<std::byte> bytes = std::vector<std::byte>(PATCH_RING_HEADER_BYTES);

  template <typename T>
  T Field(size_t offset) const {
    T value{};
    std::memcpy(&value, bytes.data() + offset, sizeof(value));
    return value;
  }
  bool IsValid() const {
    return Field<uint64_t>(PATCH_RING_MAGIC) == PATCH_RING_MAGIC_VALUE &&
           Field<uint32_t>(PATCH_RING_VERSION) == PATCH_RING_VERSION_VALUE;
  }
};

std::optional<Header> ReadHeader(Pid pid, const WritableMemory& memory, const Leftovers& left) {
  Header header;
  if (left.ring.address != 0) {
    if (!memory.Read(left.ring.address, header.bytes.data(), header.bytes.size())) {
      return std::nullopt;
    }
  } else if (!left.descriptors.empty()) {
    const std::string path = "/proc/" + std::to_string(Raw(LivingThread(pid))) + "/fd/" +
                             std::to_string(left.descriptors.front());
    const UniqueFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
    if (!file.valid() || pread(file.get(), header.bytes.data(), header.bytes.size(), 0) !=
                             static_cast<ssize_t>(header.bytes.size())) {
      return std::nullopt;
    }
  }
  return header.IsValid() ? std::optional<Header>(std::move(header)) : std::nullopt;
}

// Adds the regions that do not name their owner: they were not claimed yet, or a fork has wiped
// their control page.
void AddAnnouncedRegions(const Header& header, const WritableMemory& memory,
                         const std::vector<Mapping>& mappings, Leftovers* left) {
  for (size_t i = 0; i < PATCH_RING_MOST_REGIONS; ++i) {
    const auto range = header.Field<AddressRange>(PATCH_RING_REGIONS + i * sizeof(AddressRange));
    if (range.address == 0) break;
    const bool is_known =
        std::any_of(left->regions.begin(), left->regions.end(),
                    [&range](const AddressRange& known) { return known.address == range.address; });
    if (!is_known && IsUnclaimedRegion(memory, range, mappings)) left->regions.push_back(range);
  }
}

absl::Status FindRing(Pid pid, const WritableMemory& memory, const std::vector<Mapping>& mappings,
                      Leftovers* left) {
  if (const std::optional<Mapping> ring = FindRingMapping(mappings); ring.has_value()) {
    left->ring = {ring->start, ring->end - ring->start};
  }
  left->descriptors = FindRingDescriptors(pid);
  const std::optional<Header> header = ReadHeader(pid, memory, *left);
  if (!header.has_value()) return absl::OkStatus();
  const auto self = header->Field<uint64_t>(PATCH_RING_SELF);
  if (self != 0 && left->ring.address != 0 && self != left->ring.address) {
    // The process reads this ring as a tracer, and does not write into it.
    left->ring = {};
    return absl::OkStatus();
  }
  if (absl::Status status = CheckOwner(pid, header->Field<uint32_t>(PATCH_RING_OWNER),
                                       header->Field<uint64_t>(PATCH_RING_OWNER_START));
      !status.ok()) {
    return status;
  }
  AddAnnouncedRegions(*header, memory, mappings, left);
  if (const auto filters = header->Field<uint32_t>(PATCH_RING_FILTERS); filters != 0) {
    left->filters = static_cast<int>(filters - 1);
  }
  left->python_end = header->Field<uint64_t>(PATCH_RING_PYTHON_END);
  const auto jumps = header->Field<uint64_t>(PATCH_RING_JUMPS);
  PatchRingOptions options;
  options.slot_words = static_cast<uint32_t>(header->Field<uint64_t>(PATCH_RING_MASK) + 1);
  const uint64_t offset = PatchRing::JumpsOffset(options);
  if (left->ring.address == 0) return absl::OkStatus();  // the process has no jumps yet
  left->jumps.resize(std::min(jumps, kMostJumps));
  if (jumps > kMostJumps || offset > left->ring.bytes || jumps * 8 > left->ring.bytes - offset ||
      !memory.Read(left->ring.address + offset, left->jumps.data(), jumps * 8)) {
    return Stays(pid, "it has overwritten where they are");
  }
  return absl::OkStatus();
}

}  // namespace

bool HasPatches(Pid pid) {
  const absl::StatusOr<std::vector<Mapping>> mappings = ReadMaps(pid);
  return mappings.ok() && FindRingMapping(*mappings).has_value();
}

bool HasOwnPatches(Pid pid) {
  const absl::StatusOr<std::vector<Mapping>> mappings = ReadMaps(pid);
  if (!mappings.ok()) return false;
  const std::optional<Mapping> ring = FindRingMapping(*mappings);
  const absl::StatusOr<WritableMemory> memory = WritableMemory::Open(pid);
  if (!ring.has_value() || !memory.ok()) return false;
  Leftovers left;
  left.ring = {ring->start, ring->end - ring->start};
  const std::optional<Header> header = ReadHeader(pid, *memory, left);
  return header.has_value() &&
         header->Field<uint32_t>(PATCH_RING_OWNER) == static_cast<uint32_t>(getpid());
}

absl::StatusOr<bool> PatchedProcess::RemoveOneLeft(Pid pid, RemovedPatches* removed) {
  const absl::StatusOr<std::vector<Mapping>> mappings = ReadMaps(pid);
  if (!mappings.ok()) return mappings.status();
  absl::StatusOr<WritableMemory> memory = WritableMemory::Open(pid);
  if (!memory.ok()) return memory.status();
  Leftovers left;
  absl::Status status = FindRegions(pid, *memory, *mappings, &left);
  if (status.ok()) status = FindRing(pid, *memory, *mappings, &left);
  if (!status.ok()) return status;
  if (left.IsEmpty()) return false;
  const absl::StatusOr<LoaderPlaces> places = FindLoaderPlaces(pid, *mappings);
  if (!places.ok()) return places.status();
  PatchedProcess process(pid, *std::move(memory));
  process.system_calls_ = places->system_calls;
  if (!process.code_.TakeOver(left.regions, left.jumps, *mappings)) {
    process.code_.regions().clear();
    return Stays(pid, "somebody else has changed the code there");
  }
  process.ring_address_ = left.ring.address;
  process.ring_bytes_ = left.ring.bytes;
  process.descriptors_ = left.descriptors;
  process.python_end_ = left.python_end;
  process.filters_ = left.filters;
  const int64_t deadline_ns = MonotonicNs() + kLetGoNs;
  status = process.Detach();
  while (ExitCodeOf(status) == ExitCode::kNotPermitted && MonotonicNs() < deadline_ns) {
    usleep(kLookUs);
    status = process.Detach();
  }
  if (!status.ok()) return status;
  if (removed != nullptr) {
    removed->jumps += process.code_.CountJumps();
    removed->bytes += left.ring.bytes;
    for (const AddressRange& region : left.regions) removed->bytes += region.bytes;
  }
  return true;
}

absl::StatusOr<bool> PatchedProcess::RemoveLeft(Pid pid, RemovedPatches* removed) {
  for (int runs = 0; runs < kMostRuns; ++runs) {
    const absl::StatusOr<bool> is_more = RemoveOneLeft(pid, removed);
    if (!is_more.ok()) return is_more.status();
    if (!*is_more) return runs > 0;
  }
  return Fail(ExitCode::kHostUnfit, "what a killed proftrace has left in PID " +
                                        std::to_string(Raw(pid)) +
                                        " cannot be taken away: it is there again each time");
}

absl::StatusOr<bool> RemoveLeftPatches(Pid pid, RemovedPatches* removed) {
  const absl::StatusOr<TargetLock> lock = TargetLock::Take(pid);
  if (!lock.ok()) return lock.status();
  return PatchedProcess::RemoveLeft(pid, removed);
}

}  // namespace proftrace
