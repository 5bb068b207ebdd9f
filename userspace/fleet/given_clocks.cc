#include "userspace/fleet/given_clocks.h"

#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "userspace/base/exit_status.h"
#include "userspace/base/shown_text.h"

namespace proftrace {
namespace {

using nlohmann::json;

// The largest offset (36 years) and drift (a tenth) that are believed.
constexpr int64_t kMostOffsetNs = int64_t{1} << 60;
constexpr int64_t kMostDriftPpb = 100'000'000;

// Reads an integer within ±`most`. Returns false where the value is something else.
bool ReadWithin(const json& object, const char* key, int64_t most, std::optional<int64_t>* value) {
  const auto it = object.find(key);
  if (it == object.end() || it->is_null()) return true;
  if (!it->is_number_integer()) return false;
  if (it->is_number_unsigned() && it->get<uint64_t>() > static_cast<uint64_t>(most)) return false;
  const int64_t number = it->get<int64_t>();
  if (number > most || number < -most) return false;
  *value = number;
  return true;
}

std::string TextOf(const json& object, const char* key) {
  const auto it = object.find(key);
  return it != object.end() && it->is_string() ? it->get<std::string>() : std::string();
}

absl::StatusOr<GivenClock> ReadHost(const json& entry, const std::string& path) {
  const auto wrong = [&path](const std::string& what) {
    return Fail(ExitCode::kInputDamaged, path + " is no file of clocks: " + what);
  };
  if (!entry.is_object()) return wrong("an entry of \"hosts\" is no object");
  GivenClock clock;
  clock.host = TextOf(entry, "host");
  clock.boot_id = TextOf(entry, "boot_id");
  if (clock.host.empty() && clock.boot_id.empty()) {
    return wrong("an entry of \"hosts\" has neither \"host\" nor \"boot_id\"");
  }
  const std::string name = ShownText(clock.host.empty() ? clock.boot_id : clock.host);
  std::optional<int64_t> offset;
  std::optional<int64_t> drift;
  std::optional<int64_t> at;
  if (!ReadWithin(entry, "offset_ns", kMostOffsetNs, &offset) || !offset) {
    return wrong("\"offset_ns\" of " + name + " is no whole number of nanoseconds");
  }
  if (!ReadWithin(entry, "drift_ppb", kMostDriftPpb, &drift) ||
      !ReadWithin(entry, "at_unix_ns", INT64_MAX, &at) ||
      !ReadWithin(entry, "bound_ns", kMostOffsetNs, &clock.bound_ns) ||
      clock.bound_ns.value_or(0) < 0) {
    return wrong("\"drift_ppb\", \"at_unix_ns\" or \"bound_ns\" of " + name +
                 " is no number that a clock can have");
  }
  if (drift.value_or(0) != 0 && !at) {
    return wrong(name + " has a drift, but no \"at_unix_ns\" at which its offset holds");
  }
  clock.offset_ns = *offset;
  clock.drift_ppb = drift.value_or(0);
  clock.at_unix_ns = at.value_or(0);
  return clock;
}

}  // namespace

int64_t GivenClock::ToCommon(int64_t wall_ns) const {
  if (drift_ppb == 0) return wall_ns + offset_ns;
  const auto gained = static_cast<__int128>(wall_ns - at_unix_ns) * drift_ppb / 1'000'000'000;
  return wall_ns + offset_ns + static_cast<int64_t>(gained);
}

absl::StatusOr<std::vector<GivenClock>> ReadGivenClocks(std::string_view text,
                                                        const std::string& path) {
  const json document = json::parse(text, nullptr, /*allow_exceptions=*/false);
  const json* hosts = nullptr;
  if (document.is_object()) {
    const auto clock = document.find("clock");
    const json& holder = clock != document.end() && clock->is_object() ? *clock : document;
    if (const auto it = holder.find("hosts"); it != holder.end()) hosts = &*it;
  }
  if (hosts == nullptr || !hosts->is_array()) {
    return Fail(ExitCode::kInputDamaged,
                path +
                    " is no file of clocks: it has no list \"hosts\"; write {\"hosts\": "
                    "[{\"host\": \"node1\", \"offset_ns\": 0}]}");
  }
  std::vector<GivenClock> clocks;
  std::set<std::pair<std::string, std::string>> seen;
  for (const json& entry : *hosts) {
    absl::StatusOr<GivenClock> clock = ReadHost(entry, path);
    if (!clock.ok()) return clock.status();
    if (!seen.emplace(clock->boot_id, clock->boot_id.empty() ? clock->host : "").second) {
      return Fail(ExitCode::kInputDamaged,
                  path + " has " + ShownText(clock->host) + " twice; give each host one offset");
    }
    clocks.push_back(*std::move(clock));
  }
  return clocks;
}

const GivenClock* FindGivenClock(const std::vector<GivenClock>& clocks, std::string_view host,
                                 std::string_view boot_id) {
  const GivenClock* by_host = nullptr;
  for (const GivenClock& clock : clocks) {
    if (!boot_id.empty() && clock.boot_id == boot_id) return &clock;
    if (!host.empty() && clock.host == host) by_host = &clock;
  }
  return by_host;
}

}  // namespace proftrace
