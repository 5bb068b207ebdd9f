#include "userspace/merge/system_linker.h"

#include <absl/container/flat_hash_map.h>

#include <algorithm>
#include <cerrno>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

namespace proftrace {
namespace {

constexpr size_t kMemoryBytes = size_t{64} << 20;  // the rest is spilled

struct Order {
  int64_t start_ns;
  int64_t end_ns;
  uint32_t index;
  uint32_t rank;
};

// Orders events so that outer ones come first: the one that starts first, or else the one that ends
// last. Where the window cuts two alike, a call is around a fault, and both are around time off the
// CPU.
bool StartsBefore(const Order& a, const Order& b) {
  if (a.start_ns != b.start_ns) return a.start_ns < b.start_ns;
  if (a.end_ns != b.end_ns) return a.end_ns > b.end_ns;
  return a.rank != b.rank ? a.rank < b.rank : a.index < b.index;
}

uint32_t RankOf(SystemKind kind) {
  return kind == SystemKind::kOffCpu ? 2 : kind == SystemKind::kFault ? 1 : 0;
}

// Returns whether a wait for this reason in the call ended because its time limit was reached.
bool IsTimeout(const SystemEvent& call, WaitReason reason) {
  if (call.kind != SystemKind::kCall || call.end != SpanEnd::kReturn) return false;
  return call.call.result == -ETIMEDOUT || (reason == WaitReason::kPoll && call.call.result == 0);
}

// Stretches of one thread's time, in the order of their starts; where damage makes them overlap,
// each moment counts once.
class Stretches {
 public:
  void Add(int64_t start_ns, int64_t end_ns) {
    if (!stretches_.empty()) start_ns = std::max(start_ns, stretches_.back().end_ns);
    if (start_ns >= end_ns) return;
    const int64_t before_ns = BeforeNs(start_ns);
    stretches_.push_back({start_ns, end_ns, before_ns});
  }

  // Returns how much of the time from `start_ns` to `end_ns` lies in the stretches.
  int64_t In(int64_t start_ns, int64_t end_ns) const {
    return stretches_.empty() ? 0 : BeforeNs(end_ns) - BeforeNs(start_ns);
  }

 private:
  struct Stretch {
    int64_t start_ns;
    int64_t end_ns;
    int64_t before_ns;  // the sum of the stretches before it
  };

  int64_t BeforeNs(int64_t time_ns) const {
    const auto behind =
        std::upper_bound(stretches_.begin(), stretches_.end(), time_ns,
                         [](int64_t ns, const Stretch& stretch) { return ns < stretch.start_ns; });
    if (behind == stretches_.begin()) return 0;
    const Stretch& last = *(behind - 1);
    return last.before_ns + std::min(time_ns, last.end_ns) - last.start_ns;
  }

  std::vector<Stretch> stretches_;
};

struct ThreadPlaces {
  std::optional<ThreadIndex> index;
  std::vector<SpanId> spans;     // open now, the outermost first
  std::vector<uint32_t> events;  // open now, the outermost first
  const std::vector<SystemDecoder::Loss>* losses = nullptr;
  // All events so far: when calls and faults began, and when the thread had no CPU.
  std::vector<int64_t> calls;
  std::vector<int64_t> faults;
  Stretches off_cpu;
  Stretches run_queue;
};

class Linker {
 public:
  Linker(SystemDecoder::Tables tables, const SystemWindow& window, TimelineBuilder* timeline,
         Ledger* ledger)
      : tables_(std::move(tables)), window_(window), timeline_(*timeline), ledger_(*ledger) {}

  absl::Status Run() {
    if (!tables_.status.ok()) return tables_.status;
    if (tables_.events == nullptr) return absl::OkStatus();
    FindThreads();
    Sort();
    events_ = std::make_unique<SystemEventStore>(window_.spill_directory, kMemoryBytes);
    size_t next = 0;
    for (uint32_t i = 0; i < timeline_.span_count(); ++i) {
      const SpanId id{i};
      const Span& span = timeline_.span(id);
      const int64_t start_ns = span.start_ns;
      for (; next < order_.size() && order_[next].start_ns < start_ns; ++next) {
        if (absl::Status status = Place(order_[next].index); !status.ok()) return status;
      }
      if (absl::Status status = OpenSpan(id); !status.ok()) return status;
    }
    for (; next < order_.size(); ++next) {
      if (absl::Status status = Place(order_[next].index); !status.ok()) return status;
    }
    if (absl::Status status = SumUp(); !status.ok()) return status;
    timeline_.SetSystem({std::move(events_), std::move(tables_.files), std::move(tables_.paths)});
    return absl::OkStatus();
  }

 private:
  void FindThreads() {
    threads_.resize(tables_.threads.size());
    absl::flat_hash_map<uint64_t, uint32_t> by_id;
    const auto key = [](Pid pid, Tid tid) { return uint64_t{Raw(pid)} << 32 | Raw(tid); };
    for (uint32_t i = 0; i < tables_.threads.size(); ++i) {
      SystemDecoder::ThreadTable& thread = tables_.threads[i];
      by_id[key(thread.pid, thread.tid)] = i;
      std::sort(thread.losses.begin(), thread.losses.end(),
                [](const auto& a, const auto& b) { return a.before_ns < b.before_ns; });
      threads_[i].losses = &thread.losses;
    }
    by_index_.resize(timeline_.thread_count());
    for (uint32_t i = 0; i < timeline_.thread_count(); ++i) {
      const Thread& thread = timeline_.thread(ThreadIndex{i});
      const auto found = by_id.find(key(thread.pid, thread.tid));
      if (found == by_id.end()) continue;
      by_index_[i] = &threads_[found->second];
      if (!by_index_[i]->index.has_value()) by_index_[i]->index = ThreadIndex{i};
    }
  }

  // Cuts the event at the window. Returns false where it lies outside.
  bool Clip(SystemEvent* event) const {
    const int64_t end_ns = window_.end_ns.value_or(std::numeric_limits<int64_t>::max());
    const bool is_off_cpu = event->kind == SystemKind::kOffCpu;
    const int64_t runnable_ns = is_off_cpu ? event->runnable_ns() : event->end_ns();
    if (event->end_ns() < window_.start_ns || event->start_ns > end_ns) return false;
    if (event->start_ns < window_.start_ns) {
      event->duration_ns -= window_.start_ns - event->start_ns;
      event->start_ns = window_.start_ns;
      event->open_at_begin = true;
    }
    if (event->end_ns() > end_ns) {
      event->duration_ns = end_ns - event->start_ns;
      event->end = SpanEnd::kTruncated;
    }
    if (is_off_cpu) {
      event->off_cpu.run_queue_ns =
          std::clamp<int64_t>(event->end_ns() - runnable_ns, 0, event->duration_ns);
    }
    return true;
  }

  void Sort() {
    order_.reserve(tables_.events->size());
    for (uint32_t i = 0; i < tables_.events->size(); ++i) {
      SystemEvent& event = tables_.events->at(i);
      if (Clip(&event)) {
        order_.push_back({event.start_ns, event.end_ns(), i, RankOf(event.kind)});
      } else {
        ++ledger_.outside_window;
      }
    }
    std::sort(order_.begin(), order_.end(), StartsBefore);
  }

  static bool HasLoss(const ThreadPlaces& thread, int64_t start_ns, int64_t end_ns) {
    const auto first = std::upper_bound(
        thread.losses->begin(), thread.losses->end(), start_ns,
        [](int64_t time_ns, const SystemDecoder::Loss& loss) { return time_ns < loss.before_ns; });
    return first != thread.losses->end() && first->after_ns < end_ns;
  }

  absl::Status OpenSpan(SpanId id) {
    const Span& span = timeline_.span(id);
    ThreadPlaces* thread = by_index_[Raw(span.thread)];
    if (thread == nullptr) return absl::OkStatus();
    // A thread's number may be used again while rows of the earlier thread, which outlived it, are
    // still open.
    if (std::exchange(thread->index, span.thread) != span.thread) thread->spans.clear();
    CloseSpans(thread, span.start_ns);
    if (!span.is_apart) thread->spans.push_back(id);
    if (!HasLoss(*thread, span.start_ns, span.end_ns())) return absl::OkStatus();
    SpanSystem system = timeline_.columns().system.at(id);
    system.is_unknown = 1;
    return timeline_.columns().system.Set(id, system);
  }

  void CloseSpans(ThreadPlaces* thread, int64_t time_ns) {
    while (!thread->spans.empty() && timeline_.span(thread->spans.back()).end_ns() <= time_ns) {
      thread->spans.pop_back();
    }
  }

  absl::Status Place(uint32_t index) {
    SystemEvent event = tables_.events->at(index);
    const uint32_t table = Raw(event.thread);
    ThreadPlaces& thread = threads_[table];
    if (!thread.index.has_value()) {
      thread.index =
          timeline_.AddThread(tables_.threads[table].pid, tables_.threads[table].tid, "");
    }
    event.thread = *thread.index;
    if (event.kind == SystemKind::kRequest) return events_->Append(event);
    CloseSpans(&thread, event.start_ns);
    if (!thread.spans.empty()) event.span = thread.spans.back();
    while (!thread.events.empty() && events_->at(thread.events.back()).end_ns() <= event.start_ns) {
      thread.events.pop_back();
    }
    // A span that began within a call (a callback, say of a signal) is nearer than the call.
    if (!thread.events.empty() && events_->at(thread.events.back()).span == event.span) {
      event.around = thread.events.back();
      event.depth = static_cast<uint8_t>(std::min<size_t>(thread.events.size(), 255));
    }
    // A wait that ended by its time limit was ended by a clock, whichever thread the clock's
    // interrupt hit.
    if (event.kind == SystemKind::kOffCpu && event.around != kNoSystemEvent &&
        IsTimeout(events_->at(event.around), event.off_cpu.reason)) {
      event.off_cpu.waker_pid = Pid{0};
      event.off_cpu.waker_tid = Tid{0};
    }
    thread.events.push_back(events_->size());
    Count(event, &thread);
    return events_->Append(event);
  }

  static void Count(const SystemEvent& event, ThreadPlaces* thread) {
    if (event.kind == SystemKind::kCall) thread->calls.push_back(event.start_ns);
    if (event.kind == SystemKind::kFault) thread->faults.push_back(event.start_ns);
    if (event.kind != SystemKind::kOffCpu) return;
    thread->off_cpu.Add(event.start_ns, event.end_ns());
    thread->run_queue.Add(event.runnable_ns(), event.end_ns());
  }

  static uint32_t CountIn(const std::vector<int64_t>& times_ns, const Span& span) {
    const auto first = std::lower_bound(times_ns.begin(), times_ns.end(), span.start_ns);
    return static_cast<uint32_t>(std::lower_bound(first, times_ns.end(), span.end_ns()) - first);
  }

  static uint32_t Less(uint32_t whole, uint32_t part) { return whole - std::min(whole, part); }

  // Sums up for each span what the kernel did on its thread while it was open. The self sums are
  // these less the children's.
  absl::Status SumUp() {
    SpanColumn<SpanSystem>& column = timeline_.columns().system;
    for (uint32_t i = 0; i < timeline_.span_count(); ++i) {
      const SpanId id{i};
      const Span& span = timeline_.span(id);
      const ThreadPlaces* thread = by_index_[Raw(span.thread)];
      if (thread == nullptr) continue;
      SpanSystem system = column.at(id);
      system.calls = CountIn(thread->calls, span);
      system.faults = CountIn(thread->faults, span);
      system.off_cpu_ns = thread->off_cpu.In(span.start_ns, span.end_ns());
      system.run_queue_ns =
          std::min(thread->run_queue.In(span.start_ns, span.end_ns()), system.off_cpu_ns);
      if (system.off_cpu_ns == 0 && system.calls == 0 && system.faults == 0) continue;
      if (!span.is_apart) {
        system.self_calls = system.calls;
        system.self_faults = system.faults;
        system.self_off_cpu_ns = system.off_cpu_ns;
        system.self_run_queue_ns = system.run_queue_ns;
      }
      if (absl::Status status = column.Set(id, system); !status.ok()) return status;
      if (span.parent == kNoSpan) continue;
      SpanSystem around = column.at(span.parent);
      around.self_calls = Less(around.self_calls, system.calls);
      around.self_faults = Less(around.self_faults, system.faults);
      around.self_off_cpu_ns = std::max<int64_t>(0, around.self_off_cpu_ns - system.off_cpu_ns);
      around.self_run_queue_ns =
          std::max<int64_t>(0, around.self_run_queue_ns - system.run_queue_ns);
      if (absl::Status status = column.Set(span.parent, around); !status.ok()) return status;
    }
    return absl::OkStatus();
  }

  SystemDecoder::Tables tables_;
  const SystemWindow& window_;
  TimelineBuilder& timeline_;
  Ledger& ledger_;
  std::vector<ThreadPlaces> threads_;    // by number in tables_
  std::vector<ThreadPlaces*> by_index_;  // by ThreadIndex
  std::vector<Order> order_;
  std::unique_ptr<SystemEventStore> events_;
};

}  // namespace

absl::Status LinkSystem(SystemDecoder::Tables tables, const SystemWindow& window,
                        TimelineBuilder* timeline, Ledger* ledger) {
  return Linker(std::move(tables), window, timeline, ledger).Run();
}

}  // namespace proftrace
