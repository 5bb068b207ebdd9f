#include "userspace/merge/python_modes.h"

#include <algorithm>
#include <cstddef>

namespace proftrace {

bool GoesToPython(const Event& event, std::span<const Event> later,
                  const std::vector<Label>& labels) {
  if (event.type != EventType::kAnnotationBegin && event.type != EventType::kAnnotationEnd) {
    return false;
  }
  // Memory is no row. What other threads do in these microseconds is limited.
  constexpr size_t kReach = 10'000;
  const std::span<const Event> near = later.first(std::min(later.size(), kReach));
  const auto next = std::find_if(near.begin(), near.end(), [&event](const Event& other) {
    return other.tid == event.tid && other.pid == event.pid &&
           other.type != EventType::kAllocation && other.type != EventType::kFree;
  });
  return next != near.end() && next->type == EventType::kGuardBegin &&
         next->label < labels.size() && labels[next->label].name == "PythonDispatchMode";
}

}  // namespace proftrace
