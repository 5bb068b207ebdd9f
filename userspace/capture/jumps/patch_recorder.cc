#include "userspace/capture/jumps/patch_recorder.h"

#include <unistd.h>

#include <algorithm>
#include <deque>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "symbols/plan/process.h"
#include "symbols/process/process_maps.h"
#include "userspace/base/clock.h"
#include "userspace/base/exit_status.h"
#include "userspace/capture/plans/process_plan.h"
#include "userspace/capture/targets/job_threads.h"
#include "userspace/capture/targets/target_info.h"
#include "userspace/inject/quiet_moment.h"
#include "userspace/inject/standstill.h"
#include "userspace/patch/code_audit.h"
#include "userspace/patch/python_end.h"
#include "userspace/patch/target_lock.h"
#include "userspace/patch/whole_sites.h"

namespace proftrace {
namespace {

// The size of a thread's part of the ring, in words, where the thread that empties the rings may
// not run before all others. A busy machine then keeps that thread waiting for longer.
constexpr uint32_t kPatientSlotWords = 1u << 19;
// How long a frozen process is waited for before it keeps its jumps: a pause of the whole container
// may be over soon.
constexpr int64_t kThawLimitNs = 3'000'000'000;

std::string ExecutableOf(Pid pid) {
  char path[4096];
  const std::string link = "/proc/" + std::to_string(Raw(LivingThread(pid))) + "/exe";
  const ssize_t bytes = readlink(link.c_str(), path, sizeof(path));
  return bytes > 0 ? std::string(path, static_cast<size_t>(bytes)) : std::string();
}

using PointSet = std::set<std::pair<size_t, size_t>>;  // by index of the module and of the point

PointSet PointsOf(const PatchedCode& code, const std::vector<size_t>& spots) {
  PointSet points;
  for (const size_t i : spots) {
    if (IsPythonEnd(code.spots()[i])) continue;
    points.emplace(code.spots()[i].module, code.spots()[i].point);
  }
  return points;
}

// Returns the points of the plan's modules from `first` on that have no jump. Points where the code
// differs from its file are left out, because somebody else has changed it and no probe may go
// there either.
std::vector<ModulePlan> PointsLeft(const PatchedCode& code, const ProbePlan& plan, size_t first) {
  PointSet taken = PointsOf(code, code.WrittenSpots());
  taken.merge(PointsOf(code, code.ChangedSpots()));
  std::vector<ModulePlan> left(plan.modules.begin() + static_cast<int64_t>(first),
                               plan.modules.end());
  for (size_t m = 0; m < left.size(); ++m) {
    std::vector<ProbePoint> points;
    for (size_t p = 0; p < left[m].points.size(); ++p) {
      if (!taken.contains({first + m, p})) points.push_back(left[m].points[p]);
    }
    left[m].points = std::move(points);
  }
  return left;
}

bool HasCatch(const std::vector<ModulePlan>& modules) {
  return std::any_of(modules.begin(), modules.end(), [](const ModulePlan& module) {
    return std::any_of(module.points.begin(), module.points.end(),
                       [](const ProbePoint& point) { return RoleOf(point) == abi::PT_ROLE_CATCH; });
  });
}

PatchRing::ThreadNumber NumbersOf(std::shared_ptr<JobThreads> threads) {
  return [threads = std::move(threads)](uint32_t tid) { return threads->NumberOf(tid); };
}

uint64_t LostOf(const PatchRingCounts& counts) {
  return counts.lost + counts.abandoned + counts.damages + counts.lapses;
}

}  // namespace

PatchRecorder::PatchRecorder(bool alone, bool with_stack, std::string cache_directory,
                             std::function<void(std::span<const std::byte>)> on_module)
    : alone_(alone),
      with_stack_(with_stack),
      on_module_(std::move(on_module)),
      cache_directory_(std::move(cache_directory)),
      guardian_(PatchGuardian::Start()),
      emptied_until_ns_(MonotonicNs()) {
  thread_ = std::thread([this] { Run(); });
}

PatchRecorder::~PatchRecorder() { Detach(); }

absl::StatusOr<PlanSpots> PatchRecorder::SpotsOf(Pid pid, const ProbePlan& plan, size_t first,
                                                 const PatchedCode* code) const {
  ProbePlan wanted = plan;
  for (size_t m = 0; m < first; ++m) wanted.modules[m].points.clear();
  absl::StatusOr<PlanSpots> spots = FindPlanSpots(pid, wanted, PlacesOf(plan), cache_directory_);
  if (!spots.ok()) return spots;
  if (alone_) {
    // Rows may begin in one library and end in another.
    const PointSet has_jump = first == 0 ? PointSet() : PointsOf(*code, code->WrittenSpots());
    for (size_t m = 0; m < first; ++m) {
      for (size_t p = 0; p < plan.modules[m].points.size(); ++p) {
        if (!has_jump.contains({m, p})) spots->unpatched.push_back({m, p, ""});
      }
    }
    KeepWholeSites(plan, &*spots);
  }
  if (with_stack_) AddStacks(plan, &*spots);
  return spots;
}

absl::StatusOr<PlanSpots> PatchRecorder::AllSpotsOf(Pid pid,
                                                    const std::shared_ptr<const ProbePlan>& plan) {
  const std::lock_guard lock(spots_mutex_);
  if (last_plan_.lock() == plan) return last_spots_;
  absl::StatusOr<PlanSpots> spots = SpotsOf(pid, *plan, 0, nullptr);
  if (spots.ok()) {
    last_plan_ = plan;
    last_spots_ = *spots;
  }
  return spots;
}

std::vector<abi::pt_place> PatchRecorder::PlacesOf(const ProbePlan& plan) const {
  return alone_ ? PlacesWithoutBpf(plan) : plan.places;
}

absl::StatusOr<std::unique_ptr<PatchedProcess>> PatchRecorder::AttachFork(
    Pid pid, const std::shared_ptr<JobThreads>& threads) {
  if (!HasPatches(pid)) return nullptr;
  std::shared_ptr<PatchedProcess> parent;
  {
    const std::lock_guard lock(mutex_);
    const auto it = processes_.find(Raw(ReadParent(pid)));
    if (it == processes_.end()) return nullptr;
    parent = it->second.patched;
  }
  absl::StatusOr<std::unique_ptr<PatchedProcess>> child =
      PatchedProcess::AttachFork(pid, *parent, NumbersOf(threads));
  if (absl::IsFailedPrecondition(child.status())) return child;
  return child.ok() ? *std::move(child) : nullptr;
}

void PatchRecorder::Add(Pid pid, Process process, std::shared_ptr<JobThreads> threads) {
  std::string executable = ExecutableOf(pid);
  const std::lock_guard lock(mutex_);
  if (!executable.empty()) executables_.insert(std::move(executable));
  has_patched_ = true;
  processes_[Raw(pid)] = std::move(process);
  threads_[Raw(pid)] = std::move(threads);
}

// Lives while a process is being attached to. The process may record already, although its ring is
// not emptied yet.
class PatchRecorder::Begun {
 public:
  explicit Begun(PatchRecorder* recorder) : recorder_(*recorder) {
    const std::lock_guard lock(recorder_.mutex_);
    at_ = recorder_.begun_.insert(MonotonicNs());
  }
  ~Begun() {
    const std::lock_guard lock(recorder_.mutex_);
    recorder_.begun_.erase(at_);
  }
  Begun(const Begun&) = delete;
  Begun& operator=(const Begun&) = delete;

 private:
  PatchRecorder& recorder_;
  std::multiset<int64_t>::iterator at_;
};

absl::StatusOr<std::shared_ptr<PatchedProcess>> PatchRecorder::Patch(
    Pid pid, const std::shared_ptr<const ProbePlan>& plan, StoppedThreads* held) {
  const auto threads = std::make_shared<JobThreads>(pid);
  {
    const Begun begun(this);
    absl::StatusOr<std::unique_ptr<PatchedProcess>> forked = AttachFork(pid, threads);
    if (!forked.ok()) return forked.status();
    if (std::shared_ptr<PatchedProcess> child = *std::move(forked); child != nullptr) {
      Add(pid, {child, plan}, threads);
      const std::lock_guard lock(mutex_);
      pythons_.erase(Raw(pid));  // the child has its parent's facts of Python
      return child;
    }
  }
  absl::StatusOr<PlanSpots> spots = AllSpotsOf(pid, plan);
  if (!spots.ok()) return spots.status();
  PatchRingOptions options;
  options.pid = pid;
  options.salt = static_cast<uint32_t>(MonotonicNs());
  if (!Hurry().is_first()) options.slot_words = kPatientSlotWords;
  options.facts = FactsOf(*plan);
  options.places = PlacesOf(*plan);
  options.reads_inputs = plan->has_input_probes;
  options.signatures = plan->signatures;
  options.node_signature = plan->node_signature;
  options.reads_stacks = with_stack_;
  {
    const std::lock_guard lock(mutex_);
    if (const auto python = pythons_.find(Raw(pid)); python != pythons_.end()) {
      options.python = python->second.facts;
      spots->spots.push_back(std::move(python->second.end));
      pythons_.erase(python);
    }
  }
  const Begun begun(this);
  absl::StatusOr<std::shared_ptr<PatchedProcess>> made =
      PatchedProcess::Attach(pid, std::move(spots->spots), options, NumbersOf(threads), held);
  if (!made.ok()) return made;
  const PatchedCode& code = *(*made)->code();
  if (options.python.has_value() && !(*made)->ring()->are_stacks_read()) {
    const std::lock_guard lock(mutex_);
    gaps_.push_back({"Python stacks", "PID " + std::to_string(Raw(pid)) +
                                          ": rows that jumps record have none: the place where "
                                          "Python's end would wait for threads that read was "
                                          "changed by somebody else"});
  }
  if (with_stack_ && AreEndsSeen(*plan, code.spots(), code.WrittenSpots())) {
    (*made)->ring()->SetEndsAreSeen(true);
  }
  Add(pid, {*made, plan}, threads);
  return made;
}

void PatchRecorder::NameSpotsWithoutJump(Pid pid, const PatchedCode& code, size_t first) {
  const std::string who = "PID " + std::to_string(Raw(pid)) + ": ";
  const auto is_new = [&](size_t i) {
    return !IsPythonEnd(code.spots()[i]) && code.spots()[i].module >= first;
  };
  const std::vector<size_t> changed = code.ChangedSpots();
  if (const auto count = std::count_if(changed.begin(), changed.end(), is_new); count > 0) {
    gaps_.push_back({"places in the code", who + std::to_string(count) +
                                               " were changed by somebody else and are not "
                                               "recorded"});
  }
  const auto count = std::count_if(
      code.refused().begin(), code.refused().end(), [&](const PatchedCode::Refusal& refusal) {
        return is_new(refusal.spot) && refusal.reason == PatchedCode::kNoRoom;
      });
  if (count > 0) {
    gaps_.push_back({"jumps in the job's code",
                     who + std::to_string(count) + " of " + std::to_string(code.spots().size()) +
                         " places have none" + (alone_ ? "" : ", but probes, which cost more") +
                         ": " + PatchedCode::kNoRoom});
  }
}

absl::StatusOr<std::vector<ModulePlan>> PatchRecorder::Attach(Pid pid,
                                                              std::shared_ptr<const ProbePlan> plan,
                                                              StoppedThreads* held) {
  guardian_->Watch(pid);
  const absl::StatusOr<std::shared_ptr<PatchedProcess>> patched = Patch(pid, plan, held);
  if (ExitCodeOf(patched.status()) == ExitCode::kHostUnfit && !HasFiles(pid, *plan)) {
    return Fail(ExitCode::kNoTarget,
                "PID " + std::to_string(Raw(pid)) + " runs another program by now, or has ended");
  }
  if (!patched.ok()) return patched.status();
  const PatchedCode& code = *(*patched)->code();
  std::vector<ModulePlan> left = PointsLeft(code, *plan, 0);
  const std::lock_guard lock(mutex_);
  NameSpotsWithoutJump(pid, code, 0);
  return left;
}

absl::Status PatchRecorder::AddPython(Pid pid, const std::string& file, PythonFacts python) {
  absl::StatusOr<PatchSpot> end = FindPythonEnd(pid, file, cache_directory_);
  if (!end.ok()) return end.status();
  python.end = end->address();
  copies_.SetLayout(pid, python.layout);
  const std::lock_guard lock(mutex_);
  pythons_[Raw(pid)] = {python, *std::move(end)};
  return absl::OkStatus();
}

std::vector<ModulePlan> PatchRecorder::Extend(Pid pid, std::shared_ptr<const ProbePlan> plan,
                                              std::vector<ModulePlan> added) {
  std::shared_ptr<PatchedProcess> patched;
  JobFacts facts;
  {
    const std::lock_guard lock(mutex_);
    const auto it = processes_.find(Raw(pid));
    if (it == processes_.end()) return added;
    patched = it->second.patched;
    facts = patched->code()->facts();
    // A row that was open when the library was loaded may have been left by a catch that was not
    // recorded.
    if (HasCatch(added)) patched->ring()->SetEndsAreSeen(false);
  }
  const size_t first = plan->modules.size() - added.size();
  absl::StatusOr<PlanSpots> spots = SpotsOf(pid, *plan, first, patched->code());
  absl::Status status = spots.status();
  if (status.ok() && spots->spots.empty()) return added;
  if (status.ok()) {
    status =
        patched->Extend(std::move(spots->spots), RecorderTables(PlacesOf(*plan), plan->signatures),
                        plan->node_signature, facts);
  }
  const std::lock_guard lock(mutex_);
  patched->Adopt();
  const PatchedCode& code = *patched->code();
  if (const auto it = processes_.find(Raw(pid)); it != processes_.end()) it->second.plan = plan;
  if (patched->ring()->ends_are_seen() && !AreEndsSeen(*plan, code.spots(), code.WrittenSpots())) {
    patched->ring()->SetEndsAreSeen(false);
  }
  if (!status.ok() && ExitCodeOf(status) != ExitCode::kNoTarget) {
    gaps_.push_back({"jumps in libraries that were loaded while recording",
                     "PID " + std::to_string(Raw(pid)) + ": " + std::string(status.message())});
  }
  NameSpotsWithoutJump(pid, code, first);
  return PointsLeft(code, *plan, first);
}

void PatchRecorder::RemoveAutogradLayout(Pid pid) {
  const std::lock_guard lock(mutex_);
  const auto it = processes_.find(Raw(pid));
  if (it == processes_.end()) return;
  PatchedCode* code = it->second.patched->code();
  JobFacts facts = code->facts();
  facts.autograd = {};
  (void)code->SetFacts(facts);
}

void PatchRecorder::AddOperators(Pid pid, const ProbePlan& plan,
                                 const std::vector<OperatorInfo>& added) {
  const std::lock_guard lock(mutex_);
  const auto it = processes_.find(Raw(pid));
  if (it == processes_.end()) return;
  PatchedCode* code = it->second.patched->code();
  JobFacts facts = code->facts();
  if (AddAnnotations(plan, added, &facts)) (void)code->SetFacts(facts);
}

void PatchRecorder::AddPythonNode(Pid pid, uint64_t vtable) {
  const std::lock_guard lock(mutex_);
  const auto it = processes_.find(Raw(pid));
  if (it == processes_.end()) return;
  PatchedCode* code = it->second.patched->code();
  JobFacts facts = code->facts();
  for (uint64_t& known : facts.python_nodes) {
    if (known == vtable) return;
    if (known != 0) continue;
    known = vtable;
    (void)code->SetFacts(facts);
    return;
  }
}

bool PatchRecorder::Demote(Pid pid, uint16_t site, uint32_t number, bool records_ends) {
  const std::lock_guard lock(mutex_);
  const auto it = processes_.find(Raw(pid));
  if (it == processes_.end()) return true;
  if (!it->second.patched->ring()->Demote(site, records_ends)) return false;
  demoted_.try_emplace(number, Demoted{pid, site, std::nullopt});
  return true;
}

uint64_t PatchRecorder::CountedCalls(uint32_t number) const {
  const std::lock_guard lock(mutex_);
  const auto known = demoted_.find(number);
  if (known == demoted_.end()) return 0;
  const Demoted& demoted = known->second;
  if (demoted.calls.has_value()) return *demoted.calls;
  const auto it = processes_.find(Raw(demoted.pid));
  return it == processes_.end() ? 0 : it->second.patched->ring()->CountedCalls(demoted.site);
}

void PatchRecorder::Close(Pid pid, Process process) {
  // The lock keeps others from putting probes into pages that are given back to the file.
  const absl::StatusOr<TargetLock> code = TargetLock::TakeForJumps(pid);
  absl::Status status = process.patched->Detach();
  // A zombie has no memory, and so no jumps.
  if (!status.ok() && !HasProgram(pid)) status = absl::OkStatus();
  if (status.ok()) guardian_->Forget(pid);
  const absl::Status code_status = status.ok() ? CheckCode(pid) : absl::OkStatus();
  DrainLast(pid, process.patched->ring());
  const std::lock_guard lock(mutex_);
  // For a process that has ended CheckCode() fails with another code.
  if (ExitCodeOf(code_status) == ExitCode::kHostUnfit) {
    gaps_.push_back({"the job's code", std::string(code_status.message())});
    code_status_.Update(code_status);
  }
  for (auto& [number, demoted] : demoted_) {
    if (demoted.pid != pid || demoted.calls.has_value()) continue;
    demoted.calls = process.patched->ring()->CountedCalls(demoted.site);
  }
  const PatchRingCounts counts = process.patched->ring()->counts();
  ended_.lost += LostOf(counts);
  ended_.read_failed += counts.read_failed;
  ended_.unslotted += counts.unslotted;
  ended_.unslotted_threads += counts.unslotted_threads;
  if (!status.ok()) NoteLeft(pid, status);
}

void PatchRecorder::NoteLeft(Pid pid, const absl::Status& status) {
  const std::string number = std::to_string(Raw(pid));
  const std::optional<Standstill> still = FindStandstill(pid);
  std::string text = "PID " + number + " keeps them: " +
                     (still.has_value() ? still->sentence : std::string(status.message())) +
                     "; 'proftrace clean -p " + number + "' takes them out";
  gaps_.push_back({"jumps in the job's code", text});
  left_behind_.push_back("jumps in the job's code: " + std::move(text));
}

void PatchRecorder::Forget(Pid pid) {
  copies_.Forget(pid);
  Process process;
  {
    const std::lock_guard lock(mutex_);
    pythons_.erase(Raw(pid));
    const auto it = processes_.find(Raw(pid));
    if (it == processes_.end()) return;
    process = std::move(it->second);
    processes_.erase(it);
  }
  Close(pid, std::move(process));
  // The process's children have its jumps, and may outlive this program.
  for (const Pid fork : FindForks()) {
    guardian_->Watch(fork);
    const std::lock_guard lock(mutex_);
    forks_.insert(fork);
  }
}

std::vector<Pid> PatchRecorder::FindForks() const {
  std::set<std::string> executables;
  std::set<uint32_t> recorded;
  {
    const std::lock_guard lock(mutex_);
    executables = executables_;
    for (const auto& [pid, process] : processes_) recorded.insert(pid);
  }
  std::vector<Pid> forks;
  for (const uint32_t number : ReadNumberedEntries("/proc")) {
    const Pid pid{number};
    if (recorded.contains(number) || !executables.contains(ExecutableOf(pid))) continue;
    // Processes of another tracer are not ours: they are locked for as long as it records.
    if (HasOwnPatches(pid)) forks.push_back(pid);
  }
  return forks;
}

void PatchRecorder::CleanForks(const std::map<uint32_t, Process>& closed) {
  for (const Pid pid : FindForks()) {
    if (closed.contains(Raw(pid))) continue;
    const absl::Status status = RemoveLeftPatches(pid).status();
    if (status.ok() || ExitCodeOf(status) == ExitCode::kNoTarget) continue;
    if (!HasProgram(pid)) continue;  // it ended meanwhile, and its jumps with it
    guardian_->Watch(pid);
    const std::lock_guard lock(mutex_);
    forks_.erase(pid);
    NoteLeft(pid, status);
  }
  const std::lock_guard lock(mutex_);
  for (const Pid pid : std::exchange(forks_, {})) {
    if (!closed.contains(Raw(pid))) guardian_->Forget(pid);
  }
}

void PatchRecorder::Detach() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  if (thread_.joinable()) thread_.join();
  std::map<uint32_t, Process> processes;
  {
    const std::lock_guard lock(mutex_);
    processes = std::exchange(processes_, {});
  }
  const int64_t thaw_ns = MonotonicNs() + kThawLimitNs;
  for (auto& [pid, process] : processes) AwaitThaw(Pid{pid}, thaw_ns);
  for (auto& [pid, process] : processes) Close(Pid{pid}, process);
  CleanForks(processes);
  const std::lock_guard lock(mutex_);
  emptied_until_ns_ = MonotonicNs();
}

bool PatchRecorder::has_patched() const {
  const std::lock_guard lock(mutex_);
  return has_patched_;
}

uint64_t PatchRecorder::lost() const {
  const std::lock_guard lock(mutex_);
  uint64_t lost = ended_.lost;
  for (const auto& [pid, process] : processes_) {
    lost += LostOf(process.patched->ring()->counts());
  }
  return lost;
}

uint64_t PatchRecorder::read_failed() const {
  const std::lock_guard lock(mutex_);
  uint64_t failed = ended_.read_failed;
  for (const auto& [pid, process] : processes_) {
    failed += process.patched->ring()->counts().read_failed;
  }
  return failed;
}

std::vector<std::string> PatchRecorder::left_behind() const {
  const std::lock_guard lock(mutex_);
  return left_behind_;
}

absl::Status PatchRecorder::code_status() const {
  const std::lock_guard lock(mutex_);
  return code_status_;
}

std::vector<Unsupported> PatchRecorder::gaps() const {
  const std::lock_guard lock(mutex_);
  std::vector<Unsupported> gaps = gaps_;
  uint64_t unslotted = ended_.unslotted;
  uint64_t threads = ended_.unslotted_threads;
  for (const auto& [pid, process] : processes_) {
    const PatchRingCounts counts = process.patched->ring()->counts();
    unslotted += counts.unslotted;
    threads += counts.unslotted_threads;
  }
  if (unslotted > 0) {
    gaps.push_back({"threads that jumps record",
                    "at least " + std::to_string(threads) + " threads found no room beside the " +
                        std::to_string(PATCH_SLOTS) + " that a process has: " +
                        std::to_string(unslotted) + " of their records are lost"});
  }
  if (lapse_ns_ > 0) {
    gaps.push_back({"records of jumps",
                    "proftrace had no processor for so long that nothing was recorded for " +
                        std::to_string(lapse_ns_ / 1'000'000) + " ms in all"});
  }
  return gaps;
}

}  // namespace proftrace
