// Memory over time: one curve for each process and device, as each process of torch's has its own.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "userspace/base/saturating.h"
#include "userspace/model/timeline.h"

namespace proftrace {

struct MemoryCurve {
  Pid pid{};
  uint8_t device_type = 0;  // c10::DeviceType; 0 stands for all that is CPU memory
  int8_t device_index = -1;

  bool operator==(const MemoryCurve&) const = default;
  // "cpu", "cuda:0": as torch.device is written.
  std::string DeviceText() const;
  bool Has(const Timeline& timeline, const MemoryEvent& event) const;
};

// Returns all curves that have an event: by process, in the order of the recording's targets, the
// CPU's first.
std::vector<MemoryCurve> MemoryCurves(const Timeline& timeline);

// Returns the curve of `device` of the first process that has one. Empty: of torch's own choice in
// export_memory_timeline(), the first GPU, else the CPU. Fails with ExitCode::kUsage where there is
// none of that device, and says which there are.
absl::StatusOr<MemoryCurve> ChooseMemoryCurve(const Timeline& timeline, const std::string& device);

// Visits the curve's events in order of time: visit(event, total), with what is allocated after it.
// A device's totals are torch's own, and begin with what was there before; the CPU's begin at 0,
// and end where a loss makes them unknown. False where they ended so.
template <typename Visitor>
bool ForEachMemoryEvent(const Timeline& timeline, const MemoryCurve& curve, Visitor&& visit) {
  const MemoryEventStore& events = timeline.memory_events();
  int64_t total = 0;
  for (uint32_t i = 0; i < events.size(); ++i) {
    const MemoryEvent& event = events.at(i);
    if (event.kind != MemoryEventKind::kUsage || !curve.Has(timeline, event)) continue;
    if (!event.total_known) return false;
    total = curve.device_type == 0 ? SaturatingSum(total, event.bytes) : event.total_allocated;
    visit(event, total);
  }
  return true;
}

// Returns what a device had allocated before the first event; 0 for the CPU.
int64_t PreexistingBytes(const Timeline& timeline, const MemoryCurve& curve);

}  // namespace proftrace
