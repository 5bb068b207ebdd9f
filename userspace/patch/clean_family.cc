#include "userspace/patch/clean_family.h"

#include <absl/strings/match.h>
#include <absl/strings/str_cat.h>

#include <cstdlib>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "bpf/abi/patch_memory.h"
#include "symbols/process/process_maps.h"
#include "userspace/base/exit_status.h"
#include "userspace/inject/writable_memory.h"
#include "userspace/patch/ring_file.h"

namespace proftrace {
namespace {

constexpr size_t kMostStatusBytes = 8192;
constexpr int kMostGenerations = 1000;  // how many ancestors of a process are followed
// How often the processes are listed, at most. A child that is forked while its parent is being
// cleaned has inherited what was in the parent.
constexpr int kMostRounds = 8;

uint32_t ParentOf(uint32_t pid) {
  const std::string status =
      ReadSmallFile("/proc/" + std::to_string(pid) + "/status", kMostStatusBytes);
  return static_cast<uint32_t>(
      std::strtoul(std::string(StatusValue(status, "PPid")).c_str(), nullptr, 10));
}

bool IsDescendant(const std::map<uint32_t, uint32_t>& parents, uint32_t pid, uint32_t ancestor) {
  for (int i = 0; i < kMostGenerations; ++i) {
    const auto at = parents.find(pid);
    if (at == parents.end()) return false;
    if (at->second == ancestor) return true;
    pid = at->second;
  }
  return false;
}

// Whether the process has the ring at the address where its writer maps it, rather than mapped by a
// tracer that reads it.
bool IsWriter(Pid pid, const Mapping& ring) {
  const auto memory = WritableMemory::Open(pid);
  uint64_t self = 0;
  return memory.ok() && memory->ReadValue(ring.start + PATCH_RING_SELF, &self) &&
         self == ring.start;
}

// Returns the other processes that have patches because of `pid`: its descendants that have any
// ring, and all processes that write into its ring, `ring`.
std::vector<Pid> FindRingSharers(Pid pid, const std::optional<Mapping>& ring) {
  std::map<uint32_t, uint32_t> parents;
  for (const uint32_t number : ReadNumberedEntries("/proc")) parents[number] = ParentOf(number);
  std::vector<Pid> sharers;
  for (const auto& [number, parent] : parents) {
    if (number == Raw(pid)) continue;
    const Pid other{number};
    const bool is_descendant = IsDescendant(parents, number, Raw(pid));
    if (!is_descendant && !ring.has_value()) continue;
    const absl::StatusOr<std::vector<Mapping>> mappings = ReadMaps(other);
    if (!mappings.ok()) continue;
    const std::optional<Mapping> its = FindRingMapping(*mappings);
    const bool is_same = its.has_value() && ring.has_value() && its->inode == ring->inode &&
                         its->device == ring->device && IsWriter(other, *its);
    const bool has_ring = is_descendant && (its.has_value() || !FindRingDescriptors(other).empty());
    if (is_same || has_ring) sharers.push_back(other);
  }
  return sharers;
}

CleanedProcess CleanOne(Pid pid) {
  CleanedProcess cleaned;
  cleaned.pid = pid;
  const absl::StatusOr<bool> found = RemoveLeftPatches(pid, &cleaned.removed);
  if (found.ok()) {
    cleaned.is_found = *found;
    return cleaned;
  }
  std::string message(found.status().message());
  const std::string name = absl::StrCat("PID ", Raw(pid));
  if (!absl::StrContains(message, name)) {
    message = absl::StrCat(name, " cannot be cleaned: ", message);
  }
  const bool may_be_tried_again = absl::IsUnavailable(found.status());
  cleaned.status =
      Fail(may_be_tried_again ? ExitCode::kHostUnfit : ExitCodeOf(found.status()), message);
  return cleaned;
}

}  // namespace

std::vector<CleanedProcess> CleanFamily(Pid pid) {
  const auto mappings = ReadMaps(pid);
  if (!mappings.ok()) return {{pid, false, {}, mappings.status()}};
  if (mappings->empty()) {
    return {{pid,
             false,
             {},
             Fail(ExitCode::kNoTarget,
                  absl::StrCat("PID ", Raw(pid), " has ended, or is a thread of the kernel"))}};
  }
  const std::optional<Mapping> ring = FindRingMapping(*mappings);
  std::vector<CleanedProcess> cleaned = {CleanOne(pid)};
  if (!cleaned.front().status.ok()) return cleaned;
  std::set<Pid> seen = {pid};
  bool found_new = true;
  for (int round = 0; round < kMostRounds && found_new; ++round) {
    found_new = false;
    for (const Pid sharer : FindRingSharers(pid, ring)) {
      if (!seen.insert(sharer).second) continue;
      found_new = true;
      CleanedProcess one = CleanOne(sharer);
      if (one.is_found || (!one.status.ok() && ExitCodeOf(one.status) != ExitCode::kNoTarget)) {
        cleaned.push_back(std::move(one));
      }
    }
  }
  return cleaned;
}

}  // namespace proftrace
