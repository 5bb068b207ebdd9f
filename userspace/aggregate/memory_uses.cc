#include "userspace/aggregate/memory_uses.h"

#include <algorithm>

namespace proftrace {

std::vector<std::optional<MemoryUse>> MemoryUsesIn(const Timeline& timeline,
                                                   const MemoryCurve& curve,
                                                   const std::vector<Stretch>& stretches) {
  std::vector<std::optional<MemoryUse>> uses;
  int64_t total = PreexistingBytes(timeline, curve);
  size_t next = 0;  // the stretch that is not over
  MemoryUse use;
  bool is_open = false;
  const auto open = [&] {
    use = MemoryUse();
    use.begin_ns = stretches[next].first;
    use.end_ns = stretches[next].second;
    use.begin_bytes = use.peak_bytes = use.end_bytes = total;
    is_open = true;
  };
  const auto close = [&] {
    if (!is_open) open();
    uses.emplace_back(use);
    is_open = false;
    ++next;
  };
  const bool is_whole =
      ForEachMemoryEvent(timeline, curve, [&](const MemoryEvent& event, int64_t after) {
        while (next < stretches.size() && stretches[next].second <= event.time_ns) close();
        if (next < stretches.size() && stretches[next].first <= event.time_ns) {
          if (!is_open) open();
          ++(event.bytes >= 0 ? use.allocations : use.frees);
          int64_t& bytes = event.bytes >= 0 ? use.allocated_bytes : use.freed_bytes;
          bytes = SaturatingSum(bytes, event.bytes >= 0 ? event.bytes : -event.bytes);
          use.peak_bytes = std::max(use.peak_bytes, after);
          use.end_bytes = after;
        }
        total = after;
      });
  while (is_whole && next < stretches.size()) close();
  uses.resize(stretches.size());
  return uses;
}

std::optional<MemoryCurve> MainCurveOf(const std::vector<MemoryCurve>& curves, Pid pid) {
  std::optional<MemoryCurve> main;
  for (const MemoryCurve& curve : curves) {
    if (curve.pid != pid) continue;
    if (!main || (main->device_type == 0 && curve.device_type != 0)) main = curve;
  }
  return main;
}

}  // namespace proftrace
