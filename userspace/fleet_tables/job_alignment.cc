#include "userspace/fleet_tables/job_alignment.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"

namespace proftrace {
namespace {

std::string_view NameOfSource(SourceKind kind) {
  switch (kind) {
    case SourceKind::kCapture:
      return "proftrace";
    case SourceKind::kKineto:
      return "torch.profiler";
    case SourceKind::kDftracer:
      return "DFTracer";
    case SourceKind::kNsight:
      return "Nsight Systems";
  }
  return "";
}

std::optional<int64_t> BoundOf(const CommonTime& time) {
  return MergedClock::IsProved(time) ? std::optional(time.bound_ns()) : std::nullopt;
}

std::optional<int64_t> LikelyErrorOf(const CommonTime& time) {
  return MergedClock::IsProved(time) ? std::optional(time.likely_error_ns) : std::nullopt;
}

}  // namespace

absl::StatusOr<std::unique_ptr<JobAlignment>> JobAlignment::Make(
    const std::string& name, std::vector<const InputFacts*> inputs,
    const MergedClockOptions& options) {
  std::unique_ptr<JobAlignment> job(new JobAlignment(name, std::move(inputs)));
  for (const InputFacts* input : job->inputs_) job->facts_.push_back(&input->source);
  absl::StatusOr<JoinedInputs> joined = JoinInputs(job->facts_, std::nullopt);
  if (!joined.ok()) return joined.status();
  job->joined_ = *std::move(joined);
  absl::StatusOr<MergedClock> clock = MergedClock::Make(job->facts_, job->joined_, options);
  if (!clock.ok()) return clock.status();
  job->clock_ = *std::move(clock);
  job->ChooseInputs();
  job->FindMatches();
  job->FindSteps();
  return job;
}

void JobAlignment::ChooseInputs() {
  // The highest attempt counts, because each host counts restarts by itself and may have another
  // number for the same attempt.
  for (const JoinedProcess& process : joined_.processes) {
    attempt_ = std::max(attempt_, process.attempt);
  }
  for (const JoinedProcess& process : joined_.processes) {
    uint32_t calls = process.inputs.front();
    uint32_t steps = process.inputs.front();
    for (const uint32_t input : process.inputs) {
      if (facts_[calls]->calls.empty()) calls = input;
      if (inputs_[steps]->steps.empty()) steps = input;
    }
    call_input_.push_back(calls);
    step_input_.push_back(steps);
  }
  for (uint32_t rank = 0; rank < clock_->fleet().ranks.size(); ++rank) {
    call_input_[clock_->ProcessOf(rank)] = clock_->InputOf(rank);
  }
}

void JobAlignment::FindMatches() {
  matches_.resize(inputs_.size());
  for (uint32_t rank = 0; rank < clock_->fleet().ranks.size(); ++rank) {
    const uint32_t input = clock_->InputOf(rank);
    matches_[input].resize(facts_[input]->calls.size());
  }
  const FleetMoments& moments = clock_->moments();
  moments_.resize(moments.moments.size());
  for (uint32_t number = 0; number < moments.moments.size(); ++number) {
    const FleetMoment& moment = moments.moments[number];
    if (moment.source == FleetMoment::Source::kStream) continue;
    const std::optional<CollectiveTimes> times = clock_->TimesOf(number);
    if (!times) continue;
    const std::span<const MomentRow> rows = moments.Rows(number);
    for (size_t i = 0; i < times->ranks.size(); ++i) {
      if (rows[i].is_left_out) continue;
      Match& match = matches_[clock_->InputOf(rows[i].rank)][rows[i].call];
      match.moment = number;
      match.begin_ns = times->ranks[i].entered_ns;
      match.end_ns = times->ranks[i].left_ns;
      if (times->compared > 1) match.wait_ns = times->ranks[i].wait_ns;
    }
    MatchedMoment& matched = moments_[number];
    if (times->compared > 1) matched.transfer_ns = std::max<int64_t>(0, times->transfer_ns);
    const bool is_one_boot = joined_.boots.size() == 1;
    const bool is_proved = clock_->solved() != nullptr && times->bound_ns < INT64_MAX / 8;
    if (!is_proved && !is_one_boot) continue;
    matched.bound_ns = is_one_boot ? 0 : times->bound_ns;
    matched.estimate_error_ns = is_one_boot ? 0 : times->likely_error_ns;
  }
}

std::optional<CommonTime> JobAlignment::MapTable(uint32_t input, int64_t table_ns) const {
  return clock_->Map(input, table_ns - inputs_[input]->unix_offset_ns);
}

std::optional<int64_t> JobAlignment::StepOfCall(uint32_t input, const SourceCall& call) const {
  const uint32_t process = joined_.process_of_input[input];
  const InputFacts& steps = *inputs_[step_input_[process]];
  return StepAt(steps.steps, call.call.entered_ns + inputs_[input]->unix_offset_ns);
}

// Finds the offsets of step numbers, separately for each window of a series or for each whole
// input: between two windows, a different number of steps may be missing on each rank.
void JobAlignment::FindSteps() {
  std::map<int64_t, std::vector<WindowSteps>> by_window;
  for (uint32_t process = 0; process < joined_.processes.size(); ++process) {
    for (WindowSteps& window : WindowsOf(process)) {
      by_window[window.window_end_s].push_back(std::move(window));
    }
  }
  step_offsets_.resize(joined_.processes.size());
  for (auto& [end_s, windows] : by_window) {
    std::vector<RankSteps> ranks;
    for (WindowSteps& window : windows) ranks.push_back(std::move(window.steps));
    const std::vector<int64_t> offsets = CommonStepOffsets(ranks);
    for (size_t i = 0; i < windows.size(); ++i) {
      step_offsets_[windows[i].process][windows[i].first_step] = offsets[i];
    }
  }
}

int64_t JobAlignment::StepOffsetOf(uint32_t process, int64_t local_step) const {
  const std::map<int64_t, int64_t>& offsets = step_offsets_[process];
  const auto after = offsets.upper_bound(local_step);
  return after == offsets.begin() ? 0 : std::prev(after)->second;
}

std::vector<JobAlignment::WindowSteps> JobAlignment::WindowsOf(uint32_t process) const {
  const uint32_t input = step_input_[process];
  std::vector<WindowSteps> windows;
  for (const InputFacts::Segment& segment : inputs_[input]->segments) {
    windows.push_back({process, segment.first_step, segment.window_end_s, {}});
  }
  if (windows.empty()) windows.push_back({process, INT64_MIN, 0, {}});
  const auto window_at = [&windows](int64_t step) -> RankSteps& {
    const auto after = std::upper_bound(
        windows.begin(), windows.end(), step,
        [](int64_t number, const WindowSteps& window) { return number < window.first_step; });
    return (after == windows.begin() ? after : std::prev(after))->steps;
  };
  for (const StepRow& step : inputs_[input]->steps) {
    if (!step.is_main) continue;
    const auto start = MapTable(input, step.start_ns);
    const auto end = MapTable(input, step.start_ns + step.duration_ns);
    if (start && end) {
      window_at(step.step).steps.push_back({step.step, start->common_ns, end->common_ns});
    }
  }
  const uint32_t with_calls = call_input_[process];
  const std::vector<Match>& matches = matches_[with_calls];
  for (size_t i = 0; i < matches.size(); ++i) {
    if (!matches[i].is_matched()) continue;
    const auto step = StepOfCall(with_calls, facts_[with_calls]->calls[i]);
    if (step) window_at(*step).meetings.push_back({matches[i].moment, *step});
  }
  return windows;
}

RowKeys JobAlignment::KeysOf(uint32_t input) const {
  const JoinedProcess& process = joined_.processes[joined_.process_of_input[input]];
  RowKeys keys;
  keys.job = NameOfJob();
  keys.attempt = clock_->attempts_are_apart() ? process.attempt : attempt_;
  keys.host = process.host;
  if (process.rank) keys.rank = *process.rank;
  keys.input = inputs_[input]->id;
  return keys;
}

std::string_view JobAlignment::MethodOf(bool is_aligned) const {
  if (!is_aligned) return "not aligned";
  if (joined_.boots.size() == 1) return "one boot";
  return clock_->solved() != nullptr ? "collectives" : NameOf(clock_->statement().mode);
}

void JobAlignment::ForEachCapture(Add<FleetCaptureRow> add) const {
  for (uint32_t input = 0; input < inputs_.size(); ++input) {
    const InputFacts& facts = *inputs_[input];
    const SourceFacts& source = facts.source;
    const uint32_t process = joined_.process_of_input[input];
    FleetCaptureRow row;
    row.source = NameOfSource(source.kind);
    row.is_main = input == step_input_[process];
    row.path = source.path;
    row.bytes = static_cast<int64_t>(facts.bytes);
    row.boot_id = joined_.BootOf(input).boot.boot_id;
    row.kernel = facts.kernel;
    row.cpus = facts.cpus;
    row.gpu = facts.gpu;
    row.pid = source.pid;
    if (source.world_size) row.world_size = *source.world_size;
    if (source.local_rank) row.local_rank = *source.local_rank;
    row.torch_version = facts.torch_version;
    row.cuda_version = facts.cuda_version;
    row.proftrace_version = facts.proftrace_version;
    row.clock_method = MethodOf(clock_->IsAligned(input));
    SetTimes(input, &row);
    row.events = static_cast<int64_t>(source.events);
    row.lost = facts.lost;
    row.resolution_ns = source.resolution_ns;
    if (facts.overhead_percent) row.overhead_percent = Decimal{*facts.overhead_percent, 3};
    row.steps = std::count_if(facts.steps.begin(), facts.steps.end(),
                              [](const StepRow& step) { return step.is_main; });
    if (row.steps > 0) {
      row.step_confidence = facts.steps.front().confidence;
      row.step_offset = StepOffsetOf(process, facts.steps.front().step);
    }
    row.unsupported = facts.unsupported;
    for (const std::string& remark : source.remarks) {
      absl::StrAppend(&row.remarks, row.remarks.empty() ? "" : "; ", remark);
    }
    add(KeysOf(input), row);
  }
}

void JobAlignment::SetTimes(uint32_t input, FleetCaptureRow* row) const {
  const SourceFacts& source = *facts_[input];
  if (!source.first_ns || !source.last_ns) return;
  const int64_t unix_offset_ns = inputs_[input]->unix_offset_ns;
  const auto start = clock_->Map(input, *source.first_ns);
  const auto end = clock_->Map(input, *source.last_ns);
  row->local_start_ns = *source.first_ns + unix_offset_ns;
  if (!start || !end) return;
  row->start_ns = start->common_ns;
  row->end_ns = end->common_ns;
  row->offset_ns = start->common_ns - *row->local_start_ns;
  const int64_t length_ns = *source.last_ns - *source.first_ns;
  const int64_t grown_ns = (end->common_ns - start->common_ns) - length_ns;
  if (length_ns > 0) {
    row->drift_ppb =
        static_cast<int64_t>(static_cast<double>(grown_ns) * 1e9 / static_cast<double>(length_ns));
  }
  row->timeline = start->timeline;
  // On a timeline of its own, an input would be its own reference, and the bound 0.
  const bool is_aligned = start->timeline == 0 && end->timeline == 0;
  if (is_aligned && BoundOf(*start) && BoundOf(*end)) {
    row->bound_ns = std::max(*BoundOf(*start), *BoundOf(*end));
    row->estimate_error_ns = std::max(start->likely_error_ns, end->likely_error_ns);
  }
}

void JobAlignment::ForEachKnot(Add<ClockKnotRow> add) const {
  for (uint32_t boot = 0; boot < joined_.boots.size(); ++boot) {
    AddKnots(boot, joined_.boots[boot].boot, add);
  }
}

void JobAlignment::AddKnots(uint32_t boot, const FleetBoot& of, Add<ClockKnotRow> add) const {
  std::vector<int64_t> times_ns;
  bool is_aligned = true;
  for (uint32_t input = 0; input < inputs_.size(); ++input) {
    if (joined_.processes[joined_.process_of_input[input]].boot != boot) continue;
    is_aligned = is_aligned && clock_->IsAligned(input);
    for (const auto& ns : {facts_[input]->first_ns, facts_[input]->last_ns}) {
      if (ns) times_ns.push_back(joined_.ToLocal(input, *facts_[input], *ns));
    }
  }
  bool is_reference = joined_.boots.size() == 1;
  if (const FleetClock* solved = clock_->solved(); solved != nullptr) {
    const PieceTable& table = solved->pieces();
    is_reference = solved->timelines().front().reference_boot == boot;
    for (uint32_t at = table.first_pieces[boot]; at < table.first_pieces[boot + 1]; ++at) {
      const ClockPiece& piece = table.pieces[at];
      times_ns.push_back(piece.from_ns);
      times_ns.push_back(piece.to_ns);
      for (size_t knot = 0; knot < piece.value_ns.size(); ++knot) {
        times_ns.push_back(piece.from_ns + piece.KnotAt(knot));
      }
    }
  }
  std::sort(times_ns.begin(), times_ns.end());
  times_ns.erase(std::unique(times_ns.begin(), times_ns.end()), times_ns.end());
  for (const int64_t local_ns : times_ns) {
    const auto time = clock_->MapLocal(boot, local_ns);
    if (!time) continue;
    ClockKnotRow row;
    row.boot_id = of.boot_id;
    row.is_reference = is_reference;
    row.timeline = time->timeline;
    row.local_ns = local_ns;
    row.offset_ns = time->common_ns - local_ns;
    if (time->timeline == 0 && MergedClock::IsProved(*time)) {
      row.low_ns = time->low_ns - local_ns;
      row.high_ns = time->high_ns - local_ns;
      row.estimate_error_ns = time->likely_error_ns;
    }
    row.method = MethodOf(is_aligned);
    RowKeys keys;
    keys.job = NameOfJob();
    keys.attempt = attempt_;
    keys.host = of.host;
    add(keys, row);
  }
}

void JobAlignment::ForEachStep(Add<AlignedStepRow> add) const {
  for (uint32_t process = 0; process < joined_.processes.size(); ++process) {
    // Waiting and transfer times of the process's collectives, by its own step numbers.
    std::map<int64_t, std::pair<int64_t, int64_t>> comm;
    const uint32_t with_calls = call_input_[process];
    const std::vector<Match>& matches = matches_[with_calls];
    for (size_t i = 0; i < matches.size(); ++i) {
      if (!matches[i].is_matched()) continue;
      const auto step = StepOfCall(with_calls, facts_[with_calls]->calls[i]);
      if (!step) continue;
      comm[*step].first += matches[i].wait_ns;
      comm[*step].second += moments_[matches[i].moment].transfer_ns;
    }
    const uint32_t input = step_input_[process];
    const RowKeys keys = KeysOf(input);
    for (const StepRow& step : inputs_[input]->steps) {
      const auto start = MapTable(input, step.start_ns);
      const auto end = MapTable(input, step.start_ns + step.duration_ns);
      if (!start || !end) continue;
      AlignedStepRow row;
      row.row = step;
      row.row.start_ns = start->common_ns;
      row.local_step = step.step;
      row.row.step = step.step + StepOffsetOf(process, step.step);
      row.end_ns = end->common_ns;
      row.bound_ns = BoundOf(*start);
      row.estimate_error_ns = LikelyErrorOf(*start);
      row.timeline = start->timeline;
      if (const auto at = comm.find(step.step); step.is_main && at != comm.end()) {
        row.comm_wait_ns = at->second.first;
        row.comm_transfer_ns = at->second.second;
      }
      add(keys, row);
    }
  }
}

void JobAlignment::ForEachCall(Add<AlignedCallRow> add) const {
  for (const uint32_t input : call_input_) {
    const SourceFacts& source = *facts_[input];
    std::vector<GroupTexts> groups;
    for (size_t i = 0; i < source.groups.size(); ++i) {
      std::optional<int32_t> attempt;
      if (clock_->attempts_are_apart()) {
        attempt = joined_.processes[joined_.process_of_input[input]].attempt;
      }
      groups.push_back(TextsOfGroup(source.groups[i], source.group_descriptions[i], attempt));
    }
    for (size_t i = 0; i < source.calls.size(); ++i) {
      const SourceCall& call = source.calls[i];
      AddCall(input, call, i < matches_[input].size() ? matches_[input][i] : Match(),
              groups[call.call.group], add);
    }
    for (const SourceCall& call : source.calls_without_group) {
      AddCall(input, call, Match(), GroupTexts(), add);
    }
  }
}

void JobAlignment::AddCall(uint32_t input, const SourceCall& call, const Match& match,
                           const GroupTexts& group, Add<AlignedCallRow> add) const {
  const InputFacts& facts = *inputs_[input];
  AlignedCallRow row;
  row.row = RowOfCall(call, group, 0);
  if (facts.source.pid && *facts.source.pid >= 0 && *facts.source.pid <= UINT32_MAX) {
    row.row.pid = static_cast<uint32_t>(*facts.source.pid);
  }
  const auto begin = clock_->Map(input, call.call.entered_ns);
  const auto end = clock_->Map(input, call.call.left_ns);
  if (!begin || !end) return;
  row.row.begin_ns = match.is_matched() ? match.begin_ns : begin->common_ns;
  row.row.end_ns = match.is_matched() ? match.end_ns : end->common_ns;
  if (call.launch_ns) {
    const auto launch = clock_->Map(input, *call.launch_ns);
    row.row.launch_ns = launch ? std::optional(launch->common_ns) : std::nullopt;
  }
  row.match = "none";
  if (match.is_matched()) {
    const FleetMoment& moment = clock_->moments().moments[match.moment];
    row.match = moment.match == FleetMoment::Match::kOrder ? "order" : "seq";
    row.row.seq = moment.sequence;
    row.bound_ns = moments_[match.moment].bound_ns;
    row.estimate_error_ns = moments_[match.moment].estimate_error_ns;
  }
  row.timeline = begin->timeline;
  const uint32_t process = joined_.process_of_input[input];
  if (const auto step = StepOfCall(input, call)) {
    row.row.step = *step + StepOffsetOf(process, *step);
  }
  add(KeysOf(input), row);
}

}  // namespace proftrace
