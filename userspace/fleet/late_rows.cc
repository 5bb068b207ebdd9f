#include "userspace/fleet/late_rows.h"

#include <algorithm>
#include <iterator>
#include <tuple>

namespace proftrace {
namespace {

// The most reasons that are kept. A file with more is damaged, because the kernel and proftrace
// have fewer.
constexpr size_t kMostReasons = 32;

// System calls that wait for others: a thread that is in one is not busy.
constexpr std::string_view kWaitingCalls[] = {
    "clock_nanosleep", "epoll_pwait",   "epoll_pwait2",    "epoll_wait", "futex", "futex_wait",
    "io_getevents",    "nanosleep",     "pause",           "poll",       "ppoll", "pselect6",
    "restart_syscall", "rt_sigsuspend", "rt_sigtimedwait", "select",     "wait4", "waitid"};

// Returns whether the row shows that a thread beside the main one was busy. Python functions do not
// show it, because most threads are in a function that waits.
bool IsBusy(const SeenRow& row) {
  if (row.kind == LateKind::kOperator) return true;
  return row.kind == LateKind::kSystemCall &&
         std::find(std::begin(kWaitingCalls), std::end(kWaitingCalls), row.name) ==
             std::end(kWaitingCalls);
}

// Makes `row` the best one if it is better: the shortest row that covers more than half of the
// window, which is the innermost one; else the row that covers the most. Names and threads decide
// between equal rows, so that the order of the rows does not matter.
void Compare(int64_t window_ns, int64_t covered_ns, const SeenRow& row, LateRow* best) {
  const int64_t half_ns = window_ns / 2;
  const int64_t duration_ns = row.end_ns - row.begin_ns;
  const bool covers = covered_ns > half_ns;
  const bool best_covers = best->covered_ns > half_ns;
  bool is_better = covers && !best_covers;
  if (covers == best_covers) {
    const std::string_view name = best->name;
    is_better = covers ? std::tie(duration_ns, row.name, row.pid, row.tid) <
                             std::tie(best->duration_ns, name, best->pid, best->tid)
                       : std::tie(best->covered_ns, row.name, row.pid, row.tid) <
                             std::tie(covered_ns, name, best->pid, best->tid);
  }
  if (!is_better && !best->name.empty()) return;
  *best = {std::string(row.name), covered_ns, duration_ns, row.pid, row.tid};
}

void SeeInWindow(const SeenRow& row, LateWindow* window) {
  const int64_t covered_ns =
      std::min(row.end_ns, window->until_ns) - std::max(row.begin_ns, window->from_ns);
  if (covered_ns <= 0) return;
  const int64_t window_ns = window->until_ns - window->from_ns;
  if (!row.is_main) {
    if (IsBusy(row)) Compare(window_ns, covered_ns, row, &window->elsewhere);
    return;
  }
  const bool is_wait = row.kind == LateKind::kOffCpu;
  Compare(window_ns, covered_ns, row, &window->by_kind[static_cast<size_t>(row.kind)]);
  if (!is_wait) {
    Compare(window_ns, covered_ns, row, &window->innermost);
    return;
  }
  const auto reason = window->off_cpu_ns.find(row.name);
  if (reason != window->off_cpu_ns.end()) {
    reason->second += covered_ns;
  } else if (window->off_cpu_ns.size() < kMostReasons) {
    window->off_cpu_ns.emplace(row.name, covered_ns);
  }
}

}  // namespace

std::string_view LateWindow::LongestReason() const {
  const auto longest =
      std::max_element(off_cpu_ns.begin(), off_cpu_ns.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  return longest == off_cpu_ns.end() ? std::string_view() : longest->first;
}

uint32_t LateRows::Add(uint32_t process, int64_t from_ns, int64_t until_ns) {
  const auto number = static_cast<uint32_t>(windows_.size());
  LateWindow window;
  window.process = process;
  window.from_ns = from_ns;
  window.until_ns = until_ns;
  windows_.push_back(std::move(window));
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

void LateRows::See(uint32_t process, const SeenRow& row) {
  if (process >= by_process_.size()) return;
  const std::vector<Place>& places = by_process_[process];
  auto after = std::lower_bound(places.begin(), places.end(), row.end_ns,
                                [](const Place& place, int64_t ns) { return place.from_ns < ns; });
  while (after != places.begin()) {
    --after;
    if (after->longest_until_ns <= row.begin_ns) break;
    SeeInWindow(row, &windows_[after->window]);
  }
}

}  // namespace proftrace
