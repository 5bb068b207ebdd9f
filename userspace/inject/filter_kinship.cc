#include "userspace/inject/filter_kinship.h"

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "symbols/process/process_maps.h"
#include "userspace/base/text.h"
#include "userspace/inject/seccomp_filter.h"

namespace proftrace {
namespace {

constexpr size_t kStatusBytes = 8192;
constexpr size_t kMostAncestors = 64;
constexpr int kFilterMode = 2;

std::string ReadStatusOf(uint32_t pid) {
  return ReadSmallFile("/proc/" + std::to_string(pid) + "/status", kStatusBytes);
}

// Whether the process is the first one of its PID namespace. It becomes the parent of orphans,
// which may have entered the namespace from outside, with other filters.
bool IsFirstOfNamespace(uint32_t pid) {
  const std::string status = ReadStatusOf(pid);
  const auto numbers = SplitText(StatusValue(status, "NSpid"), "\t ", /*skip_empty=*/true);
  return numbers.empty() || numbers.back() == "1";
}

// Whether `leader` leads the session of the process: all processes of a session descend from its
// leader.
bool IsInSessionOf(uint32_t pid, uint32_t leader) {
  return getsid(static_cast<pid_t>(pid)) == static_cast<pid_t>(leader);
}

// Returns the process and its ancestors, up to the first one that does not have `filters` filters,
// or that may only have adopted an orphan.
std::vector<uint32_t> LineOf(uint32_t pid, int filters) {
  std::vector<uint32_t> line;
  while (pid != 0 && line.size() < kMostAncestors && FiltersOfAllThreads(Pid{pid}) == filters) {
    line.push_back(pid);
    const std::string status = ReadStatusOf(pid);
    const uint32_t parent = ParseNumber<uint32_t>(StatusValue(status, "PPid")).value_or(0);
    if (parent != 0 && IsFirstOfNamespace(parent) && !IsInSessionOf(pid, parent)) break;
    pid = parent;
  }
  return line;
}

}  // namespace

std::optional<int> FiltersOfAllThreads(Pid pid) {
  std::optional<int> filters;
  for (const uint32_t thread : ReadNumberedEntries("/proc/" + std::to_string(Raw(pid)) + "/task")) {
    const auto tid = static_cast<int>(thread);
    const int count = SeccompFilterCount(pid, tid);
    if (SeccompMode(pid, tid) != (count == 0 ? 0 : kFilterMode)) return std::nullopt;
    if (filters.value_or(count) != count) return std::nullopt;
    filters = count;
  }
  return filters;
}

bool HasOwnFilters(Pid pid) {
  const auto self = static_cast<uint32_t>(getpid());
  const std::optional<int> filters = FiltersOfAllThreads(Pid{self});
  if (!filters.has_value()) return false;
  const std::vector<uint32_t> own = LineOf(self, *filters);
  const std::vector<uint32_t> line = LineOf(Raw(pid), *filters);
  return std::any_of(line.begin(), line.end(), [&own](uint32_t ancestor) {
    return std::find(own.begin(), own.end(), ancestor) != own.end();
  });
}

}  // namespace proftrace
