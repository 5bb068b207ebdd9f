#include "userspace/capture/processes/known_processes.h"

#include <utility>

namespace proftrace {

void KnownProcesses::BeginWindow(int64_t start_ns) {
  const std::lock_guard lock(mutex_);
  unprobed_forks_.BeginWindow(start_ns);
}

void KnownProcesses::EndWindow(int64_t end_ns) {
  const std::lock_guard lock(mutex_);
  unprobed_forks_.EndWindow(end_ns);
}

void KnownProcesses::OnFork(Pid parent, Pid child, int64_t time_ns) {
  const std::lock_guard lock(mutex_);
  unprobed_forks_.OnFork(parent, child, time_ns, recorded_.contains(Raw(parent)));
}

void KnownProcesses::OnExec(Pid pid) {
  const std::lock_guard lock(mutex_);
  unprobed_forks_.OnExec(pid);
}

void KnownProcesses::OnExit(Pid pid, int64_t time_ns) {
  const std::lock_guard lock(mutex_);
  unprobed_forks_.OnExit(pid, time_ns);
  EndAwaiting(pid);
  refused_.erase(Raw(pid));
}

void KnownProcesses::OnExecFollowed(Pid pid) {
  const std::lock_guard lock(mutex_);
  unprobed_forks_.OnExecFollowed(pid);
}

void KnownProcesses::OnFoundEnded(Pid pid, int64_t time_ns) {
  const std::lock_guard lock(mutex_);
  unprobed_forks_.OnExit(pid, time_ns);
}

void KnownProcesses::OnFoundChild(Pid child) {
  const std::lock_guard lock(mutex_);
  unprobed_forks_.OnFound(child);
}

uint32_t KnownProcesses::NewImage(const ProbePlan& plan) {
  const std::lock_guard lock(mutex_);
  has_cuda_calls_ |= plan.has_cuda_calls;
  gaps_->AddGapsOf(plan);
  return next_image_++;
}

void KnownProcesses::Enter(Pid pid, PlannedImage image) {
  const std::lock_guard lock(mutex_);
  Process& process = recorded_[Raw(pid)];
  process.image = std::move(image);
  process.links = {};
  process.has_maps = true;
}

std::optional<PlannedImage> KnownProcesses::EnterFork(Pid parent, Pid child, bool is_over) {
  const std::lock_guard lock(mutex_);
  const auto it = recorded_.find(Raw(parent));
  if (it == recorded_.end()) {
    if (!is_over) awaited_.try_emplace(Raw(child), NewAwaited(/*has_torch=*/false));
    return std::nullopt;
  }
  const PlannedImage image = it->second.image;
  if (recorded_.contains(Raw(child))) return std::nullopt;
  recorded_[Raw(child)].image = image;
  return image;
}

void KnownProcesses::OnLive(Pid pid, int64_t live_ns, uint32_t operators, ProcessLinks links) {
  const std::lock_guard lock(mutex_);
  unprobed_forks_.OnLive(pid, live_ns);
  if (operator_count_ == 0) operator_count_ = operators;
  recorded_[Raw(pid)].links = std::move(links);
}

void KnownProcesses::AddLinks(Pid pid, ProcessLinks links) {
  const std::lock_guard lock(mutex_);
  const auto it = recorded_.find(Raw(pid));
  if (it != recorded_.end()) it->second.links.Add(std::move(links));
}

PlanRegistry::Extended KnownProcesses::Extend(Pid pid, const ProbePlan& now, PlanRegistry* plans) {
  const std::lock_guard lock(mutex_);
  const auto it = recorded_.find(Raw(pid));
  if (it == recorded_.end()) return {};
  has_cuda_calls_ |= now.has_cuda_calls;
  gaps_->AddGapsOf(now);
  PlannedImage& image = it->second.image;
  PlanRegistry::Extended extended = plans->Extend(image.plan_id, *image.plan, now);
  if (extended.plan == nullptr) return {};
  image.plan = extended.plan;
  gaps_->AddLateLibrary();
  return extended;
}

std::optional<KnownProcesses::Forgotten> KnownProcesses::Forget(Pid pid) {
  const std::lock_guard lock(mutex_);
  const auto it = recorded_.find(Raw(pid));
  if (it == recorded_.end()) return std::nullopt;
  Forgotten forgotten{it->second.links.TakeAll(), it->second.has_maps};
  recorded_.erase(it);
  return forgotten;
}

std::vector<LinkSet> KnownProcesses::TakeLinks() {
  const std::lock_guard lock(mutex_);
  std::vector<LinkSet> links;
  for (auto& [pid, process] : recorded_) links.push_back(process.links.TakeAll());
  return links;
}

std::optional<PlannedImage> KnownProcesses::Find(Pid pid) const {
  const std::lock_guard lock(mutex_);
  const auto it = recorded_.find(Raw(pid));
  if (it == recorded_.end()) return std::nullopt;
  return it->second.image;
}

bool KnownProcesses::IsKnown(Pid pid) const {
  const std::lock_guard lock(mutex_);
  return recorded_.contains(Raw(pid)) || awaited_.contains(Raw(pid)) || refused_.contains(Raw(pid));
}

std::vector<Pid> KnownProcesses::pids() const {
  const std::lock_guard lock(mutex_);
  std::vector<Pid> pids;
  for (const auto& [pid, process] : recorded_) pids.push_back(Pid{pid});
  return pids;
}

size_t KnownProcesses::size() const {
  const std::lock_guard lock(mutex_);
  return recorded_.size();
}

PlannedProcesses KnownProcesses::Planned() const {
  const std::lock_guard lock(mutex_);
  PlannedProcesses planned;
  for (const auto& [pid, process] : recorded_) planned.emplace_back(Pid{pid}, process.image.plan);
  return planned;
}

bool KnownProcesses::AskRemoval(Pid pid, RemovedProbes removed) {
  const std::lock_guard lock(mutex_);
  const auto it = recorded_.find(Raw(pid));
  if (it == recorded_.end()) return false;
  it->second.removed = std::move(removed);
  ++it->second.removals;
  return true;
}

bool KnownProcesses::IsRemoving(Pid pid) const {
  const std::lock_guard lock(mutex_);
  const auto it = recorded_.find(Raw(pid));
  return it != recorded_.end() && it->second.removals > 0;
}

std::optional<KnownProcesses::Removal> KnownProcesses::TakeRemoval(Pid pid) {
  const std::lock_guard lock(mutex_);
  const auto it = recorded_.find(Raw(pid));
  if (it == recorded_.end()) return std::nullopt;
  return Removal{std::exchange(it->second.links.operators, {}), it->second.removed};
}

bool KnownProcesses::EndRemoval(Pid pid, std::vector<OperatorLinks> operators) {
  const std::lock_guard lock(mutex_);
  const auto it = recorded_.find(Raw(pid));
  if (it == recorded_.end()) return false;
  it->second.links.Add({{}, std::move(operators)});
  --it->second.removals;
  return true;
}

KnownProcesses::Awaited KnownProcesses::NewAwaited(bool has_torch) const {
  return Awaited{std::make_shared<LoadingProcess>(reader_), has_torch};
}

void KnownProcesses::Await(Pid pid) {
  const std::lock_guard lock(mutex_);
  awaited_[Raw(pid)] = NewAwaited(/*has_torch=*/false);
}

bool KnownProcesses::AwaitNew(Pid pid) {
  const std::lock_guard lock(mutex_);
  if (recorded_.contains(Raw(pid)) || refused_.contains(Raw(pid))) return false;
  return awaited_.try_emplace(Raw(pid), NewAwaited(/*has_torch=*/true)).second;
}

void KnownProcesses::StopAwaiting(Pid pid) {
  const std::lock_guard lock(mutex_);
  awaited_.erase(Raw(pid));
}

std::map<uint32_t, KnownProcesses::Awaited> KnownProcesses::awaited() const {
  const std::lock_guard lock(mutex_);
  return awaited_;
}

bool KnownProcesses::has_awaited() const {
  const std::lock_guard lock(mutex_);
  return !awaited_.empty();
}

void KnownProcesses::OnLook(Pid pid, const std::shared_ptr<LoadingProcess>& loading, bool is_done) {
  const std::lock_guard lock(mutex_);
  const auto it = awaited_.find(Raw(pid));
  // A process that runs another program by now is looked at anew.
  if (it == awaited_.end() || it->second.loading != loading) return;
  it->second.has_torch |= loading->has_torch();
  it->second.could_run |= loading->could_run_ns() != 0;
  if (is_done) EndAwaiting(pid);
}

void KnownProcesses::EndAwaiting(Pid pid) {
  const auto it = awaited_.find(Raw(pid));
  if (it == awaited_.end()) return;
  if (it->second.has_torch) gaps_->AddEndedEarly();
  awaited_.erase(it);
}

std::vector<Pid> KnownProcesses::LoadedWithoutProbes() const {
  const std::lock_guard lock(mutex_);
  std::vector<Pid> pids;
  for (const auto& [pid, awaited] : awaited_) {
    if (awaited.could_run) pids.push_back(Pid{pid});
  }
  return pids;
}

void KnownProcesses::Refuse(Pid pid, const absl::Status& why) {
  const std::lock_guard lock(mutex_);
  awaited_.erase(Raw(pid));
  unprobed_forks_.OnRefused(pid);
  if (refused_.insert(Raw(pid)).second) gaps_->AddRefusal(pid, why, refused_.size());
}

size_t KnownProcesses::waiting_forks() const {
  const std::lock_guard lock(mutex_);
  return unprobed_forks_.waiting();
}

uint64_t KnownProcesses::ended_forks() const {
  const std::lock_guard lock(mutex_);
  return unprobed_forks_.ended();
}

uint32_t KnownProcesses::operator_count() const {
  const std::lock_guard lock(mutex_);
  return operator_count_;
}

bool KnownProcesses::has_cuda_calls() const {
  const std::lock_guard lock(mutex_);
  return has_cuda_calls_;
}

}  // namespace proftrace
