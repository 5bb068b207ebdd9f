#include "userspace/merge/sample_linker.h"

#include <absl/container/flat_hash_map.h>

#include <algorithm>
#include <limits>
#include <utility>
#include <vector>

#include "userspace/merge/thread_key.h"

namespace proftrace {
namespace {

// The samples of one thread, and the spans that are open on it.
struct ThreadSamples {
  std::vector<DecodedSample*> samples;  // in order of time
  size_t next = 0;
  std::vector<SpanId> open;
  std::optional<ThreadIndex> index;
};

// Sets the spans of the samples before `time_ns`.
void PlaceBefore(int64_t time_ns, TimelineBuilder* timeline, ThreadSamples* thread) {
  for (; thread->next < thread->samples.size(); ++thread->next) {
    Sample& sample = thread->samples[thread->next]->sample;
    if (sample.time_ns >= time_ns) return;
    std::vector<SpanId>& open = thread->open;
    while (!open.empty() && timeline->span(open.back()).end_ns() <= sample.time_ns) {
      open.pop_back();
    }
    if (!open.empty()) sample.span = open.back();
    if (thread->index.has_value()) sample.thread = *thread->index;
  }
}

// Gives each wait the frame of its waker. The last wake-up in a wait ended it; earlier ones found
// the thread awake.
void LinkWakers(std::vector<DecodedWaker> wakers, TimelineBuilder* timeline) {
  SystemEventStore* events = timeline->system_events();
  if (wakers.empty() || events == nullptr) return;
  std::stable_sort(wakers.begin(), wakers.end(), [](const DecodedWaker& a, const DecodedWaker& b) {
    return a.time_ns < b.time_ns;
  });
  absl::flat_hash_map<uint32_t, std::vector<const DecodedWaker*>> by_woken;
  for (const DecodedWaker& waker : wakers) by_woken[Raw(waker.woken)].push_back(&waker);
  for (uint32_t i = 0; i < events->size(); ++i) {
    SystemEvent& event = events->at(i);
    if (event.kind != SystemKind::kOffCpu || Raw(event.off_cpu.waker_tid) == 0) continue;
    const auto found = by_woken.find(Raw(timeline->thread(event.thread).tid));
    if (found == by_woken.end()) continue;
    auto at = std::upper_bound(
        found->second.begin(), found->second.end(), event.end_ns(),
        [](int64_t time_ns, const DecodedWaker* waker) { return time_ns < waker->time_ns; });
    while (at != found->second.begin() && (*--at)->time_ns >= event.start_ns) {
      if ((*at)->waker != event.off_cpu.waker_tid) continue;
      event.off_cpu.waker_frame = (*at)->frame;
      break;
    }
  }
}

}  // namespace

void LinkSamples(SampleDecoder::Tables tables, int64_t window_start_ns,
                 std::optional<int64_t> window_end_ns, TimelineBuilder* timeline) {
  if (tables.samples.empty() && tables.wakers.empty()) return;
  LinkWakers(std::move(tables.wakers), timeline);
  std::stable_sort(tables.samples.begin(), tables.samples.end(),
                   [](const DecodedSample& a, const DecodedSample& b) {
                     return a.sample.time_ns < b.sample.time_ns;
                   });
  absl::flat_hash_map<uint64_t, ThreadSamples> threads;
  for (DecodedSample& decoded : tables.samples) {
    threads[ThreadKey(decoded.pid, decoded.tid)].samples.push_back(&decoded);
  }
  std::vector<ThreadSamples*> by_index(timeline->thread_count());
  for (uint32_t i = 0; i < timeline->thread_count(); ++i) {
    const Thread& thread = timeline->thread(ThreadIndex{i});
    const auto found = threads.find(ThreadKey(thread.pid, thread.tid));
    if (found == threads.end()) continue;
    by_index[i] = &found->second;
    if (!found->second.index.has_value()) found->second.index = ThreadIndex{i};
  }
  for (uint32_t i = 0; i < timeline->span_count(); ++i) {
    const Span& span = timeline->span(SpanId{i});
    ThreadSamples* thread = by_index[Raw(span.thread)];
    if (thread == nullptr) continue;
    PlaceBefore(span.start_ns, timeline, thread);
    while (!thread->open.empty() && timeline->span(thread->open.back()).end_ns() <= span.start_ns) {
      thread->open.pop_back();
    }
    // A thread's number may be used again while rows of the earlier thread, which outlived it, are
    // still open.
    if (std::exchange(thread->index, span.thread) != span.thread) thread->open.clear();
    if (!span.is_apart) thread->open.push_back(SpanId{i});
  }
  for (const DecodedSample& decoded : tables.samples) {
    ThreadSamples& thread = threads[ThreadKey(decoded.pid, decoded.tid)];
    if (!thread.index.has_value()) {
      thread.index = timeline->AddThread(decoded.pid, decoded.tid, "");
    }
    PlaceBefore(std::numeric_limits<int64_t>::max(), timeline, &thread);
  }
  Samples samples;
  samples.functions = std::move(tables.functions);
  samples.frames = std::move(tables.frames);
  for (DecodedSample& decoded : tables.samples) {
    Sample& sample = decoded.sample;
    const int64_t end_ns = window_end_ns.value_or(std::numeric_limits<int64_t>::max());
    if (sample.time_ns < window_start_ns || sample.time_ns > end_ns) continue;
    const int64_t most = (end_ns - sample.time_ns) / sample.period_ns + 1;
    sample.count = static_cast<uint32_t>(std::min<int64_t>(sample.count, most));
    samples.samples.push_back(sample);
  }
  timeline->SetSamples(std::move(samples));
}

}  // namespace proftrace
