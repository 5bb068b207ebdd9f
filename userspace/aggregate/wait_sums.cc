#include "userspace/aggregate/wait_sums.h"

#include <absl/container/flat_hash_map.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>
#include <tuple>
#include <utility>

#include "userspace/aggregate/each_span.h"
#include "userspace/aggregate/frame_tree.h"
#include "userspace/aggregate/thread_events.h"

namespace proftrace {
namespace {

struct Wait {
  uint32_t event = 0;
  int64_t woken_ns = 0;
  bool waker_is_known = false;
  ThreadIndex waker_thread{};
  SpanId waker_span = kNoSpan;
  uint32_t waker_call = kNoSystemEvent;
};

class WaitSummer {
 public:
  WaitSummer(const Timeline& timeline, const StepWindows* windows)
      : timeline_(timeline), frames_(timeline), threads_(timeline), shares_(windows) {}

  std::vector<WaitSum> Run(absl::FunctionRef<bool(const SystemEvent&)> is_counted,
                           std::vector<WindowShare>* shares) {
    FindWaits(is_counted);
    FindWakersSpans();
    FindWakersCalls();
    for (const Wait& wait : waits_) Add(wait);
    std::vector<uint32_t> order(sums_.size());
    std::iota(order.begin(), order.end(), 0);
    std::sort(order.begin(), order.end(), [&](uint32_t left, uint32_t right) {
      const WaitSum& a = sums_[left];
      const WaitSum& b = sums_[right];
      if (a.blocked_ns != b.blocked_ns) return a.blocked_ns > b.blocked_ns;
      return a.count != b.count ? a.count > b.count : left < right;
    });
    std::vector<WaitSum> sorted;
    std::vector<std::optional<uint32_t>> numbers(sums_.size());
    for (const uint32_t row : order) {
      numbers[row] = static_cast<uint32_t>(sorted.size());
      sorted.push_back(sums_[row]);
    }
    if (shares != nullptr) *shares = shares_.Take(numbers);
    return sorted;
  }

 private:
  // The thread, the reason, its path, stack and call; the waker's process, thread, path, stack,
  // call and frame.
  using Key = std::tuple<uint32_t, WaitReason, uint32_t, uint32_t, int32_t, uint32_t, uint32_t,
                         uint32_t, uint32_t, int32_t, uint32_t>;

  void FindWaits(absl::FunctionRef<bool(const SystemEvent&)> is_counted) {
    for (uint32_t i = 0; i < timeline_.system_event_count(); ++i) {
      const SystemEvent& event = timeline_.system_event(i);
      if (event.kind != SystemKind::kOffCpu) continue;
      const OffCpuFacts& facts = event.off_cpu;
      if (facts.reason == WaitReason::kPreempted || facts.reason == WaitReason::kNew) continue;
      Wait wait;
      wait.event = i;
      if (event.runnable_ns() <= event.start_ns || !is_counted(event)) continue;
      wait.woken_ns = event.woken_ns();
      const auto waker = threads_.Find(facts.waker_pid, facts.waker_tid);
      if (Raw(facts.waker_tid) != 0 && waker) {
        wait.waker_is_known = true;
        wait.waker_thread = *waker;
      }
      waits_.push_back(wait);
    }
    std::sort(waits_.begin(), waits_.end(),
              [](const Wait& a, const Wait& b) { return a.woken_ns < b.woken_ns; });
  }

  // Finds the innermost span of each waker that was open at the wake-up.
  void FindWakersSpans() {
    std::vector<std::vector<std::pair<SpanId, int64_t>>> open(timeline_.threads().size());
    size_t next = 0;
    const auto find_before = [&](int64_t until_ns) {
      for (; next < waits_.size() && waits_[next].woken_ns < until_ns; ++next) {
        Wait& wait = waits_[next];
        if (!wait.waker_is_known) continue;
        auto& spans = open[Raw(wait.waker_thread)];
        while (!spans.empty() && spans.back().second <= wait.woken_ns) spans.pop_back();
        if (!spans.empty()) wait.waker_span = spans.back().first;
      }
    };
    ForEachSpan(timeline_, [&](SpanId id, const Span& span) {
      find_before(span.start_ns);
      if (span.is_apart) return;
      auto& spans = open[Raw(span.thread)];
      while (!spans.empty() && spans.back().second <= span.start_ns) spans.pop_back();
      spans.emplace_back(id, span.end_ns());
    });
    find_before(std::numeric_limits<int64_t>::max());
  }

  // Finds the system call of each waker, if it was in one that lies in that span.
  void FindWakersCalls() {
    std::vector<uint32_t> last(timeline_.threads().size(), kNoSystemEvent);
    size_t next = 0;
    const auto find_before = [&](int64_t until_ns) {
      for (; next < waits_.size() && waits_[next].woken_ns < until_ns; ++next) {
        Wait& wait = waits_[next];
        if (!wait.waker_is_known) continue;
        const uint32_t call = last[Raw(wait.waker_thread)];
        if (call == kNoSystemEvent) continue;
        const SystemEvent& event = timeline_.system_event(call);
        if (event.end_ns() > wait.woken_ns && event.span == wait.waker_span) wait.waker_call = call;
      }
    };
    for (uint32_t i = 0; i < timeline_.system_event_count(); ++i) {
      const SystemEvent& event = timeline_.system_event(i);
      if (event.kind != SystemKind::kCall) continue;
      find_before(event.start_ns);
      last[Raw(event.thread)] = i;
    }
    find_before(std::numeric_limits<int64_t>::max());
  }

  WaitPlace PlaceOf(SpanId span) const {
    WaitPlace place;
    if (span == kNoSpan) return place;
    place.path = timeline_.span(span).path;
    place.stack = frames_.Shown(span);
    return place;
  }

  void Add(const Wait& wait) {
    const SystemEvent& event = timeline_.system_event(wait.event);
    const OffCpuFacts& facts = event.off_cpu;
    WaitPlace place = PlaceOf(event.span);
    place.call = facts.call;
    place.abi = facts.abi;
    WaitPlace waker = PlaceOf(wait.waker_span);
    if (wait.waker_call != kNoSystemEvent) {
      const SystemCallFacts& call = timeline_.system_event(wait.waker_call).call;
      waker.call = call.number;
      waker.abi = call.abi;
    }
    const Key key{Raw(event.thread), facts.reason,         Raw(place.path),      Raw(place.stack),
                  place.call,        Raw(facts.waker_pid), Raw(facts.waker_tid), Raw(waker.path),
                  Raw(waker.stack),  waker.call,           facts.waker_frame};
    const auto [it, inserted] = by_key_.try_emplace(key, sums_.size());
    if (inserted) {
      WaitSum sum;
      sum.thread = event.thread;
      sum.reason = facts.reason;
      sum.place = place;
      sum.waker_pid = facts.waker_pid;
      sum.waker_tid = facts.waker_tid;
      sum.waker_is_known = wait.waker_is_known;
      sum.waker_thread = wait.waker_thread;
      sum.waker = waker;
      sum.waker_frame = facts.waker_frame;
      sums_.push_back(sum);
    }
    WaitSum& sum = sums_[it->second];
    const int64_t blocked_ns = event.runnable_ns() - event.start_ns;
    shares_.Add(event.start_ns, static_cast<uint32_t>(it->second), {1, blocked_ns, 0, 0});
    ++sum.count;
    sum.unfinished += event.end == SpanEnd::kTruncated ? 1 : 0;
    sum.blocked_ns += blocked_ns;
    sum.longest_ns = std::max(sum.longest_ns, blocked_ns);
  }

  const Timeline& timeline_;
  FrameTree frames_;
  ThreadsByNumber threads_;
  std::vector<Wait> waits_;  // in order of their wake-ups
  absl::flat_hash_map<Key, size_t> by_key_;
  std::vector<WaitSum> sums_;
  WindowShares shares_;
};

}  // namespace

std::vector<WaitSum> SumWaits(const Timeline& timeline, const StepWindows* windows,
                              std::vector<WindowShare>* shares) {
  return WaitSummer(timeline, windows).Run([](const SystemEvent&) { return true; }, shares);
}

std::vector<WaitSum> SumWaits(const Timeline& timeline,
                              absl::FunctionRef<bool(const SystemEvent&)> is_counted) {
  return WaitSummer(timeline, nullptr).Run(is_counted, nullptr);
}

std::string PathText(const Timeline& timeline, PathId path) {
  std::string text;
  for (; path != kRootPath; path = timeline.path(path).parent) {
    if (!text.empty()) text.insert(0, "/");
    text.insert(0, timeline.label(timeline.path(path).label).name);
  }
  return text;
}

}  // namespace proftrace
