#include "userspace/fleet/late_rows.h"

#include <algorithm>
#include <tuple>

namespace proftrace {
namespace {

// The shortest of the rows that cover more than half of the window: it is the innermost of them.
// Where none does, the one that covers the most.
void Compare(LateWindow& window, int64_t covered_ns, int64_t duration_ns, std::string_view name) {
  const int64_t half_ns = (window.until_ns - window.from_ns) / 2;
  const bool covers = covered_ns > half_ns;
  const bool best_covers = window.covered_ns > half_ns;
  bool is_better = covers && !best_covers;
  if (covers == best_covers) {
    const std::string_view best = window.row;
    is_better = covers ? std::tie(duration_ns, name) < std::tie(window.duration_ns, best)
                       : std::tie(window.covered_ns, name) < std::tie(covered_ns, best);
  }
  if (!is_better && !window.row.empty()) return;
  window.row = name;
  window.covered_ns = covered_ns;
  window.duration_ns = duration_ns;
}

}  // namespace

uint32_t LateRows::Add(uint32_t process, int64_t from_ns, int64_t until_ns) {
  const auto number = static_cast<uint32_t>(windows_.size());
  windows_.push_back({process, from_ns, until_ns});
  if (by_process_.size() <= process) by_process_.resize(process + 1);
  by_process_[process].push_back({from_ns, until_ns, number});
  return number;
}

void LateRows::Sort() {
  for (std::vector<Place>& places : by_process_) {
    std::sort(places.begin(), places.end(), [](const Place& a, const Place& b) {
      return std::tie(a.from_ns, a.window) < std::tie(b.from_ns, b.window);
    });
    int64_t longest_ns = INT64_MIN;
    for (Place& place : places) {
      longest_ns = std::max(longest_ns, windows_[place.window].until_ns);
      place.longest_until_ns = longest_ns;
    }
  }
}

void LateRows::See(uint32_t process, int64_t begin_ns, int64_t end_ns, std::string_view name) {
  if (process >= by_process_.size()) return;
  const std::vector<Place>& places = by_process_[process];
  auto after = std::lower_bound(places.begin(), places.end(), end_ns,
                                [](const Place& place, int64_t ns) { return place.from_ns < ns; });
  while (after != places.begin()) {
    --after;
    if (after->longest_until_ns <= begin_ns) break;
    LateWindow& window = windows_[after->window];
    const int64_t covered_ns =
        std::min(end_ns, window.until_ns) - std::max(begin_ns, window.from_ns);
    if (covered_ns > 0) Compare(window, covered_ns, end_ns - begin_ns, name);
  }
}

}  // namespace proftrace
