#include "userspace/capture/session/step_watch.h"

#include <algorithm>
#include <cstring>
#include <string_view>

#include "userspace/capture/records/stack_order.h"
#include "userspace/model/torch_rules.h"

namespace proftrace {
namespace {

// How many items of each thread are kept to find the steps' rule from: 2 MiB.
constexpr size_t kMaxItems = 1u << 16;
// How many annotations of a thread may be open at once, because a job may never end any.
constexpr size_t kMostAnnotations = 64;
// The most names of annotations. Usually there are few; a job that makes them up must not fill the
// memory.
constexpr size_t kMaxSymbols = 1u << 16;
// A round of several optimizer steps shows after two rounds. Therefore steps count as sure only
// when this many markers were seen, or this time after the number was reached.
constexpr uint64_t kSureMarkers = 16;
constexpr int64_t kSureAfterNs = 5'000'000'000;

template <typename Record>
Record Read(std::span<const std::byte> bytes) {
  Record record{};
  std::memcpy(&record, bytes.data(), std::min(bytes.size(), sizeof(record)));
  return record;
}

bool TellsSteps(ItemClass item_class) {
  return item_class == ItemClass::kOptimizerStep || item_class == ItemClass::kLoaderNext ||
         item_class == ItemClass::kProfilerStep;
}

}  // namespace

StepWatch::ThreadState::ThreadState(int64_t start_ns, size_t most_steps)
    : finder(kMaxItems, start_ns, most_steps == 0 ? SIZE_MAX / 2 : most_steps) {}

StepWatch::ThreadState& StepWatch::StateOf(const abi::pt_record& head) {
  const uint64_t key = (uint64_t{head.pid} << 32) | head.tid;
  if (last_ != nullptr && key == last_key_) return *last_;
  last_key_ = key;
  last_ = &threads_.try_emplace(key, start_ns_, most_steps_).first->second;
  return *last_;
}

uint32_t StepWatch::Symbol(const std::string& key) {
  if (symbols_.size() >= kMaxSymbols) {
    const auto it = symbols_.find(key);
    return it == symbols_.end() ? 0 : it->second;
  }
  return symbols_.try_emplace(key, static_cast<uint32_t>(symbols_.size()) + 1).first->second;
}

std::optional<ItemClass> StepWatch::SiteClass(Pid pid, uint16_t site) {
  const uint64_t key = (uint64_t{Raw(pid)} << 16) | site;
  const auto it = site_classes_.find(key);
  if (it != site_classes_.end()) return it->second;
  const std::optional<Label> label = site_label_(pid, site);
  std::optional<ItemClass> item_class = ItemClass::kOther;
  if (label.has_value()) {
    item_class = ClassifyItem(label->name, label->overload_name, /*is_annotation=*/false,
                              label->kind == SpanKind::kAutograd);
    // Collections of garbage come whenever there is enough of it, so they tell no steps.
    if (IsUnobserved(label->name) || label->kind == SpanKind::kCollection) item_class.reset();
  }
  site_classes_.emplace(key, item_class);
  return item_class;
}

void StepWatch::AddItem(ThreadState& thread, const StepItem& item) {
  thread.finder.Add(item);
  ++thread.items;
  thread.markers += TellsSteps(item.item_class);
}

void StepWatch::CloseCall(ThreadState& thread, int64_t time_ns) {
  StepItem* item = thread.finder.last();
  if (thread.is_open && item != nullptr) {
    item->end_ns = time_ns;
    item->is_open = false;
  }
  thread.is_open = false;
}

void StepWatch::OnBegin(const abi::pt_record& head, uint64_t what, ThreadState& thread) {
  thread.last_begin_was_item = false;
  if (thread.in_leaf) {
    if (StepItem* item = thread.finder.last(); item != nullptr) item->has_calls = true;
    return;
  }
  if (thread.is_open && IsBelow(head.sp, thread.sp)) {
    thread.nested_same += head.site == thread.site;
    return;
  }
  const int64_t now_ns = static_cast<int64_t>(head.time_ns);
  CloseCall(thread, now_ns);  // the open call's end was lost
  const std::optional<ItemClass> item_class = SiteClass(Pid{head.pid}, head.site);
  if (!item_class.has_value()) return;
  StepItem item;
  item.start_ns = item.end_ns = now_ns;
  // Sites and the addresses behind them are small sets; 2^32 values keep them apart.
  item.symbol = static_cast<uint32_t>((what ^ (what >> 32)) * 0x9e3779b1u) ^ (head.site << 1);
  item.item_class = head.kind == abi::PT_NODE_BEGIN ? ItemClass::kBackward : *item_class;
  item.is_open = true;
  AddItem(thread, item);
  thread.is_open = true;
  thread.last_begin_was_item = true;
  thread.site = head.site;
  thread.sp = head.sp;
  thread.nested_same = 0;
}

void StepWatch::OnEnd(const abi::pt_record& head, ThreadState& thread) {
  if (!thread.is_open || thread.in_leaf) return;
  // A row that encloses the call has ended, so the call's own end was lost.
  if (IsBelow(thread.sp, head.sp)) {
    CloseCall(thread, static_cast<int64_t>(head.time_ns));
    return;
  }
  if (head.site != thread.site) return;
  if (thread.nested_same > 0) {
    --thread.nested_same;
    return;
  }
  CloseCall(thread, static_cast<int64_t>(head.time_ns));
}

void StepWatch::OnAnnotationBegin(std::span<const std::byte> record, ThreadState& thread) {
  if (thread.in_leaf) return;
  // Entering an annotation is a call itself, and the annotation takes that call's place. Within
  // another call it is no item.
  if (thread.is_open && !thread.last_begin_was_item) return;
  const auto text = Read<abi::pt_text_record>(record);
  std::string name;
  if (text.length != PT_TEXT_READ_FAILED) {
    name.assign(text.text, std::min<size_t>(text.length, PT_TEXT_BYTES));
  }
  StepItem item;
  item.start_ns = item.end_ns = static_cast<int64_t>(text.head.time_ns);
  item.item_class =
      ClassifyItem(name, /*overload_name=*/{}, /*is_annotation=*/true, /*is_autograd=*/false);
  item.symbol = Symbol(name);
  const bool is_leaf = item.item_class != ItemClass::kAnnotation;
  item.is_open = is_leaf;
  if (thread.is_open && thread.finder.last() != nullptr) {
    *thread.finder.last() = item;
    thread.markers += TellsSteps(item.item_class);
  } else {
    AddItem(thread, item);
  }
  if (!is_leaf) {
    std::vector<OpenAnnotation>& open = thread.annotations;
    if (open.size() >= kMostAnnotations) open.erase(open.begin());
    open.push_back({0, thread.finder.added() - 1});
  }
  // The rest of the call that enters is no item.
  thread.is_open = false;
  thread.in_leaf = is_leaf;
  thread.leaf_handle = 0;
}

void StepWatch::OnAnnotationHandle(uint64_t handle, ThreadState& thread) {
  if (thread.in_leaf) {
    if (thread.leaf_handle == 0) thread.leaf_handle = handle;
  } else if (!thread.annotations.empty() && thread.annotations.back().handle == 0) {
    thread.annotations.back().handle = handle;
  }
}

void StepWatch::OnAnnotationEnd(const abi::pt_record& head, uint64_t handle, ThreadState& thread) {
  if (thread.in_leaf) {
    if (handle != 0 && thread.leaf_handle != 0 && handle != thread.leaf_handle) return;
    thread.in_leaf = false;
    if (StepItem* item = thread.finder.last(); item != nullptr) {
      item->end_ns = static_cast<int64_t>(head.time_ns);
      item->is_open = false;
    }
    return;
  }
  std::vector<OpenAnnotation>& open = thread.annotations;
  const auto own = std::find_if(open.rbegin(), open.rend(), [handle](const OpenAnnotation& one) {
    return handle != 0 && one.handle == handle;
  });
  if (own != open.rend()) {
    if (StepItem* item = thread.finder.ItemOf(own->item); item != nullptr) {
      item->end_ns = static_cast<int64_t>(head.time_ns);
    }
    open.erase(std::next(own).base());
  }
  // Leaving an annotation is a call itself, which is no item.
  if (!thread.is_open || !thread.last_begin_was_item) return;
  thread.finder.RemoveLast();
  --thread.items;
  thread.is_open = false;
}

void StepWatch::Observe(std::span<const std::byte> record) {
  const auto head = Read<abi::pt_record>(record);
  const auto time_ns = static_cast<int64_t>(head.time_ns);
  if (time_ns < start_ns_ || (end_ns_.has_value() && time_ns >= *end_ns_)) return;
  now_ns_ = std::max(now_ns_, time_ns);
  if (head.kind == abi::PT_THREAD_EXIT) {
    Forget(record);
    return;
  }
  ThreadState& thread = StateOf(head);
  const auto value = [&record] { return Read<abi::pt_pointer_record>(record).value; };
  switch (head.kind) {
    case abi::PT_SPAN_BEGIN:
    case abi::PT_OPERATOR_CALL:
    case abi::PT_LITERAL_BEGIN:
    case abi::PT_SIZED_BEGIN:
      OnBegin(head, 0, thread);
      break;
    case abi::PT_BOXED_BEGIN:
    case abi::PT_NAMED_BEGIN:
      OnBegin(head, value(), thread);
      break;
    case abi::PT_NODE_BEGIN:
      OnBegin(head, Read<abi::pt_node_record>(record).vtable, thread);
      break;
    case abi::PT_SPAN_END:
      OnEnd(head, thread);
      break;
    case abi::PT_CATCH:
      if (thread.is_open && !IsBelow(head.sp, thread.sp)) {
        CloseCall(thread, static_cast<int64_t>(head.time_ns));
      }
      break;
    case abi::PT_ANNOTATION_BEGIN:
      OnAnnotationBegin(record, thread);
      break;
    case abi::PT_ANNOTATION_HANDLE:
      OnAnnotationHandle(value(), thread);
      break;
    case abi::PT_ANNOTATION_END:
      OnAnnotationEnd(head, value(), thread);
      break;
    case abi::PT_LOSS:
      thread.is_open = thread.in_leaf = false;
      break;
    default:
      break;
  }
}

void StepWatch::Forget(std::span<const std::byte> exit) {
  const auto record = Read<abi::pt_exit_record>(exit);
  const uint64_t pid = record.head.pid;
  const uint64_t ended = pid << 32 | record.head.tid;
  const bool is_process = record.group_dead != 0;
  // A thread that has ended gets no better, so its steps are needed only if it is the best thread
  // now.
  const ThreadState* best = most_steps_ == 0 ? Best() : nullptr;
  std::optional<uint64_t> ended_best = ended_best_;
  absl::erase_if(threads_, [&](const auto& thread) {
    const bool has_ended = thread.first == ended || (is_process && thread.first >> 32 == pid);
    if (has_ended && &thread.second == best) ended_best = thread.first;
    return has_ended && &thread.second != best;
  });
  if (ended_best_.has_value() && ended_best != ended_best_) threads_.erase(*ended_best_);
  ended_best_ = ended_best;
  last_ = nullptr;
  if (is_process) {
    absl::erase_if(site_classes_, [pid](const auto& site) { return site.first >> 16 == pid; });
  }
}

StepWatch::ThreadState* StepWatch::Best() {
  ThreadState* best = nullptr;
  uint64_t best_key = 0;
  for (auto& [key, thread] : threads_) {
    const bool is_better =
        best == nullptr || thread.markers > best->markers ||
        (thread.markers == best->markers &&
         (thread.items > best->items || (thread.items == best->items && key < best_key)));
    if (!is_better) continue;
    best = &thread;
    best_key = key;
  }
  if (best != nullptr) {
    last_ = best;
    last_key_ = best_key;
  }
  return best;
}

std::optional<RecordedSteps> StepWatch::Find() {
  ThreadState* thread = Best();
  if (thread == nullptr) return std::nullopt;
  thread->finder.Look(end_ns_.value_or(now_ns_));
  if (thread->finder.count() == 0) return std::nullopt;
  RecordedSteps steps;
  steps.pid = Pid{static_cast<uint32_t>(last_key_ >> 32)};
  steps.tid = Tid{static_cast<uint32_t>(last_key_)};
  steps.how = thread->finder.rule().how;
  steps.confidence = thread->finder.confidence();
  steps.first_number = static_cast<int64_t>(thread->finder.let_go());
  steps.are_annotated = thread->finder.rule().kind == StepRule::Kind::kProfilerStep;
  for (const FoundStep& step : thread->finder.steps()) {
    steps.intervals.emplace_back(step.start_ns, step.end_ns);
  }
  return steps;
}

bool StepWatch::HasSurely(uint64_t count) {
  ThreadState* thread = Best();
  if (thread == nullptr) return false;
  thread->finder.Look(now_ns_);
  if (thread->finder.count() < count || thread->finder.confidence() < kGuessBelow) {
    reached_ns_.reset();
    return false;
  }
  if (!reached_ns_.has_value()) reached_ns_ = now_ns_;
  const uint64_t seen = std::max<uint64_t>(thread->markers, thread->finder.count());
  return seen >= kSureMarkers || now_ns_ - *reached_ns_ >= kSureAfterNs;
}

}  // namespace proftrace
