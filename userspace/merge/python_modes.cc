#include "userspace/merge/python_modes.h"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace proftrace {
namespace {

// The most events that are looked through, those of other threads in the same microseconds among
// them.
constexpr size_t kReach = 10'000;

bool IsOfThread(const Event& event, const Event& other) {
  return other.tid == event.tid && other.pid == event.pid;
}

bool MakesModesRow(const Event& event, std::span<const Event> later,
                   const std::vector<Label>& labels) {
  const auto next = std::find_if(later.begin(), later.end(), [&event](const Event& other) {
    // Memory events are no rows.
    return IsOfThread(event, other) && other.type != EventType::kAllocation &&
           other.type != EventType::kFree;
  });
  return next != later.end() && next->type == EventType::kGuardBegin &&
         next->label < labels.size() && labels[next->label].name == "PythonDispatchMode";
}

// Returns whether the call that `begin` comes from begins another annotation, which an enter never
// does by itself.
bool BeginsAgainInside(const Event& begin, std::span<const Event> later) {
  size_t calls = 0;  // calls that are open inside of it
  bool is_entered = false;
  for (const Event& other : later) {
    if (!IsOfThread(begin, other)) continue;
    const bool was_entered = std::exchange(is_entered, false);
    switch (other.type) {
      case EventType::kBegin:
        ++calls;
        is_entered = other.label == kHiddenLabel;  // if it is an enter, its annotation comes next
        break;
      case EventType::kEnd:
        if (calls == 0) return false;
        --calls;
        break;
      case EventType::kAnnotationBegin:
        return was_entered;
      case EventType::kAnnotationHandle:  // the enter has returned
      case EventType::kCatch:
      case EventType::kLoss:
      case EventType::kExec:
      case EventType::kThreadExit:
        return false;
      default:
        break;
    }
  }
  return false;
}

// Returns whether the call that `end` comes from makes another such call for the same annotation.
bool EndsAgainInside(const Event& end, std::span<const Event> later) {
  size_t calls = 0;  // calls that are open inside of it
  for (const Event& other : later) {
    if (!IsOfThread(end, other)) continue;
    const bool is_same = other.value == end.value;
    switch (other.type) {
      case EventType::kBegin:
        ++calls;
        break;
      case EventType::kEnd:
        if (calls == 0) return false;
        --calls;
        break;
      case EventType::kAnnotationEnd:
        if (is_same) return calls > 0;
        break;
      case EventType::kAnnotationHandle:
        if (is_same) return false;  // another annotation has its address now
        break;
      case EventType::kCatch:
      case EventType::kLoss:
      case EventType::kExec:
      case EventType::kThreadExit:
        return false;
      default:
        break;
    }
  }
  return false;
}

}  // namespace

bool GoesToPython(const Event& event, std::span<const Event> later,
                  const std::vector<Label>& labels) {
  const bool is_end = event.type == EventType::kAnnotationEnd;
  if (!is_end && event.type != EventType::kAnnotationBegin) return false;
  const std::span<const Event> near = later.first(std::min(later.size(), kReach));
  if (MakesModesRow(event, near, labels)) return true;
  return is_end ? event.value != 0 && EndsAgainInside(event, near) : BeginsAgainInside(event, near);
}

}  // namespace proftrace
