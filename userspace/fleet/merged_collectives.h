// What the ranks did together, as rows: who entered last, who waited for whom and for how long,
// what the late one was doing, and arrows from it to those that waited.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "userspace/fleet/late_rows.h"
#include "userspace/fleet/merged_clock.h"

namespace proftrace {

// A row of a rank's lanes of collectives. Rows of one lane nest.
struct CollectiveRow {
  uint32_t lane = 0;
  int64_t begin_ns = 0;  // on the common clock
  int64_t end_ns = 0;
  std::string name;
  std::string args;  // a JSON object
};

// An end of an arrow, on the innermost row of the lane that is open then. Its end is after its
// start.
struct CollectiveArrow {
  uint32_t lane = 0;
  int64_t time_ns = 0;
  uint64_t id = 0;  // from 1 on; the same at both ends, and nowhere else
  bool is_start = true;
};

class MergedCollectives {
 public:
  // `clock` must outlive this.
  MergedCollectives(const MergedClock& clock, const JoinedInputs& joined);

  // What the late ranks did is learnt from the rows of their main threads.
  LateRows& late_rows() { return late_; }

  // Gives the rows of a process, each lane's outer ones before their inner ones, and the arrows.
  void ForEachRow(uint32_t process, const std::function<void(const CollectiveRow&)>& row,
                  const std::function<void(const CollectiveArrow&)>& arrow) const;

  // Gives a row for each time at which others waited for the process: as long as it was late, named
  // by what it did. In order of time; lanes as above.
  void ForEachCause(uint32_t process, const std::function<void(const CollectiveRow&)>& row) const;

  size_t size() const { return collectives_.size(); }
  uint64_t arrows() const { return arrows_; }
  // Returns the sums of each rank, for the summary.
  struct RankSums {
    int32_t rank = 0;
    int32_t attempt = 0;
    uint64_t collectives = 0;
    uint64_t entered_last = 0;
    int64_t wait_ns = 0;
  };
  std::vector<RankSums> SumsByRank() const;

 private:
  struct Wait {
    uint32_t on = 0;  // index into times.ranks
    int64_t ns = 0;
  };
  struct Collective {
    size_t moment = 0;
    CollectiveTimes times;
    std::vector<std::optional<Wait>> waits;  // by rank; empty: none waits
    std::vector<uint32_t> awaited;           // those whom any waits for, in order
    uint64_t first_arrow = 0;
    std::optional<uint32_t> late_window;
  };
  struct Place {  // of a rank in a collective
    uint32_t collective = 0;
    uint32_t rank = 0;  // index into times.ranks
  };

  const CollectiveCall& CallOf(const Collective& of, uint32_t rank) const;
  // Finds whom each rank waited for, in time that grows with the ranks alone.
  void FindWaits(Collective& of) const;
  // Returns whom a rank waited for; nullopt: its kind does not wait.
  static std::optional<Wait> WaitOf(const Collective& of, uint32_t rank) {
    return of.waits.empty() ? std::nullopt : of.waits[rank];
  }
  void AddLateWindow(Collective& of);
  std::string NameOfRow(const Collective& of, uint32_t rank) const;
  std::string ArgsOf(const Collective& of, uint32_t rank) const;
  // Whether an arrow leads to the rank: it was there when the one that it waited for came.
  bool HasArrow(const Collective& of, uint32_t rank) const;
  int32_t RankNumber(const Collective& of, uint32_t rank) const;

  const MergedClock& clock_;
  std::vector<Collective> collectives_;
  std::vector<std::vector<Place>> by_process_;  // by time of entering
  LateRows late_;
  uint64_t arrows_ = 0;
};

}  // namespace proftrace
