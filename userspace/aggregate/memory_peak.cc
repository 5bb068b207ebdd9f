#include "userspace/aggregate/memory_peak.h"

#include <absl/container/flat_hash_map.h>

#include <algorithm>
#include <utility>

#include "userspace/base/saturating.h"

namespace proftrace {
namespace {

// Keeps the lowest and the highest event in each of a number of equal stretches of time, and the
// last event, because a picture of that width shows no more.
class PointThinner {
 public:
  PointThinner(int64_t start_ns, int64_t end_ns, size_t most) : start_ns_(start_ns) {
    const auto stretches = static_cast<int64_t>(std::max<size_t>(1, most / 3));
    stretch_ns_ = std::max<int64_t>(1, (end_ns - start_ns) / stretches);
  }

  void Add(int64_t time_ns, int64_t bytes) {
    const int64_t stretch = (time_ns - start_ns_) / stretch_ns_;
    if (count_ > 0 && stretch != stretch_) Flush();
    stretch_ = stretch;
    const MemoryPoint point{time_ns, bytes};
    if (count_ == 0 || bytes < low_.bytes) low_ = point;
    if (count_ == 0 || bytes > high_.bytes) high_ = point;
    last_ = point;
    ++count_;
  }

  std::vector<MemoryPoint> Take() {
    if (count_ > 0) Flush();
    return std::move(points_);
  }

 private:
  void Flush() {
    std::vector<MemoryPoint> some = {low_, high_, last_};
    std::stable_sort(some.begin(), some.end(), [](const MemoryPoint& a, const MemoryPoint& b) {
      return a.time_ns < b.time_ns;
    });
    for (const MemoryPoint& point : some) {
      const bool is_again = !points_.empty() && points_.back().time_ns == point.time_ns &&
                            points_.back().bytes == point.bytes;
      if (!is_again) points_.push_back(point);
    }
    count_ = 0;
  }

  int64_t start_ns_;
  int64_t stretch_ns_ = 1;
  int64_t stretch_ = 0;
  size_t count_ = 0;  // in this stretch
  MemoryPoint low_, high_, last_;
  std::vector<MemoryPoint> points_;
};

struct Block {
  int64_t bytes = 0;
  PathId path = kRootPath;
  StackId stack = kNoStack;
};

std::vector<PeakOwner> OwnersAt(const Timeline& timeline, const MemoryCurve& curve,
                                uint64_t last_event) {
  absl::flat_hash_map<uint64_t, Block> live;
  uint64_t number = 0;
  ForEachMemoryEvent(timeline, curve, [&](const MemoryEvent& event, int64_t) {
    if (number++ > last_event) return;
    if (event.bytes <= 0) {
      live.erase(event.address);
      return;
    }
    const PathId path = event.parent == kNoSpan ? kRootPath : timeline.span(event.parent).path;
    const StackId stack = event.stack != kNoStack || event.parent == kNoSpan
                              ? event.stack
                              : timeline.stack_of(event.parent);
    live.insert_or_assign(event.address, Block{event.bytes, path, stack});
  });
  absl::flat_hash_map<std::pair<uint32_t, uint32_t>, PeakOwner> sums;
  for (const auto& [address, block] : live) {
    PeakOwner& owner = sums[{Raw(block.path), Raw(block.stack)}];
    owner.path = block.path;
    owner.stack = block.stack;
    ++owner.blocks;
    owner.bytes = SaturatingSum(owner.bytes, block.bytes);
  }
  std::vector<PeakOwner> owners;
  owners.reserve(sums.size());
  for (const auto& [key, owner] : sums) owners.push_back(owner);
  std::sort(owners.begin(), owners.end(), [](const PeakOwner& a, const PeakOwner& b) {
    if (a.bytes != b.bytes) return a.bytes > b.bytes;
    return std::pair(Raw(a.path), Raw(a.stack)) < std::pair(Raw(b.path), Raw(b.stack));
  });
  return owners;
}

MemoryPeak FindPeak(const Timeline& timeline, const MemoryCurve& curve, size_t most_points) {
  MemoryPeak peak;
  peak.curve = curve;
  peak.preexisting_bytes = PreexistingBytes(timeline, curve);
  uint64_t peak_event = 0;
  int64_t first_ns = 0;
  int64_t last_ns = 0;
  peak.is_whole = ForEachMemoryEvent(timeline, curve, [&](const MemoryEvent& event, int64_t total) {
    if (peak.events == 0) first_ns = event.time_ns;
    last_ns = event.time_ns;
    if (peak.events == 0 || total > peak.bytes) {
      peak.bytes = total;
      peak.time_ns = event.time_ns;
      peak_event = peak.events;
    }
    ++peak.events;
  });
  if (peak.events == 0) return peak;
  PointThinner thinner(first_ns, last_ns, most_points);
  ForEachMemoryEvent(timeline, curve, [&](const MemoryEvent& event, int64_t total) {
    thinner.Add(event.time_ns, total);
  });
  peak.points = thinner.Take();
  peak.owners = OwnersAt(timeline, curve, peak_event);
  return peak;
}

}  // namespace

std::vector<MemoryPeak> FindMemoryPeaks(const Timeline& timeline, size_t most_points) {
  std::vector<MemoryPeak> peaks;
  if (!timeline.has_memory()) return peaks;
  for (const MemoryCurve& curve : MemoryCurves(timeline)) {
    MemoryPeak peak = FindPeak(timeline, curve, most_points);
    if (peak.bytes > 0) peaks.push_back(std::move(peak));
  }
  return peaks;
}

}  // namespace proftrace
