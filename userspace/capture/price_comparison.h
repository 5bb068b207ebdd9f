// Finds what a hit really costs the job, by the job's own CPU time: an operator takes so much more
// of it while all probes are there than while there was next to none. The time between two probes
// that follow each other says less, as the second one finds the caches warm (job_hit_cost.h): how
// many times less, is what is found here.
//
//      one probe that every operator hits        all probes, for some stretches
//      |-- CPU time, operators --|-- attach --|-- CPU time, operators, hits --|-- ... --|
//
// What the stretches differ by tells how sure that is. Both are weighed: what is usual, and what
// was seen. Not thread-safe.
#pragma once

#include <optional>
#include <vector>

namespace proftrace {

// A stretch of time of some processes.
struct ComparedStretch {
  double cpu_ns = 0;     // that they used
  double operators = 0;  // that they called
  double hits = 0;       // of probes
  double readings = 0;   // of these, such that read inputs
};

// What hits take by the time between two probes, or by a loop in proftrace.
struct PredictedPrice {
  double hit_ns = 0;
  double reading_ns = 0;  // that reading inputs adds
  // How many times that a hit costs where nothing could be compared, and how far it may be from
  // that, a standard deviation.
  double usual_factor = 1;
  double spread = 1;
};

class PriceComparison {
 public:
  // Fewer operators than this say nothing.
  static constexpr double kFewestOperators = 200;
  // Only the first stretches are compared: later ones may do something else.
  static constexpr size_t kMostStretches = 6;

  // How many times what was predicted a hit costs.
  struct Factor {
    double value = 1;
    bool is_compared = false;  // most of it was seen; false: it is what is usual
  };

  // Takes what was measured with one probe, before the others went in.
  void SetAlone(const ComparedStretch& stretch);
  bool has_alone() const { return alone_.has_value(); }
  // Takes what was measured with all of them; leaves out a stretch that is too short.
  void AddRecorded(const ComparedStretch& stretch);
  bool wants_more() const { return has_alone() && recorded_.size() < kMostStretches; }

  Factor Find(const PredictedPrice& price) const;

 private:
  // Returns the relative standard deviation of the CPU time an operator takes, between stretches.
  double Unsteadiness(double mean_ns) const;

  std::optional<ComparedStretch> alone_;
  std::vector<ComparedStretch> recorded_;
};

}  // namespace proftrace
