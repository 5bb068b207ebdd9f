#include "userspace/merge/work_links.h"

#include <string_view>

namespace proftrace {

bool WorkLinks::MakesWorks(LabelId label) {
  if (Raw(label) >= makes_works_.size()) makes_works_.resize(size_t{Raw(label)} + 1, -1);
  int8_t& makes = makes_works_[Raw(label)];
  if (makes < 0) makes = std::string_view(timeline_->label(label).name).starts_with("c10d::");
  return makes != 0;
}

absl::Status WorkLinks::Add(const Event& event, SpanBuilder* spans) {
  const uint32_t spans_before = timeline_->span_count();
  if (absl::Status status = spans->Add(event); !status.ok()) return status;
  const bool has_row = timeline_->span_count() > spans_before;
  const SpanId row = has_row ? SpanId{timeline_->span_count() - 1} : kNoSpan;
  const Key work(Raw(event.pid), event.value);
  if (has_row && MakesWorks(timeline_->span(row).label)) {
    operators_[{Raw(event.pid), Raw(event.tid)}] = row;
  } else if (event.type == EventType::kWorkTitle) {
    works_.erase(work);
    const auto found = operators_.find({Raw(event.pid), Raw(event.tid)});
    if (found == operators_.end()) return absl::OkStatus();
    const Span& span = timeline_->span(found->second);
    const bool is_open = span.end == SpanEnd::kTruncated && span.duration_ns == 0;
    if (is_open) works_[work] = found->second;
  } else if (event.type == EventType::kGuardBegin && !works_.empty()) {
    const auto made = works_.find(work);
    if (made == works_.end()) return absl::OkStatus();
    const SpanId by = made->second;
    works_.erase(made);
    if (has_row) return timeline_->columns().began_in_plus_1.Set(row, Raw(by) + 1);
  }
  return absl::OkStatus();
}

}  // namespace proftrace
