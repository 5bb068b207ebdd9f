#include "userspace/fleet/fleet_merge.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "exporters/sinks/json_writer.h"
#include "userspace/base/exit_status.h"
#include "userspace/base/midnight.h"
#include "userspace/base/text.h"

namespace proftrace {
namespace {

constexpr std::string_view kCollectivesPid = "collectives";
constexpr std::string_view kGpuBusyPid = "GPU busy";
constexpr std::string_view kPhasesPid = "phases and causes";
constexpr std::string_view kLinkCategory = "collective_wait";
constexpr std::string_view kCollectiveCategory = "collective";
constexpr std::string_view kGpuBusyCategory = "gpu_busy";
constexpr std::string_view kPhaseCategory = "phase";
constexpr std::string_view kCauseCategory = "late_cause";

std::string_view NameOfKind(SourceKind kind) {
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

// Returns what a row tells about its thread; nullopt where the row belongs to no thread, or tells
// nothing. `process`: the PID of the rank, where it is known; rows with another PID are of its
// workers.
std::optional<SeenRow> SeenRowOf(const SourceEvent& event, std::optional<int64_t> process) {
  const int64_t* pid = std::get_if<int64_t>(&event.pid);
  const int64_t* tid = std::get_if<int64_t>(&event.tid);
  if (event.phase != 'X' || pid == nullptr || tid == nullptr || IsGpuWork(event)) {
    return std::nullopt;
  }
  if (event.category == "fault" || event.category == "gpu_user_annotation") return std::nullopt;
  SeenRow row;
  if (event.category == "python_function") {
    row.kind = LateKind::kPython;
  } else if (event.category == "syscall") {
    row.kind = LateKind::kSystemCall;
  } else if (event.category == "sched") {
    row.kind = LateKind::kOffCpu;
  }
  row.is_main = *pid == *tid && *pid == process.value_or(*pid);
  row.pid = *pid;
  row.tid = *tid;
  row.name = event.name;
  return row;
}

}  // namespace

absl::StatusOr<std::unique_ptr<FleetMerge>> FleetMerge::Prepare(
    std::vector<std::unique_ptr<SourceInput>> inputs, const MergeOptions& options) {
  std::unique_ptr<FleetMerge> merge(new FleetMerge(std::move(inputs), options));
  if (absl::Status status = merge->Join(); !status.ok()) return status;
  if (absl::Status status = merge->Survey(); !status.ok()) return status;
  if (absl::Status status = merge->FindWindows(); !status.ok()) return status;
  merge->ChooseMainInputs();
  return merge;
}

absl::Status FleetMerge::Join() {
  for (const auto& input : inputs_) facts_.push_back(&input->facts());
  std::optional<RankPattern> pattern;
  if (!options_.rank_of.empty()) {
    absl::StatusOr<RankPattern> parsed = RankPattern::Parse(options_.rank_of);
    if (!parsed.ok()) return parsed.status();
    pattern = *std::move(parsed);
  }
  absl::StatusOr<JoinedInputs> joined = JoinInputs(facts_, pattern);
  if (!joined.ok()) return joined.status();
  joined_ = *std::move(joined);
  absl::StatusOr<MergedClock> clock = MergedClock::Make(facts_, joined_, options_.clock);
  if (!clock.ok()) return clock.status();
  clock_ = *std::move(clock);
  collectives_.emplace(*clock_, joined_);
  remarks_ = joined_.remarks;
  if (!joined_.missing_ranks.empty()) {
    remarks_.push_back(absl::StrFormat(
        "Of %d ranks %d have no recording here: %s. The last one to enter a collective may be one "
        "of them.",
        *joined_.world_size, joined_.missing_ranks.size(), RankList(joined_.missing_ranks)));
  }
  choice_.is_summary = options_.lanes == MergeLanes::kSummary ||
                       (options_.lanes == MergeLanes::kAuto && ranks() > kMostFullRanks);
  choice_.ranks = options_.ranks;
  choice_.steps = options_.steps;
  choice_.categories = options_.categories;
  return absl::OkStatus();
}

size_t FleetMerge::ranks() const {
  std::set<int32_t> ranks;
  for (const JoinedProcess& process : joined_.processes) {
    if (process.rank) ranks.insert(*process.rank);
  }
  return ranks.size();
}

absl::Status FleetMerge::Survey() {
  std::optional<int64_t> first_ns;
  for (uint32_t input = 0; input < inputs_.size(); ++input) {
    if (facts_[input]->first_ns) {
      const auto time = clock_->Map(input, *facts_[input]->first_ns);
      if (time) first_ns = std::min(first_ns.value_or(time->common_ns), time->common_ns);
    }
    const uint32_t process = joined_.process_of_input[input];
    if (!options_.steps && !collectives_->late_rows().HasWindows(process)) continue;
    if (absl::Status status = SurveyInput(input); !status.ok()) return status;
  }
  first_ns_ = first_ns.value_or(0);
  const auto edge = [&](const std::optional<MergeEdge>& of) -> std::optional<int64_t> {
    if (!of) return std::nullopt;
    return of->is_after_begin ? first_ns_ + of->ns : of->ns;
  };
  choice_.from_ns = edge(options_.from);
  choice_.until_ns = edge(options_.until);
  return absl::OkStatus();
}

absl::Status FleetMerge::SurveyInput(uint32_t input) {
  const uint32_t process = joined_.process_of_input[input];
  return inputs_[input]->ForEachEvent([&](const SourceEvent& event) {
    if (event.phase != 'X' || !event.begin_ns) return absl::OkStatus();
    const auto step = StepOf(event);
    // The row of a step does not count as what the rank was doing.
    auto seen = step ? std::nullopt : SeenRowOf(event, facts_[input]->pid);
    if (!step && !seen) return absl::OkStatus();
    SourceEvent mapped = event;
    if (!MapEvent(input, &mapped)) return absl::OkStatus();
    const int64_t end_ns = *mapped.begin_ns + mapped.duration_ns;
    if (step) step_times_.Add(process, *step, *mapped.begin_ns, end_ns);
    if (seen) {
      seen->begin_ns = *mapped.begin_ns;
      seen->end_ns = end_ns;
      collectives_->late_rows().See(process, *seen);
    }
    return absl::OkStatus();
  });
}

absl::Status FleetMerge::FindWindows() {
  if (options_.steps && step_times_.empty()) {
    return Fail(ExitCode::kUsage,
                "no input has rows of steps (ProfilerStep#N), so --steps finds none; name a "
                "stretch of time with --from and --to");
  }
  bool has_any = false;
  for (uint32_t process = 0; process < joined_.processes.size(); ++process) {
    std::optional<std::pair<int64_t, int64_t>> window(
        std::pair(choice_.from_ns.value_or(INT64_MIN), choice_.until_ns.value_or(INT64_MAX)));
    if (choice_.steps) {
      const auto of_steps =
          step_times_.Window(process, choice_.steps->first, choice_.steps->second);
      if (of_steps) {
        window = {std::max(window->first, of_steps->first),
                  std::min(window->second, of_steps->second)};
      } else {
        window.reset();
      }
    }
    if (!choice_.HasRank(joined_.processes[process].rank)) window.reset();
    has_any = has_any || window;
    windows_.push_back(window);
  }
  if (has_any) return absl::OkStatus();
  return Fail(ExitCode::kUsage, options_.ranks.empty()
                                    ? "no input has the steps of --steps"
                                    : "no input has the ranks of --ranks, or their steps");
}

void FleetMerge::ChooseMainInputs() {
  is_main_.assign(inputs_.size(), false);
  std::map<int32_t, uint32_t> of_rank;
  const auto key = [&](uint32_t input) {
    const JoinedProcess& process = joined_.processes[joined_.process_of_input[input]];
    // A file of torch.profiler is preferred, because HTA knows its format best.
    return std::tuple(process.attempt, facts_[input]->kind == SourceKind::kKineto,
                      facts_[input]->kind == SourceKind::kCapture, facts_[input]->events);
  };
  for (const JoinedProcess& process : joined_.processes) {
    if (!process.rank) continue;
    for (const uint32_t input : process.inputs) {
      const auto [best, is_new] = of_rank.try_emplace(*process.rank, input);
      if (!is_new && key(input) > key(best->second)) best->second = input;
    }
  }
  for (const auto& [rank, input] : of_rank) is_main_[input] = true;
  if (!options_.one_file_a_rank) return;
  std::string left_out;
  for (uint32_t input = 0; input < inputs_.size(); ++input) {
    if (is_main_[input]) continue;
    absl::StrAppend(&left_out, left_out.empty() ? "" : ", ", facts_[input]->path);
  }
  if (left_out.empty()) return;
  remarks_.push_back("A directory has one file a rank; left out: " + left_out + ".");
}

bool FleetMerge::MapEvent(uint32_t input, SourceEvent* event) const {
  if (!event->begin_ns) return true;
  const auto begin = clock_->Map(input, *event->begin_ns);
  if (!begin) return false;
  if (event->duration_ns != 0) {
    // Both ends are mapped, so that a row that lies inside another one stays inside.
    const auto end = clock_->Map(input, *event->begin_ns + event->duration_ns);
    if (!end || end->timeline != begin->timeline) return false;
    event->duration_ns = end->common_ns - begin->common_ns;
  }
  event->begin_ns = begin->common_ns;
  return true;
}

bool FleetMerge::IsInWindow(uint32_t process, int64_t begin_ns, int64_t end_ns) const {
  const auto& window = windows_[process];
  return window && begin_ns < window->second && end_ns >= window->first;
}

MergePart FleetMerge::PartOf(uint32_t number, const uint32_t* input) const {
  const JoinedProcess& process = joined_.processes[number];
  MergePart part;
  part.process = number;
  part.machine = process.boot;
  part.rank = process.rank;
  part.world_size = joined_.world_size;
  if (process.rank) {
    part.label = absl::StrCat("rank ", *process.rank);
    if (process.attempt > 0) absl::StrAppend(&part.label, " attempt ", process.attempt);
  } else {
    part.label = process.pid ? absl::StrCat("PID ", *process.pid) : "job";
  }
  if (input != nullptr && process.inputs.size() > 1) {
    absl::StrAppend(&part.label, " ", std::string(NameOfKind(facts_[*input]->kind)));
  }
  if (!clock_->IsAligned(process.inputs.front())) part.label += " [not aligned]";
  if (!process.host.empty()) part.detail = "host " + process.host;
  if (process.pid && process.rank) {
    absl::StrAppend(&part.detail, part.detail.empty() ? "" : ", ", "PID ", *process.pid);
  }
  if (input != nullptr) {
    part.facts = facts_[*input];
    part.is_main = is_main_[*input];
  }
  return part;
}

absl::Status FleetMerge::Write(MergeWriter& writer) {
  MergeHead head;
  head.base_ns = MidnightBefore(first_ns_);
  head.summary = SummaryJson();
  head.clock = ClockJson();
  head.processes = static_cast<uint32_t>(joined_.processes.size());
  head.machines = static_cast<uint32_t>(joined_.boots.size());
  if (absl::Status status = writer.Begin(head); !status.ok()) return status;
  for (uint32_t process = 0; process < joined_.processes.size(); ++process) {
    busy_.clear();
    phases_ = PhaseTimes();
    for (const uint32_t input : joined_.processes[process].inputs) {
      if (!windows_[process] || (options_.one_file_a_rank && !is_main_[input])) {
        counts_.in += facts_[input]->events;
        counts_.filtered += facts_[input]->events;
        continue;
      }
      if (absl::Status status = WriteInput(process, input, writer); !status.ok()) return status;
    }
    if (!windows_[process] || options_.one_file_a_rank) continue;
    if (absl::Status status = WriteCollectives(process, writer); !status.ok()) return status;
    if (choice_.is_summary) {
      if (absl::Status status = WritePhases(process, writer); !status.ok()) return status;
    }
    if (busy_.empty()) continue;
    if (absl::Status status = WriteBusyGpus(process, writer); !status.ok()) return status;
  }
  return writer.Finish();
}

absl::Status FleetMerge::WriteInput(uint32_t process, uint32_t input, MergeWriter& writer) {
  if (absl::Status status = writer.BeginPart(PartOf(process, &input)); !status.ok()) return status;
  absl::Status status = inputs_[input]->ForEachEvent([&](const SourceEvent& event) {
    ++counts_.in;
    return WriteEvent(process, input, event, writer);
  });
  return status.ok() ? writer.EndPart() : status;
}

absl::Status FleetMerge::WriteEvent(uint32_t process, uint32_t input, const SourceEvent& event,
                                    MergeWriter& writer) {
  SourceEvent mapped = event;
  if (!MapEvent(input, &mapped)) {
    ++counts_.refused;
    return absl::OkStatus();
  }
  if (mapped.begin_ns &&
      !IsInWindow(process, *mapped.begin_ns, *mapped.begin_ns + mapped.duration_ns)) {
    ++counts_.filtered;
    return absl::OkStatus();
  }
  if (choice_.is_summary) phases_.See(mapped);
  if (event.phase != 'M' && !choice_.HasCategory(event.category)) {
    ++counts_.filtered;
    return absl::OkStatus();
  }
  if (choice_.is_summary && !IsInSummary(event)) {
    if (IsGpuWork(mapped) && mapped.begin_ns) {
      busy_[OwnedId(mapped.pid)].Add(*mapped.begin_ns, *mapped.begin_ns + mapped.duration_ns);
    }
    ++counts_.filtered;
    return absl::OkStatus();
  }
  bool is_written = false;
  absl::Status status = writer.Event(mapped, 0, &is_written);
  if (status.ok()) ++(is_written ? counts_.out : counts_.refused);
  return status;
}

absl::Status FleetMerge::AddRow(const SourceEvent& event, uint64_t link, MergeWriter& writer) {
  if (event.phase != 'M' && !choice_.HasCategory(event.category)) return absl::OkStatus();
  bool is_written = false;
  absl::Status status = writer.Event(event, link, &is_written);
  if (status.ok() && is_written) ++counts_.added;
  return status;
}

absl::Status FleetMerge::AddThreadName(std::string_view pid, int64_t tid, const std::string& name,
                                       MergeWriter& writer) {
  SourceEvent event;
  event.phase = 'M';
  event.pid = pid;
  event.tid = tid;
  event.name = "thread_name";
  JsonText json{StringText()};
  json.BeginObject();
  json.Key("name").Word(name);
  json.EndObject();
  const std::string args = json.Done().Take();
  event.args = args;
  return AddRow(event, 0, writer);
}

absl::Status FleetMerge::WriteCollectives(uint32_t process, MergeWriter& writer) {
  MergePart part = PartOf(process, nullptr);
  // Perfetto's reader (v52) draws arrows within one machine only.
  part.machine = 0;
  if (absl::Status status = writer.BeginPart(part); !status.ok()) return status;
  absl::Status status;
  std::set<uint32_t> lanes;
  collectives_->ForEachRow(
      process,
      [&](const CollectiveRow& row) {
        if (!status.ok() || !IsInWindow(process, row.begin_ns, row.end_ns)) return;
        const int64_t lane = int64_t{row.lane} + 1;
        if (lanes.insert(row.lane).second) {
          status = AddThreadName(kCollectivesPid, lane, absl::StrCat("lane ", lane), writer);
        }
        SourceEvent event;
        event.category = kCollectiveCategory;
        event.name = row.name;
        event.pid = kCollectivesPid;
        event.tid = lane;
        event.begin_ns = row.begin_ns;
        event.duration_ns = row.end_ns - row.begin_ns;
        event.args = row.args;
        status.Update(AddRow(event, 0, writer));
      },
      [&](const CollectiveArrow& arrow) {
        if (!status.ok() || !IsInWindow(process, arrow.time_ns, arrow.time_ns)) return;
        SourceEvent event;
        event.phase = arrow.is_start ? 's' : 'f';
        event.category = kLinkCategory;
        event.name = kLinkCategory;
        event.pid = kCollectivesPid;
        event.tid = int64_t{arrow.lane} + 1;
        event.begin_ns = arrow.time_ns;
        event.id = static_cast<int64_t>(arrow.id);
        if (!arrow.is_start) event.others = R"("bp": "e")";
        status.Update(AddRow(event, arrow.id, writer));
      });
  return status.ok() ? writer.EndPart() : status;
}

absl::Status FleetMerge::WriteBusyGpus(uint32_t process, MergeWriter& writer) {
  if (absl::Status status = writer.BeginPart(PartOf(process, nullptr)); !status.ok()) return status;
  int64_t number = 0;
  for (auto& [gpu, busy] : busy_) {
    ++number;
    const std::string name = "GPU " + (gpu.text.empty() ? std::to_string(gpu.number) : gpu.text);
    absl::Status status = AddThreadName(kGpuBusyPid, number, name, writer);
    for (const auto& [begin_ns, end_ns] : busy.Take()) {
      SourceEvent event;
      event.category = kGpuBusyCategory;
      event.name = "busy";
      event.pid = kGpuBusyPid;
      event.tid = number;
      event.begin_ns = begin_ns;
      event.duration_ns = end_ns - begin_ns;
      status.Update(AddRow(event, 0, writer));
      if (!status.ok()) return status;
    }
  }
  return writer.EndPart();
}

absl::Status FleetMerge::WritePhases(uint32_t process, MergeWriter& writer) {
  if (absl::Status status = writer.BeginPart(PartOf(process, nullptr)); !status.ok()) return status;
  constexpr int64_t kPhasesTid = 1;
  SourceEvent event;
  event.pid = kPhasesPid;
  event.tid = kPhasesTid;
  event.category = kPhaseCategory;
  absl::Status status;
  bool is_named = false;
  for (const PhaseStretch& stretch : phases_.Take()) {
    if (!is_named) status = AddThreadName(kPhasesPid, kPhasesTid, "phases", writer);
    is_named = true;
    event.name = PhaseName(stretch.phase);
    event.begin_ns = stretch.begin_ns;
    event.duration_ns = stretch.end_ns - stretch.begin_ns;
    status.Update(AddRow(event, 0, writer));
    if (!status.ok()) return status;
  }
  std::set<uint32_t> lanes;
  event.category = kCauseCategory;
  collectives_->ForEachCause(process, [&](const CollectiveRow& row) {
    if (!status.ok() || !IsInWindow(process, row.begin_ns, row.end_ns)) return;
    const int64_t lane = kPhasesTid + 1 + row.lane;
    if (lanes.insert(row.lane).second) {
      status = AddThreadName(kPhasesPid, lane, "why it was late", writer);
    }
    event.tid = lane;
    event.name = row.name;
    event.begin_ns = row.begin_ns;
    event.duration_ns = row.end_ns - row.begin_ns;
    event.args = row.args;
    status.Update(AddRow(event, 0, writer));
  });
  return status.ok() ? writer.EndPart() : status;
}

}  // namespace proftrace
