#include "userspace/aggregate/event_order.h"

namespace proftrace {
namespace {

using Kind = EventOrder::Other::Kind;

// Returns the first index below `count` for which `is_behind` is true, or `count`. It must be false
// for all indices before and true for all after.
template <typename IsBehind>
uint32_t FirstBehind(uint32_t count, IsBehind&& is_behind) {
  uint32_t low = 0;
  while (low < count) {
    const uint32_t middle = low + (count - low) / 2;
    if (is_behind(middle)) {
      count = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

}  // namespace

EventOrder::EventOrder(const Timeline& timeline, const StepRows& steps)
    : timeline_(timeline), steps_(steps) {
  for (size_t kind = 0; kind < kKinds; ++kind) counts_[kind] = CountOf(static_cast<Kind>(kind));
  FindFirst();
}

uint32_t EventOrder::CountOf(Kind kind) const {
  switch (kind) {
    case Kind::kMemory:
      return static_cast<uint32_t>(timeline_.memory_events().size());
    case Kind::kSystem:
      return timeline_.system_event_count();
    case Kind::kDeviceAnnotation:
      return static_cast<uint32_t>(steps_.DeviceAnnotations(timeline_).size());
    case Kind::kDeviceActivity:
      return static_cast<uint32_t>(timeline_.device_activities().size());
  }
  return 0;
}

int64_t EventOrder::StartOf(Kind kind, uint32_t index) const {
  switch (kind) {
    case Kind::kMemory:
      return timeline_.memory_events().at(index).time_ns;
    case Kind::kSystem:
      return timeline_.system_event(index).start_ns;
    case Kind::kDeviceAnnotation:
      return steps_.DeviceAnnotations(timeline_)[index].start_ns;
    case Kind::kDeviceActivity:
      return timeline_.device_activities().at(index).start_ns;
  }
  return 0;
}

uint64_t EventOrder::CountBefore(Kind kind, int64_t start_ns, bool with_equal) const {
  return FirstBehind(counts_[static_cast<size_t>(kind)], [&](uint32_t index) {
    const int64_t other_ns = StartOf(kind, index);
    return with_equal ? other_ns > start_ns : other_ns >= start_ns;
  });
}

uint64_t EventOrder::OthersBefore(int64_t start_ns) const {
  uint64_t count = 0;
  for (size_t kind = 0; kind < kKinds; ++kind) {
    count += CountBefore(static_cast<Kind>(kind), start_ns, /*with_equal=*/false);
  }
  return count;
}

uint64_t EventOrder::IdOfSpan(SpanId span) const {
  return steps_.NumberOf(span) + OthersBefore(timeline_.span(span).start_ns);
}

uint64_t EventOrder::IdOfStep(size_t row) const {
  return steps_.NumberOfRow(row) + OthersBefore(steps_.rows()[row].step.start_ns);
}

uint64_t EventOrder::IdOfSystemEvent(uint32_t index) const {
  const int64_t start_ns = timeline_.system_event(index).start_ns;
  const auto spans = FirstBehind(timeline_.span_count(), [&](uint32_t span) {
    return timeline_.span(SpanId{span}).start_ns > start_ns;
  });
  const auto steps = FirstBehind(static_cast<uint32_t>(steps_.rows().size()), [&](uint32_t row) {
    return steps_.rows()[row].step.start_ns > start_ns;
  });
  uint64_t id = uint64_t{index} + spans + steps;
  id += CountBefore(Kind::kMemory, start_ns, /*with_equal=*/true);
  id += CountBefore(Kind::kDeviceAnnotation, start_ns, /*with_equal=*/false);
  return id + CountBefore(Kind::kDeviceActivity, start_ns, /*with_equal=*/false);
}

EventOrder::Other EventOrder::TakeFirst() {
  const Other first = first_;
  ++next_[static_cast<size_t>(first.kind)];
  FindFirst();
  return first;
}

void EventOrder::FindFirst() {
  has_first_ = false;
  for (size_t i = 0; i < kKinds; ++i) {
    if (next_[i] == counts_[i]) continue;
    const int64_t start_ns = StartOf(static_cast<Kind>(i), next_[i]);
    if (has_first_ && start_ns >= first_ns_) continue;
    has_first_ = true;
    first_ = Other{static_cast<Kind>(i), next_[i]};
    first_ns_ = start_ns;
  }
}

}  // namespace proftrace
