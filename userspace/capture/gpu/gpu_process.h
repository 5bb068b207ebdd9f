// Reads from /proc how a process uses a GPU: its CUDA driver, its agent, and whether it may have
// one.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <cstdint>
#include <string>
#include <utility>

#include "userspace/model/ids.h"

namespace proftrace {

// Returns the address at which a process has mapped the CUDA driver; 0: it has not, so it has not
// used a GPU.
uint64_t DriverAddress(Pid pid);
inline bool HasCudaDriver(Pid pid) { return DriverAddress(pid) != 0; }

// Whether a living ancestor has the driver at the same address. If so, the process was forked after
// the driver was loaded, and CUDA does not work in it. A process that runs another program has the
// driver elsewhere.
bool IsForkOfGpuUser(Pid pid, uint64_t driver);

// Whether a process has an agent's memory open. Its maps would show that, too, but the process can
// map nothing while its maps are read.
bool HasAgentMemory(Pid pid);

// Whether a process was started with CUDA_INJECTION64_PATH=library, so that the driver loads that
// library when it is initialized. Always false where `library` is empty.
bool BringsAgent(Pid pid, const std::string& library);

// Finds the loader's numbers of a process's threads from their numbers in the process's PID
// namespace. CUPTI may report a thread after the thread has ended, so a thread's number is looked
// up while the thread lives, and kept for a while. May be used by one thread at a time.
class ThreadNumbers {
 public:
  explicit ThreadNumbers(Pid pid);
  // For tests: a process in another namespace whose folder in /proc is `folder`.
  explicit ThreadNumbers(std::string folder) : folder_(std::move(folder)) {}

  // Looks for new threads and for threads that have ended, every 5 ms at most. To be called often.
  // Does nothing where the namespace is the loader's own.
  void Look(int64_t now_ns);
  // Returns the loader's number of a thread; 0: not known.
  uint32_t Of(uint32_t inner, int64_t now_ns);

  // Returns how many calls of Of() had no answer.
  uint64_t unknown() const { return unknown_; }
  size_t size() const { return numbers_.size(); }

 private:
  struct Number {
    uint32_t outer = 0;
    int64_t ended_ns = 0;  // when the thread was seen to have ended; 0: it lives
  };
  uint32_t InnerOf(uint32_t outer) const;

  std::string folder_;
  bool is_same_ = false;
  int64_t read_ns_ = 0;
  absl::flat_hash_map<uint32_t, Number> numbers_;   // by inner number
  absl::flat_hash_map<uint32_t, uint32_t> living_;  // inner numbers by outer ones
  uint64_t unknown_ = 0;
};

}  // namespace proftrace
