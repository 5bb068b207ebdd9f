#include "userspace/capture/session/host_state.h"

#include <absl/strings/numbers.h>
#include <absl/strings/str_split.h>
#include <absl/strings/string_view.h>
#include <absl/strings/strip.h>

#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <system_error>
#include <utility>
#include <vector>

#include "symbols/process/process_maps.h"

namespace proftrace {
namespace {

constexpr size_t kMostFileBytes = 64;
constexpr size_t kMostStatBytes = size_t{64} << 10;
constexpr size_t kMostCpus = 8192;

std::optional<uint64_t> ReadNumber(const std::string& path) {
  uint64_t number = 0;
  const std::string text = ReadSmallFile(path, kMostFileBytes);
  if (!absl::SimpleAtoi(absl::StripAsciiWhitespace(text), &number)) return std::nullopt;
  return number;
}

// Returns the folders of the CPUs: "…/cpu0", "…/cpu1".
std::vector<std::string> CpuFolders(const std::string& root) {
  std::vector<std::string> folders;
  std::error_code error;
  for (std::filesystem::directory_iterator it(root + "/sys/devices/system/cpu", error), end;
       !error && it != end && folders.size() < kMostCpus; it.increment(error)) {
    const std::string name = it->path().filename().native();
    uint32_t cpu = 0;
    if (name.starts_with("cpu") && absl::SimpleAtoi(name.substr(3), &cpu)) {
      folders.push_back(it->path().native());
    }
  }
  return folders;
}

// All CPUs of a package tell the package's time, so it is read once.
std::optional<int64_t> ReadThrottled(const std::vector<std::string>& cpus) {
  std::set<uint64_t> seen;
  std::optional<int64_t> ns;
  for (const std::string& cpu : cpus) {
    const auto package = ReadNumber(cpu + "/topology/physical_package_id");
    if (!package.has_value() || !seen.insert(*package).second) continue;
    const auto ms = ReadNumber(cpu + "/thermal_throttle/package_throttle_total_time_ms");
    if (ms.has_value() && *ms < uint64_t{1} << 40) {
      ns = ns.value_or(0) + static_cast<int64_t>(*ms) * 1'000'000;
    }
  }
  return ns;
}

std::optional<FrequencyLimit> ReadFrequency(const std::vector<std::string>& cpus) {
  FrequencyLimit limit;
  for (const std::string& cpu : cpus) {
    const auto may_khz = ReadNumber(cpu + "/cpufreq/scaling_max_freq");
    const auto able_khz = ReadNumber(cpu + "/cpufreq/cpuinfo_max_freq");
    if (!may_khz.has_value() || !able_khz.has_value() || *able_khz == 0) continue;
    ++limit.cpus;
    if (*may_khz >= *able_khz - *able_khz / 20) continue;
    if (limit.limited++ > 0 && *may_khz >= limit.limit_khz) continue;
    limit.limit_khz = *may_khz;
    limit.able_khz = *able_khz;
  }
  return limit.cpus > 0 ? std::optional(limit) : std::nullopt;
}

std::optional<NumaHints> ReadNumaHints(const std::string& root) {
  const std::string text = ReadSmallFile(root + "/proc/vmstat", kMostStatBytes);
  std::map<std::string, uint64_t> counters;
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    const std::pair<std::string, std::string> words = absl::StrSplit(line, ' ');
    uint64_t count = 0;
    if (absl::SimpleAtoi(words.second, &count)) counters[words.first] = count;
  }
  const auto all = counters.find("numa_hint_faults");
  const auto local = counters.find("numa_hint_faults_local");
  if (all == counters.end() || local == counters.end()) return std::nullopt;
  return NumaHints{all->second, local->second};
}

}  // namespace

HostState ReadHostState(const std::string& root) {
  const std::vector<std::string> cpus = CpuFolders(root);
  HostState state;
  state.throttled_ns = ReadThrottled(cpus);
  state.frequency = ReadFrequency(cpus);
  state.numa = ReadNumaHints(root);
  return state;
}

void TellHost(const ClockSnapshot& clocks, MetadataWriter* writer) {
  writer->AddClocks(clocks);
  HostState state = ReadHostState();
  state.time_ns = clocks.monotonic_ns;
  writer->AddHostState(state);
}

}  // namespace proftrace
