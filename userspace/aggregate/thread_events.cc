#include "userspace/aggregate/thread_events.h"

#include <string_view>

#include "userspace/model/system_calls.h"

namespace proftrace {
namespace {

// torch/utils/data/dataloader.py, _BaseDataLoaderIter.__next__.
constexpr std::string_view kDataLoaderPrefix = "enumerate(DataLoader)#";

}  // namespace

ThreadEvents::ThreadEvents(const Timeline& timeline) {
  by_thread_.resize(timeline.threads().size());
  for (uint32_t i = 0; i < timeline.system_event_count(); ++i) {
    const SystemEvent& event = timeline.system_event(i);
    if (event.kind != SystemKind::kRequest) by_thread_[Raw(event.thread)].push_back(i);
  }
}

bool IsDataLoaderSpan(const Timeline& timeline, SpanId span) {
  const Label& label = timeline.label(timeline.span(span).label);
  return label.kind == SpanKind::kAnnotation && label.name.starts_with(kDataLoaderPrefix);
}

bool IsInDataLoader(const Timeline& timeline, SpanId span) {
  for (; span != kNoSpan; span = timeline.span(span).parent) {
    if (IsDataLoaderSpan(timeline, span)) return true;
  }
  return false;
}

bool IsIoCall(const SystemEvent& event) {
  if (event.kind != SystemKind::kCall) return false;
  const SystemCallInfo* info = FindSystemCall(event.call.abi, event.call.number);
  return info != nullptr && info->is_io;
}

}  // namespace proftrace
