#include "userspace/aggregate/memory_curves.h"

#include <algorithm>
#include <map>
#include <optional>
#include <tuple>

#include "userspace/base/exit_status.h"

namespace proftrace {
namespace {

MemoryCurve CurveOf(const Timeline& timeline, const MemoryEvent& event) {
  const Pid pid = timeline.thread(event.thread).pid;
  if (event.is_cpu()) return {pid, 0, -1};
  return {pid, event.device_type, event.device_index};
}

std::string AllText(const std::vector<MemoryCurve>& curves) {
  std::string text;
  for (const MemoryCurve& curve : curves) {
    text += (text.empty() ? "" : ", ") + curve.DeviceText() + " of PID " +
            std::to_string(Raw(curve.pid));
  }
  return text.empty() ? "it has none" : "it has those of " + text;
}

}  // namespace

std::string MemoryCurve::DeviceText() const {
  if (device_type == 0) return "cpu";
  std::string text(DeviceTypeName(device_type));
  std::transform(text.begin(), text.end(), text.begin(),
                 [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  return text + ":" + std::to_string(device_index);
}

bool MemoryCurve::Has(const Timeline& timeline, const MemoryEvent& event) const {
  return CurveOf(timeline, event) == *this;
}

std::vector<MemoryCurve> MemoryCurves(const Timeline& timeline) {
  std::map<uint32_t, size_t> places;
  for (const Target& target : timeline.info().targets) {
    places.try_emplace(Raw(target.pid), places.size());
  }
  const auto key = [&places](const MemoryCurve& curve) {
    const auto place = places.find(Raw(curve.pid));
    return std::make_tuple(place == places.end() ? places.size() : place->second, Raw(curve.pid),
                           curve.device_type, curve.device_index);
  };
  std::vector<MemoryCurve> curves;
  std::optional<MemoryCurve> last;
  const MemoryEventStore& events = timeline.memory_events();
  for (uint32_t i = 0; i < events.size(); ++i) {
    const MemoryEvent& event = events.at(i);
    if (event.kind != MemoryEventKind::kUsage || (!event.is_cpu() && !event.is_device())) continue;
    const MemoryCurve curve = CurveOf(timeline, event);
    if (curve == last) continue;
    last = curve;
    if (std::find(curves.begin(), curves.end(), curve) == curves.end()) curves.push_back(curve);
  }
  std::sort(curves.begin(), curves.end(),
            [&key](const MemoryCurve& a, const MemoryCurve& b) { return key(a) < key(b); });
  return curves;
}

absl::StatusOr<MemoryCurve> ChooseMemoryCurve(const Timeline& timeline, const std::string& device) {
  const std::vector<MemoryCurve> curves = MemoryCurves(timeline);
  std::string wanted = device;
  if (wanted.empty()) {
    std::optional<MemoryCurve> first;
    for (const MemoryCurve& curve : curves) {
      if (curve.device_type == 0) continue;
      if (!first.has_value() || curve.device_index < first->device_index) first = curve;
    }
    if (first.has_value()) return *first;
    if (curves.empty()) return MemoryCurve();
    wanted = "cpu";
  }
  const auto found = std::find_if(curves.begin(), curves.end(), [&](const MemoryCurve& curve) {
    return curve.DeviceText() == wanted;
  });
  if (found != curves.end()) return *found;
  return Fail(ExitCode::kUsage,
              "no memory of the device '" + wanted + "' is in this recording; " + AllText(curves));
}

int64_t PreexistingBytes(const Timeline& timeline, const MemoryCurve& curve) {
  if (curve.device_type == 0) return 0;
  const MemoryEventStore& events = timeline.memory_events();
  for (uint32_t i = 0; i < events.size(); ++i) {
    const MemoryEvent& event = events.at(i);
    if (event.kind != MemoryEventKind::kUsage || !curve.Has(timeline, event)) continue;
    return SaturatingDifference(event.total_allocated, event.bytes);
  }
  return 0;
}

}  // namespace proftrace
