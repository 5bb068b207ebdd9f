#include "userspace/aggregate/data_waits.h"

#include <absl/container/flat_hash_set.h>

#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>

#include "userspace/aggregate/each_span.h"
#include "userspace/aggregate/io_roles.h"
#include "userspace/aggregate/thread_events.h"
#include "userspace/base/saturating.h"

namespace proftrace {
namespace {

// The most threads that a wake-up is followed through. The longest chain in torch is the queue's
// feeder, the worker, and the thread that pins memory.
constexpr int kMostHops = 6;
// The most events that are looked through before a time, for calls that began before it.
constexpr size_t kMostCallsBefore = 4096;

int64_t OverlapNs(const SystemEvent& event, int64_t from_ns, int64_t until_ns) {
  return std::max<int64_t>(0,
                           std::min(event.end_ns(), until_ns) - std::max(event.start_ns, from_ns));
}

// Returns the part of a kOffCpu in this time in which the thread could run.
int64_t RunQueueNs(const SystemEvent& event, int64_t from_ns, int64_t until_ns) {
  return OverlapNs(event, std::max(event.runnable_ns(), from_ns), until_ns);
}

class Finder {
 public:
  Finder(const Timeline& timeline, const Steps& steps)
      : timeline_(timeline), steps_(steps), events_(timeline), threads_(timeline) {}

  std::vector<DataWait> Run(const DataLoaderRows& rows) {
    std::vector<DataWait> waits;
    ForEachSpan(timeline_, [&](SpanId id, const Span& span) {
      if (rows.Has(span)) waits.push_back(Look(id, span));
    });
    ForgetBystanders(&waits);
    FindNested(&waits);
    return waits;
  }

 private:
  // Where workers were recorded, another process that woke the thread is none of them: an interrupt
  // came while it ran.
  void ForgetBystanders(std::vector<DataWait>* waits) const {
    const auto is_recorded = [&](const DataWait& wait) {
      return threads_.Find(wait.worker, Tid{Raw(wait.worker)}).has_value();
    };
    if (std::none_of(waits->begin(), waits->end(), is_recorded)) return;
    for (DataWait& wait : *waits) {
      if (is_recorded(wait)) continue;
      wait.worker = Pid{};
      wait.waker = Tid{};
    }
  }

  void FindNested(std::vector<DataWait>* waits) const {
    absl::flat_hash_set<uint32_t> workers;
    for (const DataWait& wait : *waits) workers.insert(Raw(wait.worker));
    for (DataWait& wait : *waits) {
      const Pid asked = timeline_.thread(timeline_.span(wait.span).thread).pid;
      wait.is_nested = workers.contains(Raw(asked));
    }
  }

  DataWait Look(SpanId id, const Span& span) {
    DataWait wait;
    wait.span = id;
    if (const Step* step = steps_.At(span.thread, span.start_ns); step != nullptr) {
      wait.step = step->number;
    }
    const SystemEvent* last = nullptr;
    ForEachIn(span.thread, span.start_ns, span.end_ns(), [&](uint32_t, const SystemEvent& event) {
      if (event.kind != SystemKind::kOffCpu || event.off_cpu.reason == WaitReason::kPreempted) {
        return;
      }
      wait.blocked_ns += std::max<int64_t>(
          0, OverlapNs(event, span.start_ns, span.end_ns()) - event.off_cpu.run_queue_ns);
      if (Raw(event.off_cpu.waker_pid) != 0) last = &event;
    });
    if (last == nullptr) return wait;
    int64_t woken_ns = last->woken_ns();
    const Pid own = timeline_.thread(span.thread).pid;
    for (int hop = 0; hop < kMostHops && last->off_cpu.waker_pid == own; ++hop) {
      last = LastWakeBefore(last->off_cpu.waker_pid, last->off_cpu.waker_tid, woken_ns);
      if (last == nullptr) return wait;
      woken_ns = last->woken_ns();
    }
    if (last->off_cpu.waker_pid == own) return wait;
    wait.worker = last->off_cpu.waker_pid;
    wait.waker = last->off_cpu.waker_tid;
    LookAtWorker(span.start_ns, woken_ns, &wait);
    return wait;
  }

  void LookAtWorker(int64_t from_ns, int64_t until_ns, DataWait* wait) {
    // A worker loads on its first thread (torch/utils/data/_utils/worker.py). Its other threads
    // send batches, or wait for requests.
    const auto thread = threads_.Find(wait->worker, Tid{Raw(wait->worker)});
    if (!thread) return;
    wait->worker_ns = std::max<int64_t>(0, until_ns - from_ns);
    std::vector<WorkerCalls> calls, blocked;
    ForEachIn(*thread, from_ns, until_ns, [&](uint32_t index, const SystemEvent& event) {
      const int64_t ns = OverlapNs(event, from_ns, until_ns);
      const bool is_in_io =
          event.around != kNoSystemEvent && IsIo(timeline_.system_event(event.around));
      if (event.kind == SystemKind::kOffCpu && !is_in_io) {
        const int64_t run_queue_ns = RunQueueNs(event, from_ns, until_ns);
        wait->worker_off_ns += ns;
        wait->worker_run_queue_ns += run_queue_ns;
        if (event.around != kNoSystemEvent) blocked.push_back({event.around, ns - run_queue_ns});
      }
      if (!IsIo(event)) return;
      wait->worker_io_ns += ns;
      if (const IoFacts io = IoOf(timeline_.system_tables(), event);
          io.role == IoRole::kRead && event.end_ns() <= until_ns) {
        wait->worker_bytes = SaturatingSum(wait->worker_bytes, io.bytes);
      }
      calls.push_back({index, ns});
      if (ns <= wait->longest_call_ns) return;
      wait->longest_call_ns = ns;
      wait->longest_call = index;
    });
    wait->worker_calls = SumCalls(std::move(calls));
    wait->worker_blocked_calls = SumCalls(std::move(blocked));
  }

  // What makes calls alike.
  auto KindOf(const WorkerCalls& calls) const {
    const SystemEvent& event = timeline_.system_event(calls.call);
    const uint16_t number =
        event.kind == SystemKind::kCall ? event.call.number : event.request.opcode;
    return std::tuple(event.kind, number, Raw(event.file));
  }

  // Makes one entry of all calls of one kind on one file.
  std::vector<WorkerCalls> SumCalls(std::vector<WorkerCalls> calls) const {
    std::sort(calls.begin(), calls.end(), [this](const WorkerCalls& a, const WorkerCalls& b) {
      return std::tuple(KindOf(a), b.ns, a.call) < std::tuple(KindOf(b), a.ns, b.call);
    });
    std::vector<WorkerCalls> sums;
    for (const WorkerCalls& call : calls) {
      if (sums.empty() || KindOf(sums.back()) != KindOf(call)) {
        sums.push_back(call);
      } else {
        sums.back().ns += call.ns;
      }
    }
    std::sort(sums.begin(), sums.end(), [](const WorkerCalls& a, const WorkerCalls& b) {
      return std::tuple(b.ns, a.call) < std::tuple(a.ns, b.call);
    });
    return sums;
  }

  // Visits the events of the thread that overlap the time.
  template <typename Visit>
  void ForEachIn(ThreadIndex thread, int64_t from_ns, int64_t until_ns, Visit visit) const {
    const std::vector<uint32_t>& events = events_.of(thread);
    auto at = std::lower_bound(events.begin(), events.end(), from_ns,
                               [this](uint32_t index, int64_t time_ns) {
                                 return timeline_.system_event(index).start_ns < time_ns;
                               });
    // Goes back to events that began before this time and are still open. These are near, because
    // open events are nested.
    for (size_t back = 0; at != events.begin() && back < kMostCallsBefore; ++back) {
      --at;
      const SystemEvent& event = timeline_.system_event(*at);
      if (event.depth == 0 && event.end_ns() <= from_ns) break;
    }
    for (; at != events.end(); ++at) {
      const SystemEvent& event = timeline_.system_event(*at);
      if (event.start_ns >= until_ns) return;
      if (event.end_ns() > from_ns) visit(*at, event);
    }
  }

  const SystemEvent* LastWakeBefore(Pid pid, Tid tid, int64_t time_ns) const {
    const auto thread = threads_.Find(pid, tid);
    if (!thread) return nullptr;
    const std::vector<uint32_t>& events = events_.of(*thread);
    auto at = std::lower_bound(events.begin(), events.end(), time_ns,
                               [this](uint32_t index, int64_t until_ns) {
                                 return timeline_.system_event(index).start_ns < until_ns;
                               });
    while (at != events.begin()) {
      const SystemEvent& event = timeline_.system_event(*--at);
      if (event.kind == SystemKind::kOffCpu && Raw(event.off_cpu.waker_pid) != 0 &&
          event.end_ns() <= time_ns) {
        return &event;
      }
    }
    return nullptr;
  }

  const Timeline& timeline_;
  const Steps& steps_;
  ThreadEvents events_;
  ThreadsByNumber threads_;
};

}  // namespace

std::vector<DataWait> FindDataWaits(const Timeline& timeline, const Steps& steps) {
  if (!timeline.has_sched()) return {};
  const DataLoaderRows rows(timeline);
  if (rows.empty()) return {};
  return Finder(timeline, steps).Run(rows);
}

}  // namespace proftrace
