// Finds what a hit really costs the job, by the job's own CPU time: an operator takes more of that
// time while all probes are there than while there is next to no probe, and the difference is the
// cost of its hits. The time between two probes that follow each other is too short, as the second
// probe finds the caches warm (job_hit_cost.h). This class finds by which factor it is too short.
//
//      all probes, the last stretches of the recording         one probe, at one operator
//      |-- ... --|-- CPU time, calls of it, hits --|-- detach --|-- CPU time, calls of it --|
//
// Where the price has to be known during the recording, the stretch with one probe is measured
// before the probes go in, with a probe that every operator hits, and compared with the first
// stretches.
//
// The differences between the stretches tell how sure the factor is. The result is an average of
// the usual factor and the factor that was seen, weighted by how sure each is. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

namespace proftrace {

// A stretch of time of some processes.
struct ComparedStretch {
  double cpu_ns = 0;     // CPU time that the processes used
  double operators = 0;  // operators that the processes called
  double hits = 0;       // hits of probes
  double readings = 0;   // hits that read inputs
  double jumps = 0;
  double stacks = 0;                    // Python's stacks that jumps read
  std::vector<uint32_t> calls_by_site;  // calls of operators; may be empty
};

// The predicted price of hits, from the time between two probes or from a loop in proftrace.
struct PredictedPrice {
  double hit_ns = 0;
  double reading_ns = 0;  // added to a hit that reads inputs
  double jump_ns = 0;
  double stack_ns = 0;
  // The factor by which a hit costs more than predicted where nothing could be compared, and the
  // standard deviation of that factor.
  double usual_factor = 1;
  double spread = 1;
  double least_factor = 0.9;  // a hit is never cheaper than one that finds all caches warm
};

class PriceComparison {
 public:
  // The fewest operators, and the fewest calls of the operator that is counted alone, from which a
  // stretch is used.
  static constexpr double kFewestOperators = 200;
  static constexpr double kFewestCalls = 40;
  // Only the stretches next to the one with one probe are compared: in others the job may do
  // something else.
  static constexpr size_t kMostStretches = 6;

  // The factor by which a hit costs more than predicted.
  struct Factor {
    double value = 1;
    // Whether most of the weight is on the factor that was seen, and not on the usual one.
    bool is_compared = false;
    double error = 0;  // the relative standard deviation of `value`
  };

  // Takes the stretch that was measured with one probe, before the others went in.
  void SetAlone(const ComparedStretch& stretch);
  bool has_alone() const { return alone_.has_value(); }
  // Takes a stretch that was measured with all probes; leaves it out where it is too short. After
  // SetAlone() it keeps the first stretches, otherwise the last ones.
  void AddRecorded(ComparedStretch stretch);
  bool wants_more() const { return !has_alone() || recorded_.size() < kMostStretches; }
  // Forgets all stretches.
  void Forget() { *this = PriceComparison(); }

  // Returns the site of an operator whose calls measure the job's progress, and which is called so
  // seldom that one probe there takes next to nothing; nullopt where there is no such operator.
  std::optional<uint16_t> ChooseCounted() const;
  // Takes the stretch that was measured with one probe, at `site`, after the others were out. Its
  // `operators` are the calls of the operator at that site.
  void SetAloneAfter(const ComparedStretch& stretch, uint16_t site);

  Factor Find(const PredictedPrice& price) const;

 private:
  // Returns the relative standard deviation of the CPU time an operator takes, between stretches.
  double Unsteadiness(double mean_ns) const;

  std::optional<ComparedStretch> alone_;
  std::deque<ComparedStretch> recorded_;
};

}  // namespace proftrace
