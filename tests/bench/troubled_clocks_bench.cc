// How often the told bounds of small random merges are true, by the trouble that one clock is in:
// troubled_clocks_bench [MERGES OF EACH KIND] [FIRST SEED].
#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "tests/support/troubled_fleet.h"

namespace proftrace {
namespace {

const char* NameOf(ClockTrouble trouble) {
  switch (trouble) {
    case ClockTrouble::kNone:
      return "none";
    case ClockTrouble::kNoneWatched:
      return "none, snapshots";
    case ClockTrouble::kMoved:
      return "step, snapshots";
    case ClockTrouble::kStep:
      return "step";
    case ClockTrouble::kStepAtEdge:
      return "step at an edge";
    case ClockTrouble::kSlew:
      return "slew";
    case ClockTrouble::kStretch:
      return "stretch";
  }
  return "";
}

double PartOf(std::vector<int64_t> values, double part) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const double place = part * static_cast<double>(values.size() - 1);
  return static_cast<double>(values[static_cast<size_t>(place)]) / 1000;
}

int Run(int argc, char** argv) {
  const int merges = argc > 1 ? std::atoi(argv[1]) : 1000;
  const int first = argc > 2 ? std::atoi(argv[2]) : 1;
  const bool is_verbose = argc > 3;
  for (const ClockTrouble trouble : kClockTroubles) {
    int solved = 0;
    std::vector<int64_t> outside_ns;
    std::vector<int64_t> bounds_ns;
    for (int i = 0; i < merges; ++i) {
      const TroubledFleet fleet(static_cast<uint64_t>(first + i), trouble);
      const TroubledAnswer answer = CompareWithTruth(fleet);
      if (!answer.is_solved) continue;
      ++solved;
      bounds_ns.insert(bounds_ns.end(), answer.bounds_ns.begin(), answer.bounds_ns.end());
      if (answer.worst_outside_ns <= 0) continue;
      outside_ns.push_back(answer.worst_outside_ns);
      if (is_verbose) {
        std::printf(
            "  %s, seed %d: %zu hosts, %zu collectives, ends scatter %.1f us, bound %.1f us: "
            "outside by %.1f us\n",
            NameOf(trouble), first + i, fleet.input.boots.size(), fleet.collectives(),
            fleet.scatter_ns() / 1000, PartOf(answer.bounds_ns, 1),
            static_cast<double>(answer.worst_outside_ns) / 1000);
      }
    }
    std::printf(
        "%-16s solved %d of %d | bound is untrue in %zu (%.2f %%), median by %.1f, worst %.1f us | "
        "bound %.1f, 9 of 10 %.1f us\n",
        NameOf(trouble), solved, merges, outside_ns.size(),
        100.0 * static_cast<double>(outside_ns.size()) / std::max(1, solved),
        PartOf(outside_ns, 0.5), PartOf(outside_ns, 1), PartOf(bounds_ns, 0.5),
        PartOf(bounds_ns, 0.9));
  }
  return 0;
}

}  // namespace
}  // namespace proftrace

int main(int argc, char** argv) { return proftrace::Run(argc, argv); }
