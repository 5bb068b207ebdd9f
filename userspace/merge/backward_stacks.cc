#include "userspace/merge/backward_stacks.h"

#include <absl/container/flat_hash_map.h>

#include <cstdint>
#include <tuple>
#include <utility>
#include <vector>

#include "userspace/merge/forward_links.h"

namespace proftrace {
namespace {

// Keeps the stacks of forward rows by process, thread and sequence number.
class ForwardStacks {
 public:
  using Key = std::tuple<uint32_t, uint32_t, int64_t>;

  void Add(const Key& key, StackId stack) {
    if (stacks_.size() >= ForwardLinks::kMostWaiting / 2) {
      old_stacks_ = std::exchange(stacks_, {});
    }
    if (old_stacks_.contains(key)) return;
    stacks_.try_emplace(key, stack);
  }
  StackId Find(const Key& key) const {
    for (const auto* stacks : {&stacks_, &old_stacks_}) {
      const auto found = stacks->find(key);
      if (found != stacks->end()) return found->second;
    }
    return kNoStack;
  }

 private:
  absl::flat_hash_map<Key, StackId> stacks_;
  absl::flat_hash_map<Key, StackId> old_stacks_;
};

// Returns whether torch's events() leaves the row out, because it is an only child with its
// parent's name.
bool IsLeftOut(TimelineBuilder* timeline, const Span& span) {
  if (span.parent == kNoSpan) return false;
  const Span& parent = timeline->span(span.parent);
  return parent.child_count == 1 &&
         timeline->label(parent.label).name == timeline->label(span.label).name;
}

absl::Status Replace(SpanId id, StackId stack, SpanColumns* columns) {
  const StackId own = columns->stack.at(id);
  if (own == stack) return absl::OkStatus();
  absl::Status status = columns->own_stack.Set(id, own == kNoStack ? kNoOwnStack : own);
  if (status.ok()) status = columns->stack.Set(id, stack);
  return status;
}

}  // namespace

absl::Status GiveForwardStacks(TimelineBuilder* timeline) {
  ForwardStacks forwards;
  SpanColumns& columns = timeline->columns();
  std::vector<bool> in_node(timeline->span_count());
  for (uint32_t i = 0; i < timeline->span_count(); ++i) {
    const SpanId id{i};
    const Span& span = timeline->span(id);
    const SpanSequence sequence = columns.sequence.at(id);
    const uint32_t pid = Raw(timeline->thread(span.thread).pid);
    if (timeline->label(span.label).scope == Scope::kBackwardFunction) {
      in_node[i] = true;
      const StackId stack = sequence.number_plus_1 != 0
                                ? forwards.Find({pid, sequence.forward_tid, sequence.number_plus_1})
                                : kNoStack;
      if (absl::Status status = Replace(id, stack, &columns); !status.ok()) return status;
      continue;
    }
    if (span.parent != kNoSpan && in_node[Raw(span.parent)]) {
      in_node[i] = true;
      const StackId stack = columns.stack.at(span.parent);
      if (absl::Status status = Replace(id, stack, &columns); !status.ok()) return status;
    }
    // For torch, rows within a node make no nodes. The engine's row counts where no row before it
    // has the number.
    if (!in_node[i] && sequence.number_plus_1 != 0 && !IsLeftOut(timeline, span)) {
      forwards.Add({pid, Raw(timeline->thread(span.thread).tid), sequence.number_plus_1},
                   columns.stack.at(id));
    }
  }
  return absl::OkStatus();
}

}  // namespace proftrace
