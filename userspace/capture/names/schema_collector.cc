#include "userspace/capture/names/schema_collector.h"

#include <algorithm>
#include <initializer_list>
#include <string>
#include <string_view>
#include <utility>

#include "symbols/plan/planner.h"
#include "symbols/plan/process.h"
#include "symbols/plan/process_groups.h"
#include "userspace/base/give_way.h"
#include "userspace/capture/plans/process_plan.h"
#include "userspace/capture/targets/target_info.h"

namespace proftrace {
namespace {

constexpr char kSchemasFeature[] = "operator schemas";

// Returns why some schemas are missing; empty where none is.
std::string Reason(const SchemaTexts& reading) {
  if (!reading.refusal.empty()) return reading.refusal;
  if (reading.unreadable == 0) return "";
  return std::to_string(reading.unreadable) + " of " +
         std::to_string(reading.unreadable + reading.found.size()) +
         " were not as expected and are left out";
}

bool HasThreadsNamed(Pid pid, std::initializer_list<std::string_view> names) {
  const std::vector<ThreadEntry> threads = ReadThreads(pid);
  return std::any_of(threads.begin(), threads.end(), [names](const ThreadEntry& thread) {
    return std::any_of(names.begin(), names.end(),
                       [&thread](std::string_view name) { return thread.name.starts_with(name); });
  });
}

// Whether the process has threads of a backend. A launcher has a thread for the store that its
// ranks meet at, but no group.
bool HasGroupThreads(Pid pid) { return HasThreadsNamed(pid, {"pt_gloo", "pt_nccl"}); }

// Whether the process may have groups. Where threads' names tell that it has none, a costly look
// through its heap is saved.
bool MayHaveGroups(Pid pid, const ProbePlan& plan) {
  if (!NamesGroupThreads(plan.torch_version)) return true;
  return HasGroupThreads(pid) || HasThreadsNamed(pid, {"pt_tcpstore"});
}

}  // namespace

SchemaCollector::SchemaCollector(CaptureSink* sink) : sink_(sink) {
  thread_ = std::thread([this] { Run(); });
}

SchemaCollector::~SchemaCollector() { Finish(); }

void SchemaCollector::Start() {
  const std::lock_guard lock(mutex_);
  started_ = true;
  changed_.notify_all();
}

void SchemaCollector::Request(Pid pid, std::shared_ptr<const ProbePlan> plan, uint32_t image) {
  const std::lock_guard lock(mutex_);
  jobs_.push_back(Job{pid, std::move(plan), image});
  changed_.notify_all();
}

void SchemaCollector::Collect(Pid pid, const ProbePlan& plan, uint32_t image,
                              const std::vector<OperatorInfo>& operators) {
  const SchemaTexts reading = ReadSchemaTexts(pid, plan, operators);
  std::vector<SchemaEntry> entries;
  entries.reserve(reading.found.size());
  for (const OperatorInfo& info : reading.found) {
    entries.push_back(SchemaEntry{info.address, info.schema});
  }
  if (!entries.empty()) {
    sink_->AddMetadata([&](MetadataWriter& writer) { writer.AddSchemas(image, entries); });
  }
  Unsupported gap{kSchemasFeature, Reason(reading)};
  if (gap.reason.empty()) return;
  // Where the program was replaced, other contents lie at the plan's addresses now.
  if (!HasFiles(pid, plan)) {
    gap.reason = "PID " + std::to_string(Raw(pid)) +
                 " had replaced its program, or had ended, before all of them were read";
  }
  AddGap(std::move(gap));
}

void SchemaCollector::AddGap(Unsupported gap) {
  const std::lock_guard lock(mutex_);
  const bool is_known = std::any_of(gaps_.begin(), gaps_.end(), [&gap](const Unsupported& other) {
    return other.feature == gap.feature && other.reason == gap.reason;
  });
  if (!is_known) gaps_.push_back(std::move(gap));
}

void SchemaCollector::CollectJob(Pid pid, const ProbePlan& plan) {
  // Groups are read first, because the process may end soon.
  const bool may_have_groups = MayHaveGroups(pid, plan);
  if (may_have_groups) CollectGroups(pid, plan);
  // A program may set its rank only once its imports are done.
  const absl::StatusOr<ProcessInfo> info = ReadProcessInfo(pid);
  if (!info.ok()) return;
  if (info->rank.has_value() || info->job != JobIdentity()) {
    const JobEntry job{info->rank, info->world_size, info->job};
    sink_->AddMetadata([&](MetadataWriter& writer) { writer.AddJob(pid, job); });
  }
  if (!may_have_groups && info->rank.has_value()) CollectGroups(pid, plan);
}

void SchemaCollector::CollectGroups(Pid pid, const ProbePlan& plan) {
  const ProcessGroupReading reading = ReadProcessGroups(pid, plan);
  if (!reading.cut.empty()) {
    AddGap({"process groups",
            "PID " + std::to_string(Raw(pid)) + " was not looked through: " + reading.cut});
  }
  if (reading.groups.empty()) {
    // RANK alone says little, because a launcher's other children have it too.
    if (reading.cut.empty() && HasGroupThreads(pid)) {
      AddGap({"process groups", "they were not found in the memory of PID " +
                                    std::to_string(Raw(pid)) + ", which has threads of them"});
    }
    return;
  }
  sink_->AddMetadata(
      [&](MetadataWriter& writer) { writer.AddProcessGroups(pid, reading.groups, reading.count); });
  if (!reading.without_members.empty()) {
    AddGap({"members of process groups", reading.without_members});
  }
}

void SchemaCollector::Run() {
  GiveWay();
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stop_ || (started_ && !jobs_.empty()); });
    if (jobs_.empty()) return;
    const Job job = std::move(jobs_.front());
    jobs_.pop_front();
    lock.unlock();
    Collect(job.pid, *job.plan, job.image, job.plan->operators);
    CollectJob(job.pid, *job.plan);
    lock.lock();
  }
}

void SchemaCollector::Finish() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

std::vector<Unsupported> SchemaCollector::gaps() const {
  const std::lock_guard lock(mutex_);
  return gaps_;
}

}  // namespace proftrace
