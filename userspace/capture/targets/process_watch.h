// Reports forks, execs and ends of processes and threads where no BPF program does. It looks at
// /proc some twenty times a second, and has pidfds, which tell at once that a process has ended.
// Each event comes as a record like those that bpf/kernel/process.bpf.c writes.
//
// Its reports come later than the kernel's, and some are missing: a child that was forked and
// ended, or lost its parent, between two looks is not reported. A thread's end has the time at
// which it was found.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "userspace/base/unique_fd.h"
#include "userspace/model/ids.h"

namespace proftrace {

class ProcessWatch {
 public:
  // Gets one whole record, struct pt_record at the front, which is valid during the call.
  using OnRecord = std::function<void(std::span<const std::byte> record)>;

  // With `follow_children`, forks are reported, and children are watched like their parents.
  explicit ProcessWatch(bool follow_children);
  ~ProcessWatch();
  ProcessWatch(const ProcessWatch&) = delete;
  ProcessWatch& operator=(const ProcessWatch&) = delete;

  // Watches a process until it ends. May be called on any thread. The end of a process that has
  // ended already is reported, too. Fails with kHostUnfit where too many descriptors are open.
  absl::Status Add(Pid pid);

  // Waits up to `timeout_ms` for the end of a process, looks at /proc when it is time, and hands
  // over the records. Returns how many there were. To be called by one thread.
  uint64_t WaitAndTake(int timeout_ms, const OnRecord& on_record);

  // Returns the longest time between two looks, in nanoseconds.
  int64_t longest_interval_ns() const;

 private:
  struct Thread {
    std::string name;
    int64_t seen_ns = 0;   // when the thread was first seen
    int64_t named_ns = 0;  // when the thread's name was last read
  };
  struct Watched {
    UniqueFd fd;  // pidfd
    std::string image;
    std::map<uint32_t, Thread> threads;  // by tid
    std::set<uint32_t> children;         // as of the last look
    int64_t looked_ns = 0;
  };
  // A process that was added, until the thread that looks takes it.
  struct Added {
    UniqueFd fd;
    std::string image;
    int64_t time_ns = 0;
  };
  // Opens a pidfd; invalid where the process is gone.
  static absl::StatusOr<UniqueFd> Open(Pid pid);

  void TakeAdded();
  void Wait(int timeout_ms) const;
  void TellEnds();
  void LookAtAll();
  void Look(Pid pid, Watched* watched, std::vector<Pid>* forked);
  void LookAtThreads(Pid pid, Watched* watched, const std::vector<uint32_t>& tids);
  void LookAtChildren(Pid pid, Watched* watched, const std::vector<uint32_t>& tids,
                      std::vector<Pid>* forked);
  // Returns the children that a process has, each with the thread that counts as its parent.
  std::map<uint32_t, uint32_t> ChildrenOf(Pid pid, const std::vector<uint32_t>& tids) const;
  template <typename Record>
  void Tell(const Record& record);
  void TellThreadEnd(Pid pid, uint32_t tid, const std::string& name, bool group_dead,
                     uint32_t exit_code);

  const bool follow_children_;
  const bool has_children_files_;  // /proc/PID/task/TID/children
  std::map<uint32_t, Watched> processes_;
  // The parent of each process of the host, by pid; used where there are no such files.
  std::map<uint32_t, uint32_t> parents_;
  const OnRecord* on_record_ = nullptr;
  uint64_t told_ = 0;
  int64_t next_look_ns_ = 0;
  int64_t last_look_ns_ = 0;

  mutable std::mutex mutex_;         // guards the members below
  std::map<uint32_t, Added> added_;  // by pid
  int64_t longest_interval_ns_ = 0;
};

// Returns a mark of the program that a process runs: another string after each exec, the same
// string in a forked child. Empty where the process cannot be read, or is about to end.
std::string ReadImageMark(Pid pid);

// Returns how a process has ended, as wait() tells it; 0 where the kernel does not say. `fd` is the
// process's pidfd.
uint32_t ReadExitCode(Pid pid, const UniqueFd& fd);

}  // namespace proftrace
