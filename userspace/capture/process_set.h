// The processes that are recorded: those that the user named, and the children that they fork or
// spawn. Each has its own links, filtered by its pid, so that other users of the same libraries pay
// nothing. A follower thread attaches to children while the caller goes on emptying the ring.
#pragma once

#include <absl/container/flat_hash_map.h>
#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "symbols/probe_plan.h"
#include "userspace/capture/attach.h"
#include "userspace/capture/bpf_programs.h"
#include "userspace/capture/capture_sink.h"
#include "userspace/model/recording.h"

namespace proftrace {

// Finds PyTorch in a running process. Fails as the interface's exit codes say. A new library's
// analysis takes memory for a second: to be called before the ring is there.
absl::StatusOr<ProbePlan> PlanProcess(Pid pid, const std::string& cache_directory);

class ProcessSet {
 public:
  // From the follower's thread: a forked child's probes are live, so long after its fork.
  using OnFollow = std::function<void(Pid child, int64_t after_ns)>;

  // `programs` and `sink` must outlive the set. `cache_directory`: of probe plans; empty = none.
  ProcessSet(BpfPrograms* programs, CaptureSink* sink, std::string cache_directory,
             OnFollow on_follow);
  ~ProcessSet();
  ProcessSet(const ProcessSet&) = delete;
  ProcessSet& operator=(const ProcessSet&) = delete;

  // Puts the probes of `plan` into a running process.
  absl::Status Attach(Pid pid, ProbePlan plan);
  // Descendants that `pid` has already: forked ones, as DataLoader workers are, are attached to
  // now, others as soon as they have PyTorch.
  void FollowDescendants(Pid pid);
  // A process that has no PyTorch yet: it is attached to as soon as it has.
  void Await(Pid pid);

  // What the kernel told of traced processes.
  void OnFork(Pid parent, Pid child, int64_t time_ns);
  void OnExec(Pid pid);
  void OnExit(Pid pid);  // its last thread

  // The address space of a process (CaptureMetadata::images); none when it is not recorded.
  std::optional<uint32_t> ImageOf(Pid pid) const;

  // Takes every probe out. No child is attached to afterwards.
  void Detach();
  // After Detach(), while the processes may still live: operators that were registered meanwhile,
  // thread names.
  void CollectLastNames();

  // Of the first process: what the ready line shows.
  uint32_t operator_count() const;
  uint64_t follow_failed() const;
  // What could not be recorded, and why: of the plans, of the kernel, and of children before their
  // probes were live.
  std::vector<Unsupported> gaps() const;

 private:
  struct Process {
    uint32_t image = 0;
    uint32_t plan_id = 0;
    std::shared_ptr<const ProbePlan> plan;
    LinkSet links;
  };
  // What was found in an awaited process so far.
  struct Looks {
    int with_torch = 0;    // how often PyTorch was there
    size_t operators = 0;  // that it had registered at the last look
  };
  enum class TaskKind { kFork, kExec, kExit };
  struct Task {
    TaskKind kind;
    Pid pid;
    Pid parent;
    int64_t time_ns;
    bool is_over = false;  // a fork whose child has ended since
  };

  absl::Status AttachWithPlan(Pid pid, std::shared_ptr<const ProbePlan> plan, uint32_t plan_id,
                              uint32_t image, bool followed);
  absl::Status AttachImage(Pid pid, ProbePlan plan, bool followed);
  absl::Status PrepareMaps(Pid pid, const ProbePlan& plan);
  void FollowFork(const Task& task);
  void FollowExec(Pid pid);
  void DropLinks(Pid pid, bool forget);
  bool TryAwaited(Pid pid, Looks* looks);
  void RunFollower();
  void TryAllAwaited();
  void WriteOperators(uint32_t image, const std::vector<OperatorInfo>& operators);

  BpfPrograms* programs_;
  CaptureSink* sink_;
  std::string cache_directory_;
  OnFollow on_follow_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::map<uint32_t, Process> processes_;  // by pid
  std::deque<Task> tasks_;
  std::map<uint32_t, Looks> awaited_;  // by pid
  std::vector<Unsupported> gaps_;
  uint32_t next_image_ = 1;
  uint32_t next_plan_ = 1;
  uint32_t operator_count_ = 0;
  uint64_t follow_failed_ = 0;
  uint64_t followed_ = 0;
  int64_t longest_follow_ns_ = 0;  // from a fork until the child's probes were live
  bool stop_ = false;
  std::thread follower_;
};

}  // namespace proftrace
