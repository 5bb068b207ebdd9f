// Makes rows of the collectives of all ranks: which rank entered last, which rank waited for which
// and for how long, what the late rank was doing, and arrows from the late rank to those that
// waited.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "exporters/sinks/json_writer.h"
#include "userspace/fleet/late_rows.h"
#include "userspace/fleet/merged_clock.h"

namespace proftrace {

// A row in one of a rank's lanes for collectives. Rows of one lane nest.
struct CollectiveRow {
  uint32_t lane = 0;
  int64_t begin_ns = 0;  // on the common clock
  int64_t end_ns = 0;
  std::string name;
  std::string args;  // a JSON object
};

// One end of an arrow. It belongs to the innermost row of the lane that is open at its time. The
// arrow's end is later than its start.
struct CollectiveArrow {
  uint32_t lane = 0;
  int64_t time_ns = 0;
  uint64_t id = 0;  // the arrow's number, from 1 on; both ends have it
  bool is_start = true;
};

class MergedCollectives {
 public:
  // `clock` must outlive this object.
  MergedCollectives(const MergedClock& clock, const JoinedInputs& joined);

  // Returns the windows in which ranks were late. The caller must show it the rows of these ranks
  // (LateRows::See()).
  LateRows& late_rows() { return late_; }

  // Calls `row` with each row of a process, outer rows of a lane before their inner ones, and
  // `arrow` with each end of an arrow.
  void ForEachRow(uint32_t process, const std::function<void(const CollectiveRow&)>& row,
                  const std::function<void(const CollectiveArrow&)>& arrow) const;

  // Calls `row` once for each time at which others waited for the process. The row lasts as long as
  // the process was late, and is named by what the process did. Rows come in order of time; lanes
  // are as for ForEachRow().
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
    std::vector<std::optional<Wait>> waits;  // by rank; empty where no rank waits
    std::vector<uint32_t> awaited;           // the ranks that any rank waits for, in order
    uint64_t first_arrow = 0;
    std::optional<uint32_t> late_window;
  };
  struct Place {  // the place of a rank in a collective
    uint32_t collective = 0;
    uint32_t rank = 0;  // index into times.ranks
  };

  const CollectiveCall& CallOf(const Collective& of, uint32_t rank) const;
  const SourceCall& SourceCallOf(const Collective& of, uint32_t rank) const;
  // Returns whether a rank has no part in what is told of the others (MomentRow::is_left_out).
  bool IsLeftOut(const Collective& of, uint32_t rank) const;
  // Returns whether the ranks agree on what the collective is, so that one may have waited for
  // another.
  bool IsBound(const Collective& of) const;
  // Finds the rank that each rank waited for. The time that this takes grows only linearly with the
  // ranks.
  void FindWaits(Collective& of) const;
  // Returns which rank a rank waited for; nullopt where this kind of collective does not wait.
  static std::optional<Wait> WaitOf(const Collective& of, uint32_t rank) {
    return of.waits.empty() ? std::nullopt : of.waits[rank];
  }
  void AddLateWindow(Collective& of);
  std::string NameOfRow(const Collective& of, uint32_t rank) const;
  std::string ArgsOf(const Collective& of, uint32_t rank) const;
  // Writes what is known of a collective of which several ranks are known.
  void WriteTimes(const Collective& of, uint32_t rank, JsonText* args) const;
  // Returns whether an arrow leads to the rank: it must have been there before the rank that it
  // waited for came.
  bool HasArrow(const Collective& of, uint32_t rank) const;
  int32_t RankNumber(const Collective& of, uint32_t rank) const;

  const MergedClock& clock_;
  std::vector<Collective> collectives_;
  std::vector<std::vector<Place>> by_process_;  // by time of entering
  LateRows late_;
  uint64_t arrows_ = 0;
};

}  // namespace proftrace
