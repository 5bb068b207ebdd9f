// Memory over time, as one curve for each process and device, because in torch each process has
// totals of its own.
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
  uint8_t device_type = 0;  // c10::DeviceType; 0 stands for all CPU memory
  int8_t device_index = -1;

  bool operator==(const MemoryCurve&) const = default;
  // Returns the device as torch.device is written: "cpu", "cuda:0".
  std::string DeviceText() const;
  bool Has(const Timeline& timeline, const MemoryEvent& event) const;
};

// Returns all curves that have an event: by process, in the order of the recording's targets, the
// CPU's first.
std::vector<MemoryCurve> MemoryCurves(const Timeline& timeline);

// Returns the curve of `device` of the first process that has one. Where `device` is empty, torch's
// choice in export_memory_timeline() is taken: the first GPU, or else the CPU. Fails with
// ExitCode::kUsage where no process has a curve of the device, and says which devices there are.
absl::StatusOr<MemoryCurve> ChooseMemoryCurve(const Timeline& timeline, const std::string& device);

// Visits the curve's events in order of time: visit(event, total), where `total` is the bytes
// allocated after the event. A device's totals are torch's own and include earlier allocations; the
// CPU's total begins at 0. Returns false where the totals became unknown because of a loss, at
// which the visit ends.
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
