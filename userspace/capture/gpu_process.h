// What /proc tells of a process's use of a GPU: its CUDA driver, its agent, and whether it may have
// one.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <cstdint>
#include <string>

#include "userspace/model/ids.h"

namespace proftrace {

// Where it has mapped the CUDA driver; 0 = nowhere: it has not used a GPU.
uint64_t DriverAddress(Pid pid);
inline bool HasCudaDriver(Pid pid) { return DriverAddress(pid) != 0; }

// Whether a living ancestor has the driver at the same address: then the process was forked after
// that was loaded, and CUDA does not work in it. Another program has it elsewhere.
bool IsForkOfGpuUser(Pid pid, uint64_t driver);

// Whether it has an agent's memory open. Its maps would say so, too, but while they are read the
// process can map nothing.
bool HasAgentMemory(Pid pid);

// Whether it was started with CUDA_INJECTION64_PATH=library: the driver loads that when it is
// initialized.
bool BringsAgent(Pid pid, const std::string& library);

// The loader's numbers of a process's threads, from their numbers in its PID namespace.
class ThreadNumbers {
 public:
  explicit ThreadNumbers(Pid pid);
  // 0 = not known.
  uint32_t operator()(uint32_t inner);

 private:
  void Read();

  Pid pid_;
  bool is_same_ = false;
  int64_t read_ns_ = 0;
  absl::flat_hash_map<uint32_t, uint32_t> numbers_;
};

}  // namespace proftrace
