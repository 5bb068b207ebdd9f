// The order of the rows of events.csv, which is also that of their ids: by their start, over all
// threads and devices. Where rows start at the same time, spans and rows of steps come first, then
// memory events, system events, and rows of devices.
#pragma once

#include <cstdint>
#include <optional>

#include "userspace/aggregate/steps.h"
#include "userspace/model/timeline.h"

namespace proftrace {

class EventOrder {
 public:
  // A row that is neither a span nor a step.
  struct Other {
    enum class Kind : uint8_t { kMemory, kSystem, kDeviceAnnotation, kDeviceActivity };
    Kind kind{};
    uint32_t index = 0;  // into the timeline's events of this kind
  };

  // Both must outlive this.
  EventOrder(const Timeline& timeline, const StepRows& steps);

  uint64_t IdOfSpan(SpanId span) const;
  uint64_t IdOfStep(size_t row) const;  // an index into StepRows::rows()
  uint64_t IdOfSystemEvent(uint32_t index) const;

  // Returns the next row that is neither a span nor a step; each such row is returned once.
  // nullopt: there are no more, or the next one does not start before `until_ns`.
  std::optional<Other> Take(std::optional<int64_t> until_ns) {
    if (!has_first_ || (until_ns.has_value() && first_ns_ >= *until_ns)) return std::nullopt;
    return TakeFirst();
  }

 private:
  static constexpr size_t kKinds = 4;

  Other TakeFirst();
  void FindFirst();
  uint32_t CountOf(Other::Kind kind) const;
  int64_t StartOf(Other::Kind kind, uint32_t index) const;
  // Returns how many rows of a kind start before `start_ns`, or at it with `with_equal`.
  uint64_t CountBefore(Other::Kind kind, int64_t start_ns, bool with_equal) const;
  uint64_t OthersBefore(int64_t start_ns) const;

  const Timeline& timeline_;
  const StepRows& steps_;
  uint32_t counts_[kKinds] = {};
  uint32_t next_[kKinds] = {};
  // The first row that was not taken yet, if there is one.
  bool has_first_ = false;
  Other first_;
  int64_t first_ns_ = 0;
};

}  // namespace proftrace
