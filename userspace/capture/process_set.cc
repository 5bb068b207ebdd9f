#include "userspace/capture/process_set.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <optional>
#include <utility>

#include "bpf/abi/records.h"
#include "symbols/process.h"
#include "userspace/base/clock.h"
#include "userspace/base/exit_status.h"
#include "userspace/capture/held_thread.h"
#include "userspace/capture/target_info.h"

namespace proftrace {
namespace {

constexpr std::chrono::milliseconds kAwaitInterval(50);
constexpr std::chrono::milliseconds kAwaitOwnInterval(10);
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

// Gives the kernel the places that the plan's probes read from, and the probes their numbers.
absl::Status NumberPlaces(BpfPrograms* programs, ProbePlan* plan) {
  std::vector<uint16_t> numbers;
  for (const abi::pt_place& place : plan->places) {
    const absl::StatusOr<uint16_t> number = programs->AddValuePlace(place);
    if (!number.ok()) return number.status();
    numbers.push_back(*number);
  }
  for (ModulePlan& module : plan->modules) {
    for (ProbePoint& point : module.points) {
      if (point.place == 0 || point.place > numbers.size()) continue;
      point.cookie |= PT_COOKIE_PLACE(numbers[point.place - 1]);
    }
  }
  return absl::OkStatus();
}

// Whether a memory probe of `plan` was refused: then none of them is live.
bool RefusesMemory(const ProbePlan& plan, const AttachReport& report) {
  for (const ModulePlan& module : plan.modules) {
    for (const ProbePoint& point : module.points) {
      const bool is_memory = static_cast<uint16_t>(point.cookie) == plan.memory_site;
      if (plan.memory_site == 0 || !is_memory) continue;
      for (const RefusedPoint& refused : report.refused) {
        if (refused.module == module.name && refused.file_offset == point.file_offset) return true;
      }
    }
  }
  return false;
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

absl::StatusOr<ProbePlan> PlanProcess(Pid pid, const PlanOptions& options) {
  absl::StatusOr<ProbePlan> plan = BuildProbePlan(pid, options);
  if (!plan.ok()) return WhyNoTorch(pid, plan.status());
  return plan;
}

ProcessSet::ProcessSet(BpfPrograms* programs, CaptureSink* sink, PlanOptions plan_options,
                       OnFollow on_follow, OnAwaited on_awaited)
    : programs_(programs),
      sink_(sink),
      plan_options_(std::move(plan_options)),
      on_follow_(std::move(on_follow)),
      on_awaited_(std::move(on_awaited)),
      schemas_(sink),
      operator_watch_([this](Pid pid, const ProbePlan& plan, uint32_t image,
                             const std::vector<OperatorInfo>& added) {
        AddLateOperators(pid, plan, image, added);
      }) {
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

void ProcessSet::AwaitOwn(Pid pid) {
  {
    const std::lock_guard lock(mutex_);
    holds_awaited_ = true;
  }
  Await(pid);
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
  if (absl::Status status = NumberPlaces(programs_, &plan); !status.ok()) return status;
  sink_->AddMetadata([&](MetadataWriter& writer) { writer.AddPlan(plan_id, SiteLabels(plan)); });
  WriteOperators(image, plan.operators);
  const auto shared = std::make_shared<const ProbePlan>(std::move(plan));
  absl::Status status = AttachWithPlan(pid, shared, plan_id, image, followed);
  if (status.ok()) schemas_.Request(pid, shared, image);
  return status;
}

void ProcessSet::WriteOperators(uint32_t image, const std::vector<OperatorInfo>& operators) {
  std::vector<OperatorEntry> entries;
  entries.reserve(operators.size());
  for (const OperatorInfo& info : operators) {
    entries.push_back(OperatorEntry{info.address, info.name, info.overload_name, ""});
  }
  sink_->AddMetadata([&](MetadataWriter& writer) { writer.AddOperators(image, entries); });
}

void ProcessSet::AddLateOperators(Pid pid, const ProbePlan& plan, uint32_t image,
                                  const std::vector<OperatorInfo>& added) {
  WriteOperators(image, added);
  schemas_.Collect(pid, plan, image, added);
  (void)AddAnnotationOperators(pid, plan,
                               added);  // a full map costs annotations, not the recording
}

absl::Status ProcessSet::AddAnnotationOperators(Pid pid, const ProbePlan& plan,
                                                const std::vector<OperatorInfo>& operators) {
  const uint32_t flags =
      plan.old_string_abi ? static_cast<uint32_t>(abi::PT_ANNOTATION_OLD_STRINGS) : 0u;
  for (const OperatorInfo& info : operators) {
    const uint32_t step = AnnotationStep(info.name);
    if (step == 0) continue;
    absl::Status status = programs_->AddAnnotationOperator(pid, info.address, step | flags);
    if (!status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status ProcessSet::PrepareMaps(Pid pid, const ProbePlan& plan) {
  if (absl::Status status = AddAnnotationOperators(pid, plan, plan.operators); !status.ok()) {
    return status;
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
  absl::Status status;
  for (const ModulePlan& module : plan->modules) {
    const ModulePlan mapped = followed ? ModuleOfChild(module, pid) : module;
    absl::StatusOr<LinkSet> added =
        AttachModule(programs_->api(), programs_->probe_program_fd(), mapped, pid, &report);
    status = added.status();
    if (!status.ok()) break;
    std::move(added->begin(), added->end(), std::back_inserter(links));
  }
  // Also of one that ended meanwhile: what its first probes gave came before this moment, and is
  // known to be outside the window.
  entry.target.probes_on_ns = MonotonicNs();
  entry.target.memory_recorded = plan->has_memory_probes && !RefusesMemory(*plan, report);
  sink_->AddMetadata([&entry](MetadataWriter& writer) { writer.AddProcess(entry); });
  if (!status.ok()) return status;
  operator_watch_.Add(pid, image, plan);
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

LinkSet ProcessSet::AttachCostPoints() {
  std::vector<std::pair<Pid, std::shared_ptr<const ProbePlan>>> plans;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [pid, process] : processes_) plans.emplace_back(Pid{pid}, process.plan);
  }
  LinkSet links;
  for (const auto& [pid, plan] : plans) {
    for (const ModulePlan& module : plan->modules) {
      if (module.cost_points.empty()) continue;
      ModulePlan second = ModuleOfChild(module, pid);
      second.points = second.cost_points;
      AttachReport report;
      auto added =
          AttachModule(programs_->api(), programs_->probe_program_fd(), second, pid, &report);
      // A process that has ended, say: what it costs there is not needed any more.
      if (!added.ok()) continue;
      std::move(added->begin(), added->end(), std::back_inserter(links));
    }
  }
  return links;
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

std::optional<Label> ProcessSet::SiteLabel(Pid pid, uint16_t site) const {
  const std::lock_guard lock(mutex_);
  const auto it = processes_.find(Raw(pid));
  if (it == processes_.end() || site >= it->second.plan->sites.size()) return std::nullopt;
  return it->second.plan->sites[site].label;
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
  if (!forget) return;
  processes_.erase(it);
  operator_watch_.Remove(pid);
}

void ProcessSet::FollowExec(Pid pid) {
  // The old image is gone, and so are the places of its probes.
  DropLinks(pid, /*forget=*/true);
  Await(pid);
}

bool ProcessSet::Looks::HasSettled(const ProbePlan& plan) {
  // While libraries register their operators the number grows: names and annotations would be
  // missing. A Python process loads the binding last.
  const size_t before = std::exchange(operators, plan.operators.size());
  const bool has_binding = plan.python_version.empty() || plan.python_node_vtable != 0;
  const bool is_settled = has_binding && before > 0 && before == operators;
  return is_settled || ++with_torch >= kMostLooks;
}

bool ProcessSet::TryAwaited(Pid pid, Looks* looks) {
  if (!Exists(pid)) return true;
  if (!HasTorch(pid)) return false;
  std::optional<HeldThread> held;
  // The first look may have to analyse a new library: it must not run away meanwhile.
  if (holds_awaited_ && looks->with_torch == 0) held.emplace(pid);
  absl::StatusOr<ProbePlan> plan = BuildProbePlan(pid, plan_options_);
  absl::Status status = plan.status();
  if (ExitCodeOf(status) == ExitCode::kNoTorch) return false;  // half loaded
  if (plan.ok()) {
    if (!looks->HasSettled(*plan)) return false;
    const uint32_t operators = plan->operator_count;
    if (holds_awaited_) {
      held.emplace(pid);
      plan->operators = ReadOperators(pid, *plan);
    }
    status = AttachImage(pid, *std::move(plan), /*followed=*/true);
    if (status.ok() && on_awaited_) on_awaited_(pid, operators);
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
    const bool is_quick = holds_awaited_ && !awaited_.empty();
    changed_.wait_for(lock, is_quick ? kAwaitOwnInterval : kAwaitInterval, ready);
    if (stop_) break;
    if (tasks_.empty()) {
      lock.unlock();
      TryAllAwaited();
      operator_watch_.Look();
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
  operator_watch_.Look();
  schemas_.Finish();
  for (const auto& [raw_pid, process] : processes_) {
    const Pid pid{raw_pid};
    for (const ThreadEntry& thread : ReadThreads(pid)) {
      sink_->AddMetadata([&thread](MetadataWriter& writer) { writer.AddThread(thread); });
    }
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
  for (Unsupported& gap : schemas_.gaps()) gaps.push_back(std::move(gap));
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
