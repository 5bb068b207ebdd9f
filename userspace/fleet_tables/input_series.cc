#include "userspace/fleet_tables/input_series.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "userspace/base/median.h"

namespace proftrace {
namespace {

// The overlap that two consecutive windows may seem to have, because different clock readings were
// used for cutting and for reading.
constexpr int64_t kOverlapNs = 1'000'000;

class SeriesJoiner {
 public:
  explicit SeriesJoiner(std::vector<std::unique_ptr<InputFacts>> windows)
      : windows_(std::move(windows)) {
    std::stable_sort(windows_.begin(), windows_.end(), [](const auto& a, const auto& b) {
      return a->source.first_ns.value_or(0) < b->source.first_ns.value_or(0);
    });
  }

  std::unique_ptr<InputFacts> Join() && {
    usual_step_ns_ = UsualStepNs();
    std::unique_ptr<InputFacts> whole = std::move(windows_.front());
    // Steps and calls of the first window are taken out, and added like those of the others.
    steps_ = std::exchange(whole->steps, {});
    std::vector<SourceCall> calls = std::exchange(whole->source.calls, {});
    AddSteps(std::exchange(steps_, {}), 0, *whole->window_end_s);
    AddCalls(std::move(calls), whole->source, whole.get());
    size_t left_out = 0;
    for (size_t i = 1; i < windows_.size(); ++i) {
      if (*windows_[i]->source.first_ns + kOverlapNs < *whole->source.last_ns) {
        ++left_out;
        continue;
      }
      Add(*windows_[i], whole.get());
      windows_[i].reset();
    }
    whole->steps = std::move(steps_);
    whole->steps.insert(whole->steps.end(), others_.begin(), others_.end());
    whole->segments = std::move(segments_);
    if (left_out > 0) {
      whole->source.remarks.push_back(absl::StrCat(
          left_out, " summaries of a time that another one has are left out: several recorders"));
    }
    return whole;
  }

 private:
  int64_t UsualStepNs() const {
    std::vector<int64_t> lengths_ns;
    for (const auto& window : windows_) {
      for (const StepRow& step : window->steps) {
        if (step.is_main) lengths_ns.push_back(step.duration_ns);
      }
    }
    return lengths_ns.empty() ? 1 : std::max<int64_t>(1, Median(std::move(lengths_ns)));
  }

  void Add(InputFacts& window, InputFacts* whole) {
    SourceFacts& source = whole->source;
    AddSteps(std::move(window.steps), whole->unix_offset_ns - window.unix_offset_ns,
             *window.window_end_s);
    AddCalls(std::move(window.source.calls), window.source, whole);
    // Calls without a group are never matched, so that they need no mark of a gap.
    auto& alone = window.source.calls_without_group;
    source.calls_without_group.insert(source.calls_without_group.end(), alone.begin(), alone.end());
    for (const ClockSnapshot& snapshot : window.source.snapshots) {
      if (source.snapshots.empty() ||
          source.snapshots.back().monotonic_ns < snapshot.monotonic_ns) {
        source.snapshots.push_back(snapshot);
      }
    }
    source.last_ns = window.source.last_ns;
    source.events += window.source.events;
    whole->bytes += window.bytes;
    if (window.lost) whole->lost = whole->lost.value_or(0) + *window.lost;
    if (window.overhead_percent) whole->overhead_percent = window.overhead_percent;
    for (const std::string& remark : window.source.remarks) {
      if (std::find(source.remarks.begin(), source.remarks.end(), remark) == source.remarks.end()) {
        source.remarks.push_back(remark);
      }
    }
  }

  // Adds a window's steps. `shift_ns` is added to their times, so that they are by the first
  // window's wall clock.
  void AddSteps(std::vector<StepRow> steps, int64_t shift_ns, int64_t window_end_s) {
    bool is_first = true;
    for (StepRow& step : steps) {
      step.start_ns += shift_ns;
      if (!step.is_main) {
        others_.push_back(step);
        continue;
      }
      if (is_first && !steps_.empty()) {
        const StepRow& before = steps_.back();
        const int64_t gap_ns = step.start_ns - before.start_ns - before.duration_ns;
        next_step_ = before.step + 1 + (gap_ns + usual_step_ns_ / 2) / usual_step_ns_;
        first_of_window_ = step.step;
      } else if (is_first) {
        first_of_window_ = step.step;
      }
      step.step = next_step_ + (step.step - first_of_window_);
      if (is_first) segments_.push_back({step.step, window_end_s});
      is_first = false;
      steps_.push_back(step);
    }
  }

  void AddCalls(std::vector<SourceCall> calls, const SourceFacts& of, InputFacts* whole) {
    SourceFacts& source = whole->source;
    std::vector<uint32_t> numbers;
    for (size_t i = 0; i < of.groups.size(); ++i) {
      const FleetGroup& group = of.groups[i];
      size_t at = 0;
      while (at < source.groups.size() &&
             (source.groups[at].name != group.name || source.groups[at].ranks != group.ranks)) {
        ++at;
      }
      if (at == source.groups.size()) {
        source.groups.push_back(group);
        source.group_descriptions.push_back(of.group_descriptions[i]);
      }
      numbers.push_back(static_cast<uint32_t>(at));
    }
    std::set<uint32_t> begun;
    const bool is_first = source.calls.empty();
    for (SourceCall& call : calls) {
      call.call.group = numbers[call.call.group];
      if (begun.insert(call.call.group).second && !is_first) call.call.is_after_loss = true;
      source.calls.push_back(std::move(call));
    }
  }

  std::vector<std::unique_ptr<InputFacts>> windows_;
  std::vector<StepRow> steps_;  // of the thread that drives the job
  std::vector<StepRow> others_;
  std::vector<InputFacts::Segment> segments_;
  int64_t usual_step_ns_ = 1;
  int64_t next_step_ = 0;
  int64_t first_of_window_ = 0;
};

}  // namespace

std::vector<std::unique_ptr<InputFacts>> JoinSeries(
    std::vector<std::unique_ptr<InputFacts>> inputs) {
  std::map<std::string, std::vector<std::unique_ptr<InputFacts>>> series;
  std::vector<std::unique_ptr<InputFacts>> joined;
  for (auto& input : inputs) {
    const bool is_window = input->window_end_s && input->source.first_ns && input->source.last_ns;
    if (is_window) {
      series[input->id].push_back(std::move(input));
    } else {
      joined.push_back(std::move(input));
    }
  }
  for (auto& [id, windows] : series) joined.push_back(SeriesJoiner(std::move(windows)).Join());
  return joined;
}

}  // namespace proftrace
