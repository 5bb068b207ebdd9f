// Adds the report's steps: how long each took, and for which reasons.
#include <absl/strings/str_format.h>

#include <algorithm>

#include "exporters/report/report_data.h"
#include "userspace/why/case.h"

namespace proftrace {
namespace {

constexpr size_t kMostBars = 10'000;

// Returns how many steps share one bar.
size_t StepsABar(size_t steps) { return (steps + kMostBars - 1) / kMostBars; }

void AddBars(const StepParts& parts, size_t steps_a_bar, ReportData* data) {
  const size_t count = parts.intervals.size();
  std::vector<int64_t> start;
  std::vector<int64_t> end;
  std::vector<std::vector<int64_t>> by_part(kStepParts);
  for (size_t first = 0; first < count; first += steps_a_bar) {
    const size_t last = std::min(count, first + steps_a_bar) - 1;
    start.push_back(data->Since(parts.intervals[first].first));
    end.push_back(data->Since(parts.intervals[last].second));
    for (size_t part = 0; part < kStepParts; ++part) {
      int64_t ns = 0;
      for (size_t step = first; step <= last; ++step) ns += parts.by_step[step][part];
      by_part[part].push_back(ns / static_cast<int64_t>(last - first + 1));
    }
  }
  data->columns.Add("steps.start", start, Packing::kDeltas);
  data->columns.Add("steps.end", end, Packing::kDeltas);
  for (size_t part = 0; part < kStepParts; ++part) {
    const bool is_there =
        std::any_of(by_part[part].begin(), by_part[part].end(), [](int64_t ns) { return ns != 0; });
    if (is_there) data->columns.Add(absl::StrFormat("steps.part%d", part), by_part[part]);
  }
}

}  // namespace

void AddStepsTo(ReportData* data) {
  OrderedJson& steps = data->facts["steps"];
  OrderedJson names = OrderedJson::array();
  OrderedJson texts = OrderedJson::array();
  for (size_t part = 0; part < kStepParts; ++part) {
    names.push_back(StepPartName(static_cast<StepPart>(part)));
    texts.push_back(StepPartText(static_cast<StepPart>(part)));
  }
  steps["parts"] = std::move(names);
  steps["part_texts"] = std::move(texts);
  steps["are_steps"] = false;
  steps["count"] = 0;
  if (!data->parts.has_value()) return;
  const StepParts& parts = *data->parts;
  const size_t count = parts.intervals.size();
  const Thread& thread = data->timeline.thread(parts.thread);
  const size_t steps_a_bar = StepsABar(count);
  steps["are_steps"] = parts.are_steps;
  steps["count"] = count;
  steps["steps_a_bar"] = steps_a_bar;
  steps["has_kernel"] = parts.has_kernel;
  steps["pid"] = Raw(thread.pid);
  steps["tid"] = Raw(thread.tid);
  steps["total_ns"] = parts.total_ns;
  OrderedJson sums = OrderedJson::array();
  for (const int64_t ns : parts.sum) sums.push_back(ns);
  steps["sum_ns"] = std::move(sums);
  AddBars(parts, steps_a_bar, data);
  if (!parts.are_steps) return;
  const ProcessSteps& process = data->aggregates.steps.processes[*data->aggregates.steps.main];
  steps["median_ns"] = process.median_ns;
  steps["p99_ns"] = process.p99_ns;
  steps["first_number"] = process.steps.front().number;
  std::vector<int64_t> windows(data->windows.steps.begin(), data->windows.steps.end());
  data->columns.Add("windows.step", windows, Packing::kDeltas);
  std::vector<int64_t> start;
  std::vector<int64_t> end;
  for (const auto& [start_ns, end_ns] : data->windows.intervals) {
    start.push_back(data->Since(start_ns));
    end.push_back(data->Since(end_ns));
  }
  data->columns.Add("windows.start", start, Packing::kDeltas);
  data->columns.Add("windows.end", end, Packing::kDeltas);
  if (steps_a_bar > 1) {
    data->left_out.push_back(absl::StrFormat(
        "Steps: %d are shown as bars of %d steps, each bar their mean.", count, steps_a_bar));
  }
  if (windows.size() < count) {
    data->left_out.push_back(
        absl::StrFormat("Steps: %d of %d have tables of their own: the slowest, the most usual, "
                        "the first and others "
                        "at equal distances. Shorter bars lead to the nearest of them.",
                        windows.size(), count));
  }
}

}  // namespace proftrace
