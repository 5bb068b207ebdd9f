#include "userspace/capture/operator_watch.h"

#include <utility>

#include "symbols/planner.h"

namespace proftrace {

void OperatorWatch::Add(Pid pid, uint32_t image, std::shared_ptr<const ProbePlan> plan) {
  const std::lock_guard lock(mutex_);
  auto& known = known_by_image_[image];
  for (const OperatorInfo& info : plan->operators) known.insert(info.address);
  watched_[Raw(pid)] = Watched{image, std::move(plan), 0};
}

void OperatorWatch::Remove(Pid pid) {
  const std::lock_guard lock(mutex_);
  watched_.erase(Raw(pid));
}

void OperatorWatch::Look() {
  const std::lock_guard lock(mutex_);
  for (auto& [pid, watched] : watched_) LookAt(Pid{pid}, &watched);
}

void OperatorWatch::LookAt(Pid pid, Watched* watched) {
  const uint64_t last = LastOperator(pid, *watched->plan);
  if (last == 0 || last == watched->last) return;
  watched->last = last;
  auto& known = known_by_image_[watched->image];
  std::vector<OperatorInfo> added;
  for (OperatorInfo& info : ReadOperators(pid, *watched->plan)) {
    if (known.insert(info.address).second) added.push_back(std::move(info));
  }
  if (!added.empty()) on_added_(pid, *watched->plan, watched->image, added);
}

}  // namespace proftrace
