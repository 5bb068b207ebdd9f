#include "userspace/merge/call_tree.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <queue>
#include <utility>
#include <vector>

#include "userspace/base/saturating.h"
#include "userspace/model/torch_rules.h"

namespace proftrace {
namespace {

// The rows that are open on one thread at a time, which advances.
struct OpenRows {
  std::vector<SpanId> around;  // rows that may enclose the next one; each lies in the one before it
  std::vector<SpanId> begun;   // in the order of their begins; some that have ended are among them
  // Open rows by their end; the first one to end is on top.
  std::priority_queue<std::pair<int64_t, uint32_t>, std::vector<std::pair<int64_t, uint32_t>>,
                      std::greater<>>
      ends;
  int64_t now_ns = 0;
};

class TreeBuilder {
 public:
  explicit TreeBuilder(TimelineBuilder* timeline) : timeline_(*timeline) {}

  absl::Status Run() {
    if (!FindThreads()) return absl::OkStatus();
    uint32_t memory = 0;
    for (uint32_t i = 0; i < timeline_.span_count() && status_.ok(); ++i) {
      const SpanId id{i};
      Span& span = timeline_.span(id);
      if (!is_mixed_[Raw(span.thread)]) continue;
      for (; memory < timeline_.memory_event_count() &&
             timeline_.memory_event(memory).time_ns < span.start_ns;
           ++memory) {
        Place(&timeline_.memory_event(memory));
      }
      if (span.is_apart) {
        SetApart(id, &span);
      } else {
        Add(id, &span);
      }
    }
    for (; memory < timeline_.memory_event_count(); ++memory) {
      Place(&timeline_.memory_event(memory));
    }
    for (OpenRows& open : open_) Advance(&open, std::numeric_limits<int64_t>::max());
    return status_;
  }

 private:
  // Finds the threads on which rows overlap or are apart. Returns whether there are any.
  bool FindThreads() {
    std::vector<bool> is_left_out;
    is_mixed_.resize(timeline_.thread_count());
    bool any = false;
    for (uint32_t i = 0; i < timeline_.span_count(); ++i) {
      Span& span = timeline_.span(SpanId{i});
      for (uint32_t label = static_cast<uint32_t>(is_left_out.size()); label <= Raw(span.label);
           ++label) {
        is_left_out.push_back(IsLeftOutOfEvents(timeline_.label(LabelId{label}).name));
      }
      span.is_apart = span.is_async || is_left_out[Raw(span.label)];
      if (!span.is_apart && !span.overlaps) continue;
      is_mixed_[Raw(span.thread)] = any = true;
    }
    if (any) open_.resize(timeline_.thread_count());
    return any;
  }

  // A row that ended at the very moment at which another row of no length began encloses that row
  // only if it was open when the row began.
  bool Contains(SpanId id, const Span& span, SpanId began_in) const {
    const Span& around = timeline_.span(id);
    return span.end_ns() <= around.end_ns() && (span.start_ns < around.end_ns() || id == began_in);
  }

  // Returns `at`, or the nearest row in which it began that is not apart.
  SpanId BeganIn(SpanId at) const {
    while (at != kNoSpan && timeline_.span(at).is_apart) {
      const uint32_t plus_1 = timeline_.columns().began_in_plus_1.at(at);
      at = plus_1 == 0 ? kNoSpan : SpanId{plus_1 - 1};
    }
    return at;
  }

  void SetApart(SpanId id, Span* span) {
    const SpanId began_in = BeganIn(span->parent);
    SetPlace(kNoSpan, span);
    span->self_ns = 0;
    if (began_in != kNoSpan) {
      status_.Update(timeline_.columns().began_in_plus_1.Set(id, Raw(began_in) + 1));
    }
    SetOwnMemory(id, [](int64_t) { return int64_t{0}; });
  }

  void Add(SpanId id, Span* span) {
    OpenRows& open = open_[Raw(span->thread)];
    const SpanId began_in = BeganIn(span->parent);
    while (!open.around.empty() && !Contains(open.around.back(), *span, began_in)) {
      open.around.pop_back();
    }
    const SpanId parent = open.around.empty() ? kNoSpan : open.around.back();
    SetPlace(parent, span);
    span->self_ns = span->duration_ns;
    SetOwnMemory(id, [](int64_t all) { return all; });
    if (parent != kNoSpan) {
      Span& around = timeline_.span(parent);
      around.self_ns = SaturatingDifference(around.self_ns, span->duration_ns);
      if (around.child_count < std::numeric_limits<uint16_t>::max()) ++around.child_count;
      TakeMemory(id, parent);
    }
    open.around.push_back(id);
    Advance(&open, span->start_ns);
    open.begun.push_back(id);
    open.ends.push({span->end_ns(), Raw(id)});
  }

  void SetPlace(SpanId parent, Span* span) {
    const Span* around = parent == kNoSpan ? nullptr : &timeline_.span(parent);
    span->parent = parent;
    span->child_count = 0;
    span->depth = around == nullptr
                      ? uint16_t{0}
                      : static_cast<uint16_t>(std::min<uint32_t>(
                            around->depth + 1u, std::numeric_limits<uint16_t>::max()));
    span->path = timeline_.InternPath(around == nullptr ? kRootPath : around->path, span->label);
  }

  // Sets the self bytes of a row. `own` returns the self bytes among all bytes of the row.
  template <typename Own>
  void SetOwnMemory(SpanId id, Own own) {
    SpanMemory memory = timeline_.columns().memory.at(id);
    if (memory == SpanMemory()) return;
    memory.self_cpu_bytes = own(memory.cpu_bytes);
    memory.self_device_bytes = own(memory.device_bytes);
    status_.Update(timeline_.columns().memory.Set(id, memory));
  }

  void TakeMemory(SpanId child, SpanId parent) {
    const SpanMemory part = timeline_.columns().memory.at(child);
    if (part.cpu_bytes == 0 && part.device_bytes == 0) return;
    SpanMemory around = timeline_.columns().memory.at(parent);
    around.self_cpu_bytes = SaturatingDifference(around.self_cpu_bytes, part.cpu_bytes);
    around.self_device_bytes = SaturatingDifference(around.self_device_bytes, part.device_bytes);
    status_.Update(timeline_.columns().memory.Set(parent, around));
  }

  void Advance(OpenRows* open, int64_t to_ns) {
    while (!open->ends.empty() && open->ends.top().first <= to_ns) {
      const auto [end_ns, index] = open->ends.top();
      Charge(open, end_ns);
      open->ends.pop();
      // All rows in it are over too, so its self time is known.
      AddShared(SpanId{index}, timeline_.span(SpanId{index}).self_ns);
    }
    Charge(open, to_ns);
  }

  // Charges each moment to the open row that began last. Other rows that also count the moment
  // share it.
  void Charge(OpenRows* open, int64_t to_ns) {
    const int64_t from_ns = std::exchange(open->now_ns, std::max(open->now_ns, to_ns));
    std::vector<SpanId>& begun = open->begun;
    while (!begun.empty() && timeline_.span(begun.back()).end_ns() <= from_ns) begun.pop_back();
    if (!begun.empty() && to_ns > from_ns) AddShared(begun.back(), from_ns - to_ns);
  }

  void AddShared(SpanId id, int64_t ns) {
    if (ns == 0) return;
    SpanColumn<int64_t>& column = timeline_.columns().shared_ns;
    status_.Update(column.Set(id, SaturatingSum(column.at(id), ns)));
  }

  // Gives a memory event its parent, the open row that began last.
  void Place(MemoryEvent* event) {
    if (!is_mixed_[Raw(event->thread)]) return;
    const SpanId began_in = BeganIn(event->parent);
    OpenRows& open = open_[Raw(event->thread)];
    Advance(&open, event->time_ns);
    std::vector<SpanId>& begun = open.begun;
    while (!begun.empty() && timeline_.span(begun.back()).end_ns() < event->time_ns) {
      begun.pop_back();
    }
    // Where an event has the same time as a begin or an end, the order of the records decides.
    const auto is_around = [&](SpanId id) {
      const Span& span = timeline_.span(id);
      return id == began_in || (span.start_ns < event->time_ns && event->time_ns < span.end_ns());
    };
    const auto around = std::find_if(begun.rbegin(), begun.rend(), is_around);
    event->parent = around == begun.rend() ? kNoSpan : *around;
  }

  TimelineBuilder& timeline_;
  std::vector<bool> is_mixed_;  // by ThreadIndex
  std::vector<OpenRows> open_;  // by ThreadIndex
  absl::Status status_;
};

}  // namespace

absl::Status BuildCallTree(TimelineBuilder* timeline) { return TreeBuilder(timeline).Run(); }

}  // namespace proftrace
