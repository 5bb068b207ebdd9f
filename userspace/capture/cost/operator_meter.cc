#include "userspace/capture/cost/operator_meter.h"

#include "userspace/capture/records/stack_order.h"

namespace proftrace {
namespace {

uint64_t TraitsKey(Pid pid, uint16_t site) { return uint64_t{Raw(pid)} << 16 | site; }

}  // namespace

OperatorMeter::ThreadState& OperatorMeter::StateOf(const abi::pt_record& head) {
  const uint64_t key = uint64_t{head.pid} << 32 | head.tid;
  if (last_ != nullptr && key == last_key_) return *last_;
  last_key_ = key;
  last_ = &threads_[key];
  last_->pid = Pid{head.pid};
  last_->tid = head.tid;
  return *last_;
}

OperatorMeter::Traits& OperatorMeter::MutableTraits(Pid pid, uint16_t site) {
  return traits_[TraitsKey(pid, site)];
}

OperatorMeter::Traits OperatorMeter::TraitsOf(Pid pid, uint16_t site) const {
  const auto it = traits_.find(TraitsKey(pid, site));
  return it == traits_.end() ? Traits() : it->second;
}

void OperatorMeter::MarkParent(const ThreadState& thread) {
  if (!thread.stack.empty()) {
    MutableTraits(thread.pid, thread.stack.back().site).has_children = true;
  }
}

void OperatorMeter::DropTop(ThreadState& thread) {
  Traits& traits = MutableTraits(thread.pid, thread.stack.back().site);
  traits.open -= traits.open > 0 ? 1 : 0;
  thread.stack.pop_back();
}

void OperatorMeter::DropBelow(ThreadState& thread, uint32_t sp, bool or_at) {
  while (!thread.stack.empty()) {
    const uint32_t entry = thread.stack.back().sp;
    const bool is_over = or_at ? !IsBelow(sp, entry) : IsBelow(entry, sp);
    if (!is_over) return;
    DropTop(thread);
  }
}

void OperatorMeter::Open(const abi::pt_record& head, ThreadState& thread) {
  DropBelow(thread, head.sp, /*or_at=*/true);
  MarkParent(thread);
  Traits& traits = MutableTraits(thread.pid, head.site);
  traits.is_outermost |= thread.stack.empty();
  ++traits.open;
  thread.stack.push_back({head.sp, head.site, static_cast<int64_t>(head.time_ns)});
}

void OperatorMeter::OnEnd(const abi::pt_record& head, ThreadState& thread) {
  DropBelow(thread, head.sp, /*or_at=*/false);
  if (thread.stack.empty() || thread.stack.back().site != head.site) return;
  Use& use = thread.sites[head.site];
  ++use.calls;
  use.duration_ns += static_cast<int64_t>(head.time_ns) - thread.stack.back().begin_ns;
  DropTop(thread);
}

void OperatorMeter::Observe(const abi::pt_record& head) {
  switch (head.kind) {
    case abi::PT_SPAN_BEGIN:
    case abi::PT_OPERATOR_CALL:
    case abi::PT_BOXED_BEGIN:
    case abi::PT_NODE_BEGIN:
    case abi::PT_LITERAL_BEGIN:
    case abi::PT_SIZED_BEGIN:
    case abi::PT_NAMED_BEGIN:
      Open(head, StateOf(head));
      break;
    case abi::PT_SPAN_END:
      OnEnd(head, StateOf(head));
      break;
    case abi::PT_CATCH:
      DropBelow(StateOf(head), head.sp, /*or_at=*/true);
      break;
    case abi::PT_ANNOTATION_BEGIN:
    case abi::PT_ANNOTATION_END:
    case abi::PT_GUARD_BEGIN:
    case abi::PT_FRAME_BEGIN:
    case abi::PT_WORK_BEGIN:
      MarkParent(StateOf(head));
      break;
    case abi::PT_LOSS: {
      ThreadState& thread = StateOf(head);
      while (!thread.stack.empty()) DropTop(thread);
      break;
    }
    case abi::PT_THREAD_EXIT: {
      ThreadState& thread = StateOf(head);
      while (!thread.stack.empty()) DropTop(thread);
      threads_.erase(last_key_);
      last_ = nullptr;
      break;
    }
    default:
      break;
  }
}

std::vector<OperatorMeter::ThreadUse> OperatorMeter::Take() {
  std::vector<ThreadUse> uses;
  for (auto& [key, thread] : threads_) {
    ThreadUse& use = uses.emplace_back(ThreadUse{thread.pid, thread.tid, {}});
    use.sites.assign(thread.sites.begin(), thread.sites.end());
    thread.sites.clear();
  }
  return uses;
}

void OperatorMeter::Forget(Pid pid) {
  absl::erase_if(threads_, [pid](const auto& entry) { return entry.second.pid == pid; });
  absl::erase_if(traits_, [pid](const auto& entry) { return entry.first >> 16 == Raw(pid); });
  last_ = nullptr;
}

}  // namespace proftrace
