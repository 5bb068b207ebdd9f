// A thread that attaches to children and to late processes and libraries, while the caller goes on
// emptying the ring. Forks, execs and ends come to it in their order.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <thread>

#include "userspace/capture/processes/attacher.h"
#include "userspace/capture/processes/awaited_processes.h"
#include "userspace/capture/processes/late_arrivals.h"
#include "userspace/capture/processes/process_parts.h"
#include "userspace/capture/processes/shared_parts.h"
#include "userspace/model/ids.h"

namespace proftrace {

// The functions but Run() and those that it calls are for other threads. The lock guards the tasks
// alone; KnownProcesses's is taken meanwhile to see whether processes are awaited, and no other.
class Follower {
 public:
  // All must outlive the follower, whose thread begins at once.
  Follower(SharedParts* shared, Attacher* attacher, AwaitedProcesses* awaited, LateArrivals* late,
           const ProcessCallbacks* callbacks);
  ~Follower() { Stop(); }
  Follower(const Follower&) = delete;
  Follower& operator=(const Follower&) = delete;

  // Take the kernel's reports on traced processes, as ProcessSet does.
  void OnFork(Pid parent, Pid child, int64_t time_ns, bool shares_memory);
  void OnExec(Pid pid);
  void OnExit(Pid pid, int64_t time_ns);
  // Takes probes of demoted operators out of a process.
  void RemoveProbes(Pid pid, RemovedProbes removed);
  // Ends the thread. Nothing is attached to afterwards.
  void Stop();

 private:
  enum class TaskKind { kFork, kExec, kExit, kRemoveProbes };
  struct Task {
    TaskKind kind;
    Pid pid;
    Pid parent{};
    int64_t time_ns = 0;
    bool is_over = false;  // for kFork: the child has ended since
  };

  void Add(const Task& task);
  bool HasTask();
  void Run();
  // Looks for all that the kernel does not report.
  void Look();
  void Follow(const Task& task);
  void FollowFork(const Task& task);
  void FollowExec(Pid pid);
  // Forgets recorded processes that have ended without a record of it (the kernel had no room for
  // one).
  void ForgetEnded();

  SharedParts* shared_;
  Attacher* attacher_;
  AwaitedProcesses* awaited_;
  LateArrivals* late_;
  const ProcessCallbacks* callbacks_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Task> tasks_;
  // These two are for the thread.
  uint64_t exits_lost_ = 0;
  uint32_t looks_for_ended_ = 0;
  std::thread thread_;
};

}  // namespace proftrace
