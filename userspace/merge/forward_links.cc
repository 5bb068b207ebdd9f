#include "userspace/merge/forward_links.h"

namespace proftrace {

void ForwardLinks::SetThreadNumber(Pid pid, Tid tid, uint64_t number) {
  if (number == 0 || number > UINT32_MAX) return;
  tids_[{Raw(pid), static_cast<uint32_t>(number)}] = Raw(tid);
}

uint32_t ForwardLinks::TidOf(uint32_t pid, uint32_t number) const {
  const auto found = tids_.find({pid, number});
  return found == tids_.end() ? 0 : found->second;
}

void ForwardLinks::AddForward(const Key& key, SpanId span) {
  SpanId known = TakeForward(key);
  const auto start_ns = [this](SpanId id) { return timeline_->span(id).start_ns; };
  if (known == kNoSpan || start_ns(span) >= start_ns(known)) known = span;
  if (forwards_.size() >= kMostWaiting / 2) old_forwards_ = std::exchange(forwards_, {});
  forwards_[key] = known;
}

SpanId ForwardLinks::TakeForward(const Key& key) {
  for (auto* forwards : {&forwards_, &old_forwards_}) {
    const auto found = forwards->find(key);
    if (found == forwards->end()) continue;
    const SpanId span = found->second;
    forwards->erase(found);
    return span;
  }
  return kNoSpan;
}

absl::Status ForwardLinks::OnClose(Pid pid, Tid tid, SpanId span) {
  SpanSequence sequence = timeline_->columns().sequence.at(span);
  if (!sequence.is_backward()) {
    AddForward({Raw(pid), Raw(tid), sequence.number_plus_1}, span);
    return absl::OkStatus();
  }
  sequence.forward_tid = TidOf(Raw(pid), sequence.forward_number);
  if (sequence.forward_tid == 0) {
    if (unresolved_.size() < kMostWaiting) {
      unresolved_.push_back({span, Raw(pid), sequence.forward_number});
    }
    return absl::OkStatus();
  }
  const SpanId forward = TakeForward({Raw(pid), sequence.forward_tid, sequence.number_plus_1});
  if (forward != kNoSpan) {
    sequence.forward_plus_1 = Raw(forward) + 1;
    sequence.has_arrow = true;
    // The engine's row around the node's is of the same node.
    const SpanId parent = timeline_->span(span).parent;
    if (parent != kNoSpan) {
      SpanSequence around = timeline_->columns().sequence.at(parent);
      if (around.forward_number == sequence.forward_number &&
          around.number_plus_1 == sequence.number_plus_1) {
        around.forward_plus_1 = sequence.forward_plus_1;
        if (absl::Status status = timeline_->columns().sequence.Set(parent, around); !status.ok()) {
          return status;
        }
      }
    }
  }
  return timeline_->columns().sequence.Set(span, sequence);
}

absl::Status ForwardLinks::Resolve(const Unresolved& row) {
  const uint32_t tid = TidOf(row.pid, row.number);
  if (tid == 0) return absl::OkStatus();
  SpanSequence sequence = timeline_->columns().sequence.at(row.span);
  sequence.forward_tid = tid;
  return timeline_->columns().sequence.Set(row.span, sequence);
}

absl::Status ForwardLinks::OnProcessEnd(Pid pid) {
  absl::Status status;
  for (const Unresolved& row : unresolved_) {
    if (row.pid == Raw(pid)) status.Update(Resolve(row));
  }
  std::erase_if(unresolved_, [pid](const Unresolved& row) { return row.pid == Raw(pid); });
  absl::erase_if(tids_, [pid](const auto& item) { return item.first.first == Raw(pid); });
  for (auto* forwards : {&forwards_, &old_forwards_}) {
    absl::erase_if(*forwards,
                   [pid](const auto& item) { return std::get<0>(item.first) == Raw(pid); });
  }
  return status;
}

absl::Status ForwardLinks::Finish() {
  absl::Status status;
  for (const Unresolved& row : unresolved_) status.Update(Resolve(row));
  return status;
}

}  // namespace proftrace
