// Puts many inputs on one timeline: joins them, finds the common clock, and gives a writer all
// rows.
//
//   auto merge = FleetMerge::Prepare(std::move(inputs), options);
//   auto status = (*merge)->Write(writer);
//
// Memory is needed for the facts of the inputs and for the collectives only, because rows are
// streamed. The result is the same for any order of the inputs.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "userspace/fleet/busy_time.h"
#include "userspace/fleet/merge_writer.h"
#include "userspace/fleet/merged_clock.h"
#include "userspace/fleet/merged_collectives.h"
#include "userspace/fleet/merged_ids.h"
#include "userspace/fleet/phase_times.h"
#include "userspace/fleet/row_choice.h"

namespace proftrace {

// A moment: `ns` on the common clock or, with is_after_begin, `ns` after the first event.
struct MergeEdge {
  bool is_after_begin = false;
  int64_t ns = 0;
};

enum class MergeLanes : uint8_t {
  kAuto,  // kFull, or kSummary where there are more than FleetMerge::kMostFullRanks ranks
  kFull,
  kSummary,
};

struct MergeOptions {
  MergedClockOptions clock;
  std::string rank_of;  // the text of a RankPattern; empty: none
  MergeLanes lanes = MergeLanes::kAuto;
  std::vector<std::pair<int32_t, int32_t>> ranks;
  std::optional<std::pair<int64_t, int64_t>> steps;
  std::optional<MergeEdge> from;
  std::optional<MergeEdge> until;
  std::vector<std::string> categories;  // of rows, as they stand in "cat"; empty: all
  bool one_file_a_rank = false;         // the output is a directory of Kineto files
};

// Counts events. It always holds that in = out + filtered + refused.
struct MergeCounts {
  uint64_t in = 0;
  uint64_t out = 0;
  uint64_t filtered = 0;  // left out as the options ask for
  // Without a common time, because their clock broke just then, or of a kind that the output cannot
  // hold.
  uint64_t refused = 0;
  uint64_t added = 0;  // rows that the merge itself adds
};

class FleetMerge {
 public:
  static constexpr size_t kMostFullRanks = 16;

  static absl::StatusOr<std::unique_ptr<FleetMerge>> Prepare(
      std::vector<std::unique_ptr<SourceInput>> inputs, const MergeOptions& options);

  absl::Status Write(MergeWriter& writer);

  const ClockStatement& clock() const { return clock_->statement(); }
  const JoinedInputs& joined() const { return joined_; }
  const MergeCounts& counts() const { return counts_; }
  const MergedCollectives& collectives() const { return *collectives_; }
  bool is_summary() const { return choice_.is_summary; }
  size_t ranks() const;
  // Returns sentences about what the inputs lack, and what the output leaves out.
  const std::vector<std::string>& remarks() const { return remarks_; }
  // Returns the summary of the merge as a JSON object. Its counts are valid only after Write().
  std::string SummaryJson() const;

 private:
  FleetMerge(std::vector<std::unique_ptr<SourceInput>> inputs, const MergeOptions& options)
      : inputs_(std::move(inputs)), options_(options) {}

  absl::Status Join();
  absl::Status Survey();
  absl::Status SurveyInput(uint32_t input);
  absl::Status FindWindows();
  void ChooseMainInputs();
  std::string ClockJson() const;
  MergePart PartOf(uint32_t process, const uint32_t* input) const;
  absl::Status WriteInput(uint32_t process, uint32_t input, MergeWriter& writer);
  absl::Status WriteEvent(uint32_t process, uint32_t input, const SourceEvent& event,
                          MergeWriter& writer);
  absl::Status WriteCollectives(uint32_t process, MergeWriter& writer);
  absl::Status WriteBusyGpus(uint32_t process, MergeWriter& writer);
  absl::Status WritePhases(uint32_t process, MergeWriter& writer);
  absl::Status AddThreadName(std::string_view pid, int64_t tid, const std::string& name,
                             MergeWriter& writer);
  absl::Status AddRow(const SourceEvent& event, uint64_t link, MergeWriter& writer);
  bool IsInWindow(uint32_t process, int64_t begin_ns, int64_t end_ns) const;
  // Puts an event on the common clock. Returns false where it has no time there.
  bool MapEvent(uint32_t input, SourceEvent* event) const;

  std::vector<std::unique_ptr<SourceInput>> inputs_;
  MergeOptions options_;
  std::vector<const SourceFacts*> facts_;
  JoinedInputs joined_;
  std::optional<MergedClock> clock_;
  std::optional<MergedCollectives> collectives_;
  RowChoice choice_;
  StepTimes step_times_;
  // The window of each process that is wanted; nullopt where nothing of the process is.
  std::vector<std::optional<std::pair<int64_t, int64_t>>> windows_;
  std::vector<bool> is_main_;  // by input
  int64_t first_ns_ = 0;
  std::map<OwnedId, BusyTime> busy_;  // busy times of the process being written, by GPU
  PhaseTimes phases_;                 // phases of the process being written
  MergeCounts counts_;
  std::vector<std::string> remarks_;
};

}  // namespace proftrace
