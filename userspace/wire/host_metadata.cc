#include "userspace/wire/host_metadata.h"

#include <utility>

#include "userspace/wire/metadata_json.h"

namespace proftrace {

using namespace metadata_json;  // NOLINT(google-build-using-namespace)

namespace {

// The most snapshots that are read, because a hostile file may hold any number. One in ten seconds
// makes this many in a week.
constexpr size_t kMostHostStates = size_t{1} << 16;
constexpr int64_t kLongestThrottledNs = int64_t{1} << 60;

std::optional<FrequencyLimit> FrequencyFromJson(const json& object) {
  const auto cpus = WholeNumber<uint32_t>(Member(object, "cpus"));
  const auto limited = WholeNumber<uint32_t>(Member(object, "limited"));
  const auto limit_khz = WholeNumber<uint64_t>(Member(object, "limit_khz"));
  const auto able_khz = WholeNumber<uint64_t>(Member(object, "able_khz"));
  if (!cpus || !limited || !limit_khz || !able_khz || *limited > *cpus) return std::nullopt;
  return FrequencyLimit{*cpus, *limited, *limit_khz, *able_khz};
}

std::optional<NumaHints> NumaFromJson(const json& object) {
  const auto all = WholeNumber<uint64_t>(Member(object, "all"));
  const auto local = WholeNumber<uint64_t>(Member(object, "local"));
  if (!all || !local || *local > *all) return std::nullopt;
  return NumaHints{*all, *local};
}

}  // namespace

json HostStateToJson(const HostState& state) {
  json entry = {{"type", "host_state"}, {"time_ns", state.time_ns}};
  if (state.throttled_ns.has_value()) entry["throttled_ns"] = *state.throttled_ns;
  if (const auto& limit = state.frequency; limit.has_value()) {
    entry["frequency"] = {{"cpus", limit->cpus},
                          {"limited", limit->limited},
                          {"limit_khz", limit->limit_khz},
                          {"able_khz", limit->able_khz}};
  }
  if (state.numa.has_value()) {
    entry["numa"] = {{"all", state.numa->all}, {"local", state.numa->local}};
  }
  return entry;
}

void MergeHostState(const json& entry, RecordingInfo* info) {
  HostState state;
  const auto time_ns = WholeNumber<int64_t>(Member(entry, "time_ns"));
  if (!time_ns || *time_ns < 0 || *time_ns > kLatestMonotonicNs) return;
  state.time_ns = *time_ns;
  const auto throttled_ns = WholeNumber<int64_t>(Member(entry, "throttled_ns"));
  if (throttled_ns && *throttled_ns >= 0 && *throttled_ns <= kLongestThrottledNs) {
    state.throttled_ns = throttled_ns;
  }
  state.frequency = FrequencyFromJson(Member(entry, "frequency"));
  state.numa = NumaFromJson(Member(entry, "numa"));
  std::vector<HostState>& states = info->host_states;
  if (states.size() >= kMostHostStates) return;
  if (states.empty() || states.back().time_ns <= state.time_ns) states.push_back(state);
}

}  // namespace proftrace
