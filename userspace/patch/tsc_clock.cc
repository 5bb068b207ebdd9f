#include "userspace/patch/tsc_clock.h"

#include <unistd.h>
#include <x86intrin.h>

#include <algorithm>
#include <string>

#include "symbols/process/process_maps.h"
#include "userspace/base/clock.h"
#include "userspace/base/exit_status.h"

namespace proftrace {
namespace {

constexpr int kReadings = 5;
// How many readings are kept. A counter from before the oldest one is converted by the oldest line.
constexpr size_t kMostPoints = 512;
constexpr useconds_t kFirstLineUs = 2000;

uint64_t ReadCounter() {
  unsigned processor = 0;
  return __rdtscp(&processor);
}

}  // namespace

absl::Status CheckTimeStampCounter() {
  std::string source =
      ReadSmallFile("/sys/devices/system/clocksource/clocksource0/current_clocksource", 64);
  while (!source.empty() && source.back() == '\n') source.pop_back();
  if (source == "tsc") return absl::OkStatus();
  return Fail(ExitCode::kHostUnfit,
              "tier patch takes its times from the time stamp counter, which this host's kernel "
              "does not keep time by (its clock source is " +
                  (source.empty() ? std::string("not known") : source) + ")");
}

TscClock::Point TscClock::Read() {
  Point best;
  uint64_t shortest = ~uint64_t{0};
  for (int i = 0; i < kReadings; ++i) {
    const uint64_t before = ReadCounter();
    const int64_t time_ns = MonotonicNs();
    const uint64_t width = ReadCounter() - before;
    if (width >= shortest) continue;
    shortest = width;
    best = {before + width / 2, time_ns, 0};
  }
  const double rate = points_.empty() ? 0 : points_.back().ns_per_count;
  error_ns_ = std::max(error_ns_, static_cast<int64_t>(rate * static_cast<double>(shortest) / 2));
  return best;
}

TscClock::TscClock() {
  points_.push_back(Read());
  usleep(kFirstLineUs);
  Advance();
}

void TscClock::Advance() {
  Point next = Read();
  Point& last = points_.back();
  if (next.counter <= last.counter || next.time_ns <= last.time_ns) return;
  last.ns_per_count = static_cast<double>(next.time_ns - last.time_ns) /
                      static_cast<double>(next.counter - last.counter);
  next.ns_per_count = last.ns_per_count;
  points_.push_back(next);
  if (points_.size() > kMostPoints) points_.pop_front();
}

int64_t TscClock::ToNs(uint64_t counter) const {
  // A counter nearly always lies between the last two points.
  auto at = points_.end() - 2;
  if (counter < at->counter) {
    at = std::upper_bound(points_.begin(), points_.end(), counter,
                          [](uint64_t value, const Point& point) { return value < point.counter; });
    if (at != points_.begin()) --at;
  }
  const auto distance = static_cast<int64_t>(counter - at->counter);
  const int64_t time_ns =
      at->time_ns + static_cast<int64_t>(at->ns_per_count * static_cast<double>(distance));
  return at + 1 == points_.end() ? time_ns : std::min(time_ns, (at + 1)->time_ns);
}

uint64_t TscClock::CounterAfter(int64_t ns) const {
  return now() + static_cast<uint64_t>(static_cast<double>(ns) / points_.back().ns_per_count);
}

}  // namespace proftrace
