#include "userspace/aggregate/thread_events.h"

#include <string_view>

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

ThreadsByNumber::ThreadsByNumber(const Timeline& timeline) {
  for (uint32_t i = 0; i < timeline.threads().size(); ++i) {
    const Thread& thread = timeline.threads()[i];
    threads_.try_emplace({Raw(thread.pid), Raw(thread.tid)}, ThreadIndex{i});
  }
}

std::optional<ThreadIndex> ThreadsByNumber::Find(Pid pid, Tid tid) const {
  const auto found = threads_.find({Raw(pid), Raw(tid)});
  return found == threads_.end() ? std::nullopt : std::optional(found->second);
}

const SystemEvent* CallAround(const Timeline& timeline, const SystemEvent& event) {
  for (uint32_t at = event.around; at != kNoSystemEvent;) {
    const SystemEvent& around = timeline.system_event(at);
    if (around.kind == SystemKind::kCall) return &around;
    at = around.around;
  }
  return nullptr;
}

DataLoaderRows::DataLoaderRows(const Timeline& timeline)
    : timeline_(timeline), is_of_loader_(timeline.labels().size()) {
  for (size_t i = 0; i < is_of_loader_.size(); ++i) {
    const Label& label = timeline.labels()[i];
    if (label.kind != SpanKind::kAnnotation || !label.name.starts_with(kDataLoaderPrefix)) continue;
    is_of_loader_[i] = true;
    is_empty_ = false;
  }
}

bool DataLoaderRows::IsIn(SpanId span) const {
  if (is_empty_) return false;
  for (; span != kNoSpan; span = timeline_.span(span).parent) {
    if (Has(timeline_.span(span))) return true;
  }
  return false;
}

}  // namespace proftrace
