// Sums up what GPUs and collectives did for a process during its steps.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "userspace/base/stretches.h"
#include "userspace/model/timeline.h"

namespace proftrace {

// The stretches of time of each kind of work in a process, in CLOCK_MONOTONIC or in the unit of the
// input.
struct ProcessWork {
  bool has_device = false;  // a GPU's work was recorded
  Stretches busy;           // a GPU worked
  Stretches compute;        // a GPU did other work than communication; without a GPU: operators ran
  // kernels of communication ran; where there are none: works of collectives
  Stretches communication;
  Stretches overlap;  // both communication and compute
};

struct StepWork {
  std::optional<int64_t> gpu_busy_ns;
  std::optional<int64_t> gpu_compute_ns;
  std::optional<int64_t> gpu_idle_ns;
  int64_t comm_ns = 0;
  int64_t comm_overlap_ns = 0;  // the part in which the process also computed
  int64_t comm_exposed_ns = 0;  // the part in which it did not compute
};

// Collects pieces of work, in any order. Memory: two words for each piece.
class WorkCollector {
 public:
  void AddDeviceWork(int64_t begin_ns, int64_t end_ns, bool is_communication) {
    (is_communication ? kernels_ : device_).emplace_back(begin_ns, end_ns);
    has_device_ = true;
  }
  // Adds a collective as its backend's thread runs it.
  void AddCollective(int64_t begin_ns, int64_t end_ns) { works_.emplace_back(begin_ns, end_ns); }
  // Adds an operator at the top level of a thread that runs no collectives.
  void AddOperator(int64_t begin_ns, int64_t end_ns) { operators_.emplace_back(begin_ns, end_ns); }
  void set_has_device() { has_device_ = true; }

  ProcessWork Finish() &&;

 private:
  bool has_device_ = false;
  std::vector<Stretch> device_;
  std::vector<Stretch> kernels_;
  std::vector<Stretch> works_;
  std::vector<Stretch> operators_;
};

ProcessWork WorkOfProcess(const Timeline& timeline, Pid pid);

StepWork WorkIn(const ProcessWork& work, int64_t begin_ns, int64_t end_ns);

}  // namespace proftrace
