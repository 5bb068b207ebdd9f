#include "userspace/capture/processes/operator_watch.h"

#include <functional>
#include <string>
#include <utility>

#include "symbols/plan/planner.h"
#include "userspace/capture/targets/target_words.h"

namespace proftrace {
namespace {

constexpr uint64_t kSeveral = 0;

uint64_t NameHash(const OperatorInfo& info) {
  return std::hash<std::string>()(info.name + "." + info.overload_name) | 1;
}

}  // namespace

void OperatorWatch::Add(Pid pid, uint32_t image, std::shared_ptr<const ProbePlan> plan) {
  const std::lock_guard lock(mutex_);
  auto& known = known_by_image_[image];
  for (const OperatorInfo& info : plan->operators) known.try_emplace(info.address, NameHash(info));
  watched_[Raw(pid)] = Watched{image, std::move(plan), 0};
}

void OperatorWatch::Remove(Pid pid) {
  const std::lock_guard lock(mutex_);
  const auto it = watched_.find(Raw(pid));
  if (it == watched_.end()) return;
  const uint32_t image = it->second.image;
  watched_.erase(it);
  for (const auto& [other, watched] : watched_) {
    if (watched.image == image) return;
  }
  known_by_image_.erase(image);
}

void OperatorWatch::Look() {
  const std::lock_guard lock(mutex_);
  for (auto& [pid, watched] : watched_) LookAt(Pid{pid}, &watched);
}

void OperatorWatch::LookAt(Pid pid, Watched* watched) {
  const uint64_t last = AskLastOperator(reader_, pid, watched->image, *watched->plan);
  if (last == 0 || last == watched->last) return;
  watched->last = last;
  auto& known = known_by_image_[watched->image];
  std::vector<OperatorInfo> added;
  for (OperatorInfo& info : ReadOperators(pid, *watched->plan)) {
    const uint64_t name = NameHash(info);
    const auto [it, is_new] = known.try_emplace(info.address, name);
    if (!is_new && (it->second == kSeveral || it->second == name)) continue;
    if (!is_new) {
      ++replaced_;
      it->second = kSeveral;
      info.name.clear();
      info.overload_name.clear();
    }
    added.push_back(std::move(info));
  }
  if (!added.empty()) on_added_(pid, *watched->plan, watched->image, added);
}

uint64_t OperatorWatch::replaced() const {
  const std::lock_guard lock(mutex_);
  return replaced_;
}

}  // namespace proftrace
