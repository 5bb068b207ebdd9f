#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "userspace/aggregate/steps.h"

namespace proftrace {

StepRows::StepRows(const Timeline& timeline, const Steps& steps) {
  for (const ProcessSteps& process : steps.processes) {
    if (process.are_annotated) continue;
    for (const Step& step : process.steps) {
      rows_.push_back({step, process.thread, 0, step.end_ns - step.start_ns});
    }
    for (const ThreadSteps& other : process.others) {
      for (const Step& step : other.steps) {
        rows_.push_back({step, other.thread, 0, step.end_ns - step.start_ns});
      }
    }
  }
  std::stable_sort(rows_.begin(), rows_.end(),
                   [](const Row& a, const Row& b) { return a.step.start_ns < b.step.start_ns; });
  for (Row& row : rows_) {
    uint32_t low = 0;
    uint32_t high = timeline.span_count();
    while (low < high) {
      const uint32_t middle = low + (high - low) / 2;
      if (timeline.span(SpanId{middle}).start_ns < row.step.start_ns) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    row.before_span = low;
  }
  if (rows_.empty()) return;
  rows_of_thread_.resize(timeline.threads().size());
  for (uint32_t i = 0; i < rows_.size(); ++i) rows_of_thread_[Raw(rows_[i].thread)].push_back(i);
  FindParents(timeline);
  FindDeviceAnnotations(timeline);
  const SpanStore& spans = timeline.spans();
  for (uint32_t index = rows_.front().before_span; index < spans.size(); ++index) {
    const Span& span = spans.at(index);
    if (const std::optional<size_t> row = ParentOf(span)) rows_[*row].self_ns -= span.duration_ns;
  }
}

void StepRows::FindDeviceAnnotations(const Timeline& timeline) {
  std::map<std::tuple<uint32_t, uint32_t, uint32_t, uint32_t>, DeviceAnnotation> found;
  const auto around = [&](SpanId span) {
    return span == kNoSpan ? std::nullopt : Around(timeline, timeline.span(span));
  };
  const DeviceActivityStore& activities = timeline.device_activities();
  for (uint32_t i = 0; i < activities.size(); ++i) {
    const DeviceActivity& activity = activities.at(i);
    if (!IsDeviceWork(activity.kind)) continue;
    const std::optional<size_t> step =
        around(activity.call != kNoSpan ? activity.call : activity.op);
    const bool is_steps = step.has_value() && around(activity.annotation) != step;
    if (!is_steps && activity.annotation == kNoSpan) continue;
    DeviceAnnotation whole{kNoSpan,         kNowhere,          activity.pid,     activity.device,
                           activity.stream, activity.start_ns, activity.end_ns()};
    if (is_steps) {
      whole.step = static_cast<uint32_t>(*step);
    } else {
      whole.annotation = activity.annotation;
    }
    const auto [it, inserted] =
        found.try_emplace({whole.step, Raw(whole.annotation), whole.device, whole.stream}, whole);
    it->second.start_ns = std::min(it->second.start_ns, whole.start_ns);
    it->second.end_ns = std::max(it->second.end_ns, whole.end_ns);
  }
  for (const auto& [key, annotation] : found) device_annotations_.push_back(annotation);
  std::stable_sort(device_annotations_.begin(), device_annotations_.end(), ComesBefore);
}

std::string StepRows::NameOf(const Timeline& timeline, const DeviceAnnotation& annotation) const {
  if (annotation.step != kNowhere) {
    return "ProfilerStep#" + std::to_string(rows_[annotation.step].step.number);
  }
  return timeline.label(timeline.span(annotation.annotation).label).name;
}

void StepRows::FindParents(const Timeline& timeline) {
  std::vector<SpanId> last(timeline.threads().size(), kNoSpan);  // that began, by thread
  const SpanStore& spans = timeline.spans();
  uint32_t index = 0;
  for (Row& row : rows_) {
    for (; index < row.before_span; ++index) {
      const Span& span = spans.at(index);
      if (!span.is_apart) last[Raw(span.thread)] = SpanId{index};
    }
    SpanId around = last[Raw(row.thread)];
    while (around != kNoSpan && spans.at(Raw(around)).end_ns() < row.step.end_ns) {
      around = spans.at(Raw(around)).parent;
    }
    row.parent = around;
  }
}

uint64_t StepRows::NumberOf(SpanId span) const {
  if (rows_.empty()) return Raw(span);
  const auto before =
      std::upper_bound(rows_.begin(), rows_.end(), Raw(span),
                       [](uint32_t index, const Row& row) { return index < row.before_span; });
  return Raw(span) + static_cast<uint64_t>(before - rows_.begin());
}

uint64_t StepRows::ExternalId(const Timeline& timeline, const Span& span, uint64_t number) const {
  if (!IsCudaCall(timeline.label(span.label).category)) return number + 1;
  // Kineto uses the innermost row around the call that is no annotation, also for the work that the
  // call asks for.
  SpanId around = span.parent;
  while (around != kNoSpan &&
         timeline.label(timeline.span(around).label).category != Category::kCpuOp) {
    around = timeline.span(around).parent;
  }
  return around == kNoSpan ? 0 : NumberOf(around) + 1;
}

std::optional<size_t> StepRows::At(ThreadIndex thread, int64_t start_ns, int64_t end_ns) const {
  if (Raw(thread) >= rows_of_thread_.size()) return std::nullopt;
  const std::vector<uint32_t>& rows = rows_of_thread_[Raw(thread)];
  const auto behind = std::upper_bound(
      rows.begin(), rows.end(), start_ns,
      [this](int64_t time_ns, uint32_t row) { return time_ns < rows_[row].step.start_ns; });
  if (behind == rows.begin()) return std::nullopt;
  // Steps of one thread do not overlap, so no other step can enclose the time.
  const Step& step = rows_[*(behind - 1)].step;
  if (start_ns >= step.end_ns || end_ns > step.end_ns) return std::nullopt;
  return *(behind - 1);
}

std::optional<size_t> StepRows::ParentOf(const Span& span) const {
  if (span.is_apart) return std::nullopt;
  const std::optional<size_t> row = At(span.thread, span.start_ns, span.end_ns());
  return row.has_value() && rows_[*row].parent == span.parent ? row : std::nullopt;
}

std::optional<size_t> StepRows::Around(const Timeline& timeline, const Span& span) const {
  if (rows_.empty()) return std::nullopt;
  const std::optional<size_t> row = At(span.thread, span.start_ns, span.start_ns);
  if (!row.has_value()) return std::nullopt;
  const Span* at = &span;
  while (at->parent != rows_[*row].parent) {
    if (at->parent == kNoSpan) return std::nullopt;
    at = &timeline.span(at->parent);
    if (at->start_ns < rows_[*row].step.start_ns) return std::nullopt;  // and what is around it
  }
  return ParentOf(*at) == row ? row : std::nullopt;
}

}  // namespace proftrace
