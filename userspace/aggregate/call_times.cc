#include "userspace/aggregate/call_times.h"

#include <absl/container/flat_hash_map.h>

#include <algorithm>

#include "userspace/aggregate/io_roles.h"
#include "userspace/aggregate/system_text.h"
#include "userspace/aggregate/thread_events.h"
#include "userspace/base/saturating.h"

namespace proftrace {
namespace {

struct Row {
  CallTimes times;
  std::vector<int64_t> durations_ns;
};

// Returns a key that is the same for events with the same name.
uint64_t KeyOf(const SystemEvent& event) {
  if (event.kind == SystemKind::kRequest) return uint64_t{1} << 32 | event.request.opcode;
  return uint64_t{static_cast<uint8_t>(event.call.abi)} << 16 | event.call.number;
}

int64_t Percentile99(std::vector<int64_t>* values) {
  const size_t rank = (values->size() * 99 + 99) / 100 - 1;
  std::nth_element(values->begin(), values->begin() + static_cast<ptrdiff_t>(rank), values->end());
  return (*values)[rank];
}

}  // namespace

std::vector<CallTimes> SumCallTimes(const Timeline& timeline) {
  std::vector<Row> rows;
  absl::flat_hash_map<uint64_t, size_t> by_key;
  absl::flat_hash_map<std::string, size_t> by_name;  // a name has a number in each ABI
  const auto row_of = [&](const SystemEvent& event) -> Row& {
    const auto [it, inserted] = by_key.try_emplace(KeyOf(event), 0);
    if (inserted) {
      const std::string name = SystemEventName(event);
      it->second = by_name.try_emplace(name, rows.size()).first->second;
      if (it->second == rows.size()) rows.emplace_back().times.name = name;
    }
    return rows[it->second];
  };
  for (uint32_t i = 0; i < timeline.system_event_count(); ++i) {
    const SystemEvent& event = timeline.system_event(i);
    if (event.kind == SystemKind::kOffCpu) {
      if (const SystemEvent* call = CallAround(timeline, event); call != nullptr) {
        row_of(*call).times.off_cpu_ns += event.duration_ns;
      }
    }
    if (event.kind != SystemKind::kCall && event.kind != SystemKind::kRequest) continue;
    Row& row = row_of(event);
    CallTimes& times = row.times;
    ++times.calls;
    times.errors += HasFailed(event) ? 1 : 0;
    times.unfinished += event.end == SpanEnd::kTruncated ? 1 : 0;
    times.total_ns += event.duration_ns;
    times.max_ns = std::max(times.max_ns, event.duration_ns);
    times.bytes = SaturatingSum(times.bytes, IoOf(timeline.system_tables(), event).bytes);
    row.durations_ns.push_back(event.duration_ns);
  }
  std::vector<CallTimes> result;
  for (Row& row : rows) {
    if (!row.durations_ns.empty()) row.times.p99_ns = Percentile99(&row.durations_ns);
    result.push_back(std::move(row.times));
  }
  std::sort(result.begin(), result.end(), [](const CallTimes& a, const CallTimes& b) {
    return a.total_ns != b.total_ns ? a.total_ns > b.total_ns : a.name < b.name;
  });
  return result;
}

}  // namespace proftrace
