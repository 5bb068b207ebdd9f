// Finds what a hit really costs the job, by the job's own CPU time: an operator takes so much more
// of it while all probes are there than while there was next to none. The time between two probes
// that follow each other says less, as the second one finds the caches warm (job_hit_cost.h): how
// many times less, is what is found here.
//
//      all probes, the last stretches of the recording         one probe, at one operator
//      |-- ... --|-- CPU time, calls of it, hits --|-- detach --|-- CPU time, calls of it --|
//
// Where the price has to be known while it is recorded, that is measured before the probes go in,
// with a probe that every operator hits, and compared with the first stretches.
//
// What the stretches differ by tells how sure that is. Both are weighed: what is usual, and what
// was seen. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

namespace proftrace {

// A stretch of time of some processes.
struct ComparedStretch {
  double cpu_ns = 0;     // that they used
  double operators = 0;  // that they called
  double hits = 0;       // of probes
  double readings = 0;   // of these, such that read inputs
  double jumps = 0;
  double stacks = 0;                    // of Python's that jumps read
  std::vector<uint32_t> calls_by_site;  // of operators; may be empty
};

// What hits take by the time between two probes, or by a loop in proftrace.
struct PredictedPrice {
  double hit_ns = 0;
  double reading_ns = 0;  // that reading inputs adds
  double jump_ns = 0;
  double stack_ns = 0;
  // How many times that a hit costs where nothing could be compared, and how far it may be from
  // that, a standard deviation.
  double usual_factor = 1;
  double spread = 1;
  double least_factor = 0.9;  // a hit is never cheaper than one that finds all caches warm
};

class PriceComparison {
 public:
  // Fewer operators than this say nothing; nor do fewer calls of the one that is counted alone.
  static constexpr double kFewestOperators = 200;
  static constexpr double kFewestCalls = 40;
  // Only those next to what was measured alone are compared: others may do something else.
  static constexpr size_t kMostStretches = 6;

  // How many times what was predicted a hit costs.
  struct Factor {
    double value = 1;
    bool is_compared = false;  // most of it was seen; false: it is what is usual
    double error = 0;          // how far it may be from that, a relative standard deviation
  };

  // Takes what was measured with one probe, before the others went in.
  void SetAlone(const ComparedStretch& stretch);
  bool has_alone() const { return alone_.has_value(); }
  // Takes what was measured with all of them; leaves out a stretch that is too short. Keeps the
  // first ones after what was measured alone, and without that the last ones.
  void AddRecorded(ComparedStretch stretch);
  bool wants_more() const { return !has_alone() || recorded_.size() < kMostStretches; }
  // Forgets all stretches.
  void Forget() { *this = PriceComparison(); }

  // Returns the site of the operator whose calls tell how far the job came, though it is seldom
  // enough that one probe at it takes next to nothing; nullopt: there is none.
  std::optional<uint16_t> ChooseCounted() const;
  // Takes what was measured with one probe, at `site`, after the others were out: its `operators`
  // are calls of that one.
  void SetAloneAfter(const ComparedStretch& stretch, uint16_t site);

  Factor Find(const PredictedPrice& price) const;

 private:
  // Returns the relative standard deviation of the CPU time an operator takes, between stretches.
  double Unsteadiness(double mean_ns) const;

  std::optional<ComparedStretch> alone_;
  std::deque<ComparedStretch> recorded_;
};

}  // namespace proftrace
