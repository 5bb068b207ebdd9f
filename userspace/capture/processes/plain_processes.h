// Keeps processes that are recorded without their operators (--activities without cpu). They need
// no PyTorch, and no probes.
#pragma once

#include <absl/status/status.h>

#include <cstddef>
#include <cstdint>
#include <set>
#include <vector>

#include "userspace/capture/kernel/bpf_programs.h"
#include "userspace/capture/kernel/system_programs.h"
#include "userspace/capture/records/capture_sink.h"
#include "userspace/capture/samples/sampler.h"
#include "userspace/model/ids.h"

namespace proftrace {

class PlainProcesses {
 public:
  // All arguments must outlive this object. `sampler` is null where nothing is sampled.
  PlainProcesses(BpfPrograms* programs, SystemPrograms* system, Sampler* sampler, CaptureSink* sink)
      : programs_(programs), system_(system), sampler_(sampler), sink_(sink) {}

  // Records a process and its descendants from here on.
  absl::Status Add(Pid pid, bool with_descendants);
  // Records every process of the host but this one.
  absl::Status AddHost();

  // These three functions take the kernel's reports on recorded processes, as in ProcessSet.
  void OnFork(Pid /*parent*/, Pid child, int64_t /*time_ns*/, bool /*shares_memory*/) {
    Describe(child, /*followed=*/true);
  }
  void OnExec(Pid pid) { Describe(pid, /*followed=*/true); }
  void OnExit(Pid pid, int64_t /*time_ns*/) {
    living_.erase(Raw(pid));
    if (sampler_ != nullptr) sampler_->RemoveProcess(pid);
  }

  // Writes the names of threads that still live to the capture.
  void CollectLastNames();

  bool IsLiving(Pid pid) const { return living_.contains(Raw(pid)); }
  std::vector<Pid> pids() const;
  size_t process_count() const { return living_.size(); }

 private:
  void Describe(Pid pid, bool followed);

  BpfPrograms* programs_;
  SystemPrograms* system_;
  Sampler* sampler_;
  CaptureSink* sink_;
  std::set<uint32_t> living_;  // pids
};

}  // namespace proftrace
