#include "userspace/merge/forward_links.h"

namespace proftrace {

void ForwardLinks::SetThreadNumber(Pid pid, Tid tid, uint64_t number) {
  if (number == 0 || number > UINT32_MAX) return;
  processes_[Raw(pid)].tids[static_cast<uint32_t>(number)] = Raw(tid);
}

uint32_t ForwardLinks::Process::TidOf(uint32_t number) const {
  const auto found = tids.find(number);
  return found == tids.end() ? 0 : found->second;
}

void ForwardLinks::AddForward(const Key& key, SpanId span, Process* process) {
  SpanId known = TakeForward(key, process);
  const auto start_ns = [this](SpanId id) { return timeline_->span(id).start_ns; };
  if (known == kNoSpan || start_ns(span) >= start_ns(known)) known = span;
  if (forward_count_ >= kMostWaiting / 2) {
    for (auto& [pid, one] : processes_) one.old_forwards = std::exchange(one.forwards, {});
    forward_count_ = 0;
  }
  process->forwards[key] = known;
  ++forward_count_;
}

SpanId ForwardLinks::TakeForward(const Key& key, Process* process) {
  for (auto* forwards : {&process->forwards, &process->old_forwards}) {
    const auto found = forwards->find(key);
    if (found == forwards->end()) continue;
    const SpanId span = found->second;
    forwards->erase(found);
    if (forwards == &process->forwards) --forward_count_;
    return span;
  }
  return kNoSpan;
}

absl::Status ForwardLinks::OnClose(Pid pid, Tid tid, SpanId span) {
  SpanSequence sequence = timeline_->columns().sequence.at(span);
  Process& process = processes_[Raw(pid)];
  if (!sequence.is_backward()) {
    AddForward({Raw(tid), sequence.number_plus_1}, span, &process);
    return absl::OkStatus();
  }
  sequence.forward_tid = process.TidOf(sequence.forward_number);
  if (sequence.forward_tid == 0) {
    if (unresolved_count_ < kMostWaiting) {
      process.unresolved.push_back({span, sequence.forward_number});
      ++unresolved_count_;
    }
    return absl::OkStatus();
  }
  const SpanId forward = TakeForward({sequence.forward_tid, sequence.number_plus_1}, &process);
  if (forward != kNoSpan) {
    sequence.forward_plus_1 = Raw(forward) + 1;
    sequence.has_arrow = true;
    // The engine's row around the node's row belongs to the same node.
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

absl::Status ForwardLinks::Resolve(const Process& process) {
  absl::Status status;
  for (const Unresolved& row : process.unresolved) {
    const uint32_t tid = process.TidOf(row.number);
    if (tid == 0) continue;
    SpanSequence sequence = timeline_->columns().sequence.at(row.span);
    sequence.forward_tid = tid;
    status.Update(timeline_->columns().sequence.Set(row.span, sequence));
  }
  return status;
}

absl::Status ForwardLinks::OnProcessEnd(Pid pid) {
  const auto found = processes_.find(Raw(pid));
  if (found == processes_.end()) return absl::OkStatus();
  const Process& process = found->second;
  absl::Status status = Resolve(process);
  forward_count_ -= process.forwards.size();
  unresolved_count_ -= process.unresolved.size();
  processes_.erase(found);
  return status;
}

absl::Status ForwardLinks::Finish() {
  absl::Status status;
  for (const auto& [pid, process] : processes_) status.Update(Resolve(process));
  return status;
}

}  // namespace proftrace
