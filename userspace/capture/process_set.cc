#include "userspace/capture/process_set.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <utility>

#include "bpf/abi/records.h"
#include "symbols/planner.h"
#include "symbols/process.h"
#include "userspace/base/clock.h"
#include "userspace/base/exit_status.h"
#include "userspace/capture/target_info.h"

namespace proftrace {
namespace {

constexpr std::chrono::milliseconds kAwaitInterval(50);
// A process whose operators cannot be read, or never stop to grow, is attached to after so many
// looks.
constexpr int kMostLooks = 40;

bool Exists(Pid pid) { return kill(static_cast<pid_t>(Raw(pid)), 0) == 0 || errno == EPERM; }

// The step that an operator takes in an annotation's life, 0 = none.
uint32_t AnnotationStep(const std::string& name) {
  if (name == "profiler::_record_function_enter" ||
      name == "profiler::_record_function_enter_new") {
    return abi::PT_ANNOTATION_ENTER;
  }
  return name == "profiler::_record_function_exit" ? abi::PT_ANNOTATION_EXIT : 0;
}

// The plan's files as `child` has them mapped: after a fork they lie at the parent's addresses.
ModulePlan ModuleOfChild(ModulePlan module, Pid child) {
  const std::string prefix = "/proc/";
  const size_t slash = module.open_path.find('/', prefix.size());
  if (module.open_path.starts_with(prefix) && slash != std::string::npos) {
    module.open_path = prefix + std::to_string(Raw(child)) + module.open_path.substr(slash);
  }
  return module;
}

std::vector<Label> SiteLabels(const ProbePlan& plan) {
  std::vector<Label> labels;
  labels.reserve(plan.sites.size());
  for (const SiteInfo& site : plan.sites) labels.push_back(site.label);
  return labels;
}

// Whether both run in the same memory (vfork, clone(CLONE_VM)). False where the kernel cannot tell.
bool SharesMemory(Pid a, Pid b) {
  constexpr int kCompareMemory = 1;  // KCMP_VM
  return syscall(SYS_kcmp, Raw(a), Raw(b), kCompareMemory, 0, 0) == 0;
}

// Whether `child` has the plan's files at its parent's addresses: until it execs.
bool HasFiles(Pid child, const ProbePlan& plan) {
  return std::all_of(plan.modules.begin(), plan.modules.end(), [child](const ModulePlan& module) {
    return access(ModuleOfChild(module, child).open_path.c_str(), F_OK) == 0;
  });
}

absl::Status NotPermitted(const std::string& what) {
  return Fail(ExitCode::kNotPermitted,
              "this user may not " + what +
                  "; run 'sudo proftrace', or give it CAP_BPF, CAP_PERFMON, CAP_SYS_ADMIN and "
                  "CAP_SYS_PTRACE");
}

// What lies behind the planner's "no libtorch": a process that ended meanwhile, or one whose files
// this user may not open.
absl::Status WhyNoTorch(Pid pid, const absl::Status& status) {
  const std::string who = "PID " + std::to_string(Raw(pid));
  if (ExitCodeOf(status) == ExitCode::kNotPermitted) {
    return NotPermitted("read what " + who + " has mapped");
  }
  if (ExitCodeOf(status) != ExitCode::kNoTorch) return status;
  const absl::StatusOr<std::vector<Mapping>> maps = ReadMaps(pid);
  if (!maps.ok()) return maps.status();
  if (maps->empty()) {
    return Fail(ExitCode::kNoTarget, who + " ended before anything was recorded");
  }
  for (const MappedFile& file : GroupByFile(*maps)) {
    if (OpenMappedFile(pid, file).ok()) continue;
    char link[64];
    std::snprintf(link, sizeof(link), "/proc/%u/map_files/%llx-%llx", Raw(pid),
                  static_cast<unsigned long long>(file.mappings[0].start),
                  static_cast<unsigned long long>(file.mappings[0].end));
    const UniqueFd fd(open(link, O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (fd.valid() || (errno != EPERM && errno != EACCES)) continue;
    return NotPermitted("open the files that " + who + " has mapped");
  }
  return status;
}

}  // namespace

absl::StatusOr<ProbePlan> PlanProcess(Pid pid, const std::string& cache_directory) {
  PlanOptions options;
  options.cache_directory = cache_directory;
  absl::StatusOr<ProbePlan> plan = BuildProbePlan(pid, options);
  if (!plan.ok()) return WhyNoTorch(pid, plan.status());
  return plan;
}

ProcessSet::ProcessSet(BpfPrograms* programs, CaptureSink* sink, std::string cache_directory,
                       OnFollow on_follow)
    : programs_(programs),
      sink_(sink),
      cache_directory_(std::move(cache_directory)),
      on_follow_(std::move(on_follow)) {
  follower_ = std::thread([this] { RunFollower(); });
}

ProcessSet::~ProcessSet() { Detach(); }

absl::Status ProcessSet::Attach(Pid pid, ProbePlan plan) {
  if (absl::Status status = programs_->TraceProcess(pid); !status.ok()) return status;
  return AttachImage(pid, std::move(plan), /*followed=*/false);
}

void ProcessSet::FollowDescendants(Pid pid) {
  Process parent;
  {
    const std::lock_guard lock(mutex_);
    const auto it = processes_.find(Raw(pid));
    if (it == processes_.end()) return;
    parent.image = it->second.image;
    parent.plan_id = it->second.plan_id;
    parent.plan = it->second.plan;
  }
  for (const Pid child : ReadDescendants(pid)) {
    if (!programs_->TraceProcess(child).ok()) continue;
    // A forked one, as DataLoader workers are, has the parent's files at the parent's places.
    if (HasFiles(child, *parent.plan)) {
      const absl::Status status = AttachWithPlan(child, parent.plan, parent.plan_id, parent.image,
                                                 /*followed=*/true);
      if (status.ok()) continue;
      DropLinks(child, /*forget=*/true);
    }
    Await(child);
  }
}

void ProcessSet::Await(Pid pid) {
  const std::lock_guard lock(mutex_);
  awaited_.try_emplace(Raw(pid));
  changed_.notify_all();
}

absl::Status ProcessSet::AttachImage(Pid pid, ProbePlan plan, bool followed) {
  uint32_t plan_id;
  uint32_t image;
  {
    const std::lock_guard lock(mutex_);
    plan_id = next_plan_++;
    image = next_image_++;
    for (const PlanGap& gap : plan.gaps) {
      const bool known = std::any_of(gaps_.begin(), gaps_.end(), [&gap](const Unsupported& other) {
        return other.feature == gap.feature && other.reason == gap.reason;
      });
      if (!known) gaps_.push_back(Unsupported{gap.feature, gap.reason});
    }
  }
  sink_->AddMetadata([&](MetadataWriter& writer) { writer.AddPlan(plan_id, SiteLabels(plan)); });
  WriteOperators(image, plan.operators);
  return AttachWithPlan(pid, std::make_shared<const ProbePlan>(std::move(plan)), plan_id, image,
                        followed);
}

void ProcessSet::WriteOperators(uint32_t image, const std::vector<OperatorInfo>& operators) {
  std::vector<OperatorEntry> entries;
  entries.reserve(operators.size());
  for (const OperatorInfo& info : operators) {
    entries.push_back(OperatorEntry{info.address, info.name, info.overload_name});
  }
  sink_->AddMetadata([&](MetadataWriter& writer) { writer.AddOperators(image, entries); });
}

absl::Status ProcessSet::PrepareMaps(Pid pid, const ProbePlan& plan) {
  const uint32_t flags =
      plan.old_string_abi ? static_cast<uint32_t>(abi::PT_ANNOTATION_OLD_STRINGS) : 0u;
  for (const OperatorInfo& info : plan.operators) {
    const uint32_t step = AnnotationStep(info.name);
    if (step == 0) continue;
    absl::Status status = programs_->AddAnnotationOperator(pid, info.address, step | flags);
    if (!status.ok()) return status;
  }
  if (plan.python_node_vtable == 0) return absl::OkStatus();
  return programs_->AddPythonNodeVtable(pid, plan.python_node_vtable);
}

absl::Status ProcessSet::AttachWithPlan(Pid pid, std::shared_ptr<const ProbePlan> plan,
                                        uint32_t plan_id, uint32_t image, bool followed) {
  ProcessEntry entry;
  entry.plan = plan_id;
  entry.image = image;
  entry.target = DescribeProcess(pid);
  entry.target.torch_version = plan->torch_version;
  entry.target.torch_build_id = plan->torch_build_id;
  if (!plan->python_version.empty()) entry.target.python_version = plan->python_version;
  entry.target.followed = followed;
  entry.target.operator_count = plan->operator_count;
  if (absl::Status status = PrepareMaps(pid, *plan); !status.ok()) return status;

  // Known before its first record comes, so that names can be resolved.
  {
    const std::lock_guard lock(mutex_);
    Process& process = processes_[Raw(pid)];
    process.image = image;
    process.plan_id = plan_id;
    process.plan = plan;
    process.links.clear();
  }
  LinkSet links;
  AttachReport report;
  for (const ModulePlan& module : plan->modules) {
    const ModulePlan mapped = followed ? ModuleOfChild(module, pid) : module;
    absl::StatusOr<LinkSet> added =
        AttachModule(programs_->api(), programs_->probe_program_fd(), mapped, pid, &report);
    if (!added.ok()) return added.status();
    std::move(added->begin(), added->end(), std::back_inserter(links));
  }
  entry.target.probes_on_ns = MonotonicNs();
  sink_->AddMetadata([&entry](MetadataWriter& writer) { writer.AddProcess(entry); });
  const std::lock_guard lock(mutex_);
  if (!report.refused.empty()) {
    gaps_.push_back(Unsupported{
        "probes", std::to_string(report.refused.size()) + " places were refused by the kernel (" +
                      report.refused[0].module + ": " + ErrnoText(report.refused[0].error) + ")"});
  }
  if (operator_count_ == 0) operator_count_ = plan->operator_count;
  processes_[Raw(pid)].links = std::move(links);
  return absl::OkStatus();
}

void ProcessSet::OnFork(Pid parent, Pid child, int64_t time_ns) {
  const std::lock_guard lock(mutex_);
  tasks_.push_back(Task{TaskKind::kFork, child, parent, time_ns});
  changed_.notify_all();
}

void ProcessSet::OnExec(Pid pid) {
  const std::lock_guard lock(mutex_);
  tasks_.push_back(Task{TaskKind::kExec, pid, Pid{}, 0});
  changed_.notify_all();
}

void ProcessSet::OnExit(Pid pid) {
  const std::lock_guard lock(mutex_);
  awaited_.erase(Raw(pid));
  // A child that has ended already needs no probes: many short ones must not hold the others up.
  for (Task& task : tasks_) task.is_over |= task.pid == pid;
  tasks_.push_back(Task{TaskKind::kExit, pid, Pid{}, 0});
  changed_.notify_all();
}

std::optional<uint32_t> ProcessSet::ImageOf(Pid pid) const {
  const std::lock_guard lock(mutex_);
  const auto it = processes_.find(Raw(pid));
  if (it == processes_.end()) return std::nullopt;
  return it->second.image;
}

void ProcessSet::FollowFork(const Task& task) {
  Process child;
  {
    const std::lock_guard lock(mutex_);
    const auto it = processes_.find(Raw(task.parent));
    if (it == processes_.end()) {
      // The parent has no PyTorch yet; the child may load it.
      if (!task.is_over) awaited_.try_emplace(Raw(task.pid));
      return;
    }
    child.image = it->second.image;
    child.plan_id = it->second.plan_id;
    child.plan = it->second.plan;
    // Known from here on, whether it lives or not: it may have children of its own.
    Process& entry = processes_[Raw(task.pid)];
    entry.image = child.image;
    entry.plan_id = child.plan_id;
    entry.plan = child.plan;
  }
  // A child of vfork() runs in its parent's memory until it execs: the parent's probes are its own.
  if (task.is_over || SharesMemory(task.parent, task.pid)) return;
  const absl::Status status =
      AttachWithPlan(task.pid, child.plan, child.plan_id, child.image, /*followed=*/true);
  const int64_t live_ns = MonotonicNs();
  if (status.ok() && on_follow_) on_follow_(task.pid, live_ns - task.time_ns);
  const std::lock_guard lock(mutex_);
  if (status.ok()) {
    ++followed_;
    longest_follow_ns_ = std::max(longest_follow_ns_, live_ns - task.time_ns);
    return;
  }
  // One that ended at once, or runs something else by now, needs no probes.
  if (HasFiles(task.pid, *child.plan) && ExitCodeOf(status) != ExitCode::kNoTarget) {
    ++follow_failed_;
  }
}

void ProcessSet::DropLinks(Pid pid, bool forget) {
  LinkSet links;  // closed without the lock: it takes the kernel a while
  const std::lock_guard lock(mutex_);
  const auto it = processes_.find(Raw(pid));
  if (it == processes_.end()) return;
  links = std::move(it->second.links);
  if (forget) processes_.erase(it);
}

void ProcessSet::FollowExec(Pid pid) {
  // The old image is gone, and so are the places of its probes.
  DropLinks(pid, /*forget=*/true);
  Await(pid);
}

bool ProcessSet::TryAwaited(Pid pid, Looks* looks) {
  if (!Exists(pid)) return true;
  if (!HasTorch(pid)) return false;
  PlanOptions options;
  options.cache_directory = cache_directory_;
  absl::StatusOr<ProbePlan> plan = BuildProbePlan(pid, options);
  absl::Status status = plan.status();
  if (ExitCodeOf(status) == ExitCode::kNoTorch) return false;  // half loaded
  if (plan.ok()) {
    // While libraries register their operators the number grows: names and annotations would be
    // missing.
    const size_t before = std::exchange(looks->operators, plan->operators.size());
    const bool is_settled = before > 0 && before == looks->operators;
    if (!is_settled && ++looks->with_torch < kMostLooks) return false;
    status = AttachImage(pid, *std::move(plan), /*followed=*/true);
  }
  if (!status.ok() && Exists(pid) && ExitCodeOf(status) != ExitCode::kNoTarget) {
    const std::lock_guard lock(mutex_);
    ++follow_failed_;
  }
  return true;
}

void ProcessSet::TryAllAwaited() {
  std::map<uint32_t, Looks> candidates;
  {
    const std::lock_guard lock(mutex_);
    candidates = awaited_;
  }
  for (auto& [pid, looks] : candidates) {
    const bool done = TryAwaited(Pid{pid}, &looks);
    const std::lock_guard lock(mutex_);
    if (done) {
      awaited_.erase(pid);
    } else if (const auto it = awaited_.find(pid); it != awaited_.end()) {
      it->second = looks;
    }
    if (stop_ || !tasks_.empty()) return;  // forks come first
  }
}

void ProcessSet::RunFollower() {
  std::unique_lock lock(mutex_);
  while (!stop_) {
    const auto ready = [this] { return stop_ || !tasks_.empty(); };
    if (awaited_.empty()) {
      changed_.wait(lock, [&] { return ready() || !awaited_.empty(); });
    } else {
      changed_.wait_for(lock, kAwaitInterval, ready);
    }
    if (stop_) break;
    if (tasks_.empty()) {
      lock.unlock();
      TryAllAwaited();
      lock.lock();
      continue;
    }
    const Task task = tasks_.front();
    tasks_.pop_front();
    lock.unlock();
    switch (task.kind) {
      case TaskKind::kFork:
        FollowFork(task);
        break;
      case TaskKind::kExec:
        FollowExec(task.pid);
        break;
      case TaskKind::kExit:
        DropLinks(task.pid, /*forget=*/true);
        break;
    }
    lock.lock();
  }
}

void ProcessSet::Detach() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    changed_.notify_all();
  }
  if (follower_.joinable()) follower_.join();
  std::vector<LinkSet> links;
  {
    const std::lock_guard lock(mutex_);
    for (auto& [pid, process] : processes_) links.push_back(std::move(process.links));
  }
  if (programs_->api() == UprobeApi::kMulti) return;
  // The kernel removes perf events one by one, a tenth of a second each (it waits for readers of
  // the tracepoint under one lock): that is left to the end of this process, after the results are
  // written.
  programs_->StopRecording();
  for (LinkSet& set : links) {
    for (UniqueFd& fd : set) (void)fd.Release();
  }
}

void ProcessSet::CollectLastNames() {
  std::map<uint32_t, bool> image_done;
  for (const auto& [raw_pid, process] : processes_) {
    const Pid pid{raw_pid};
    for (const ThreadEntry& thread : ReadThreads(pid)) {
      sink_->AddMetadata([&thread](MetadataWriter& writer) { writer.AddThread(thread); });
    }
    if (image_done[process.image]) continue;
    std::vector<OperatorInfo> operators = ReadOperators(pid, *process.plan);
    if (operators.empty()) continue;
    image_done[process.image] = true;
    std::vector<OperatorInfo> added;
    for (OperatorInfo& info : operators) {
      const auto known = std::lower_bound(
          process.plan->operators.begin(), process.plan->operators.end(), info.address,
          [](const OperatorInfo& other, uint64_t address) { return other.address < address; });
      if (known == process.plan->operators.end() || known->address != info.address) {
        added.push_back(std::move(info));
      }
    }
    if (!added.empty()) WriteOperators(process.image, added);
  }
}

uint32_t ProcessSet::operator_count() const {
  const std::lock_guard lock(mutex_);
  return operator_count_;
}

uint64_t ProcessSet::follow_failed() const {
  const std::lock_guard lock(mutex_);
  return follow_failed_;
}

std::vector<Unsupported> ProcessSet::gaps() const {
  const std::lock_guard lock(mutex_);
  std::vector<Unsupported> gaps = gaps_;
  if (programs_->api() == UprobeApi::kPerf) {
    gaps.push_back(Unsupported{
        "fast detach",
        "this kernel has no uprobe.multi (6.6): its probes record nothing after the end, but are "
        "removed while proftrace exits, which takes minutes"});
  }
  if (followed_ > 0) {
    gaps.push_back(Unsupported{"start of children",
                               std::to_string(followed_) +
                                   " forked processes: each one's first moments, at most " +
                                   std::to_string(longest_follow_ns_ / 1'000'000 + 1) +
                                   " ms, passed before its probes were live"});
  }
  return gaps;
}

}  // namespace proftrace
