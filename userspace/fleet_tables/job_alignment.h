// Puts one job on one clock, and gives its rows with common times.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "exporters/tables/table_keys.h"
#include "userspace/fleet/joined_inputs.h"
#include "userspace/fleet/merged_clock.h"
#include "userspace/fleet_tables/aligned_call_row.h"
#include "userspace/fleet_tables/aligned_step_row.h"
#include "userspace/fleet_tables/clock_knot_row.h"
#include "userspace/fleet_tables/common_steps.h"
#include "userspace/fleet_tables/fleet_capture_row.h"
#include "userspace/fleet_tables/input_facts.h"

namespace proftrace {

class JobAlignment {
 public:
  // `inputs` must outlive the result. Fails as JoinInputs() and MergedClock::Make() do.
  static absl::StatusOr<std::unique_ptr<JobAlignment>> Make(const std::string& job,
                                                            std::vector<const InputFacts*> inputs,
                                                            const MergedClockOptions& options);

  const JoinedInputs& joined() const { return joined_; }
  const MergedClock& clock() const { return *clock_; }

  template <typename Row>
  using Add = absl::FunctionRef<void(const RowKeys&, const Row&)>;
  void ForEachCapture(Add<FleetCaptureRow> add) const;
  void ForEachKnot(Add<ClockKnotRow> add) const;
  void ForEachStep(Add<AlignedStepRow> add) const;
  void ForEachCall(Add<AlignedCallRow> add) const;

 private:
  // The figures of a moment (a collective that was matched across ranks) that all its ranks share.
  struct MatchedMoment {
    int64_t transfer_ns = 0;
    std::optional<int64_t> bound_ns;
    std::optional<int64_t> estimate_error_ns;
  };
  // The moment that a call is part of, as seen by its rank. The struct is small, because there are
  // millions of calls.
  struct Match {
    int64_t wait_ns = 0;
    int64_t begin_ns = 0;
    int64_t end_ns = 0;
    uint32_t moment = kNoMoment;

    bool is_matched() const { return moment != kNoMoment; }
  };
  static constexpr uint32_t kNoMoment = UINT32_MAX;

  JobAlignment(std::string job, std::vector<const InputFacts*> inputs)
      : job_(std::move(job)), inputs_(std::move(inputs)) {}
  void SetTimes(uint32_t input, FleetCaptureRow* row) const;
  void ChooseInputs();
  void FindMatches();
  void FindSteps();
  // The steps of a process in a window of a series, or in all of its input.
  struct WindowSteps {
    uint32_t process = 0;
    int64_t first_step = 0;    // by the process's own step numbers
    int64_t window_end_s = 0;  // 0 where this is all of an input
    RankSteps steps;
  };
  std::vector<WindowSteps> WindowsOf(uint32_t process) const;
  int64_t StepOffsetOf(uint32_t process, int64_t local_step) const;
  RowKeys KeysOf(uint32_t input) const;
  std::string_view NameOfJob() const { return job_.empty() ? kUnnamedJob : std::string_view(job_); }
  std::string_view MethodOf(bool is_aligned) const;
  std::optional<CommonTime> MapTable(uint32_t input, int64_t table_ns) const;
  // Returns the step of the process that a call began in, by the process's own count.
  std::optional<int64_t> StepOfCall(uint32_t input, const SourceCall& call) const;
  void AddKnots(uint32_t boot, const FleetBoot& of, Add<ClockKnotRow> add) const;
  void AddCall(uint32_t input, const SourceCall& call, const Match& match, const GroupTexts& group,
               Add<AlignedCallRow> add) const;

  std::string job_;
  int32_t attempt_ = 0;  // for all rows, where attempts are not told apart
  std::vector<const InputFacts*> inputs_;
  std::vector<const SourceFacts*> facts_;
  JoinedInputs joined_;
  std::optional<MergedClock> clock_;
  std::vector<uint32_t> call_input_;  // by process: the input whose calls are used
  std::vector<uint32_t> step_input_;  // by process: the input whose steps are used
  // By input and call; empty for an input whose calls are not used.
  std::vector<std::vector<Match>> matches_;
  std::vector<MatchedMoment> moments_;  // by the number of the moment
  // By process: from a step number to the offset that is added from that step on.
  std::vector<std::map<int64_t, int64_t>> step_offsets_;
};

}  // namespace proftrace
