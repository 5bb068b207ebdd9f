// Reads from /proc how a process uses a GPU: its CUDA driver, its agent, and whether it may have
// one.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <cstdint>
#include <string>
#include <utility>

#include "userspace/model/ids.h"

namespace proftrace {

// Returns where it has mapped the CUDA driver; 0: nowhere, so it has not used a GPU.
uint64_t DriverAddress(Pid pid);
inline bool HasCudaDriver(Pid pid) { return DriverAddress(pid) != 0; }

// Whether a living ancestor has the driver at the same address: then the process was forked after
// that was loaded, and CUDA does not work in it. Another program has it elsewhere.
bool IsForkOfGpuUser(Pid pid, uint64_t driver);

// Whether it has an agent's memory open. Its maps would say so, too, but while they are read the
// process can map nothing.
bool HasAgentMemory(Pid pid);

// Whether it was started with CUDA_INJECTION64_PATH=library: the driver loads that when it is
// initialized. Empty: none does.
bool BringsAgent(Pid pid, const std::string& library);

// The loader's numbers of a process's threads, from their numbers in its PID namespace. What CUPTI
// tells of a thread may come when that has ended: its number is found while it lives, and kept for
// a while. One thread at a time.
class ThreadNumbers {
 public:
  explicit ThreadNumbers(Pid pid);
  // For tests: a process in another namespace whose folder in /proc is `folder`.
  explicit ThreadNumbers(std::string folder) : folder_(std::move(folder)) {}

  // Looks for threads that are new, and for those that have ended, every 5 ms at most. To be called
  // often; where the namespace is the loader's own it does nothing.
  void Look(int64_t now_ns);
  // Returns the loader's number of a thread; 0 = not known.
  uint32_t Of(uint32_t inner, int64_t now_ns);

  // Questions that had no answer.
  uint64_t unknown() const { return unknown_; }
  size_t size() const { return numbers_.size(); }

 private:
  struct Number {
    uint32_t outer = 0;
    int64_t ended_ns = 0;  // when it was seen to have; 0 = it lives
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
