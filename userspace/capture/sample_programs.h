// The BPF programs of --sample and --waker-stacks: a clock on every CPU, and a list of threads. An
// object of its own beside BpfPrograms; everything in the kernel goes with it.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "bpf/abi/sample_records.h"
#include "userspace/model/ids.h"

namespace proftrace {

class SamplePrograms {
 public:
  // A sample that a clock took, or a waker's; shorter than the struct by what is not there of the
  // stack.
  using OnSample = std::function<void(const abi::pt_raw_sample&)>;

  // Loads the programs. kNotPermitted, or kHostUnfit: this kernel does not take them (Linux 5.17 or
  // later is needed). `wakers`: threads are sampled when they wake others.
  static absl::StatusOr<std::unique_ptr<SamplePrograms>> Load(bool wakers);
  ~SamplePrograms();
  SamplePrograms(const SamplePrograms&) = delete;
  SamplePrograms& operator=(const SamplePrograms&) = delete;

  // Sets the clocks going, each `period_ns` apart; 0: none. Wakers are sampled from here on.
  absl::Status Start(int64_t period_ns);
  // Stops them.
  void Stop();

  absl::Status AddProcess(Pid pid, const abi::pt_sampled_process& process);
  void RemoveProcess(Pid pid);

  // Hands over all samples that are there.
  void Drain(const OnSample& on_sample);
  // Lists every thread of the sampled processes.
  absl::StatusOr<std::vector<abi::pt_thread_state>> ListThreads() const;
  // Samples that there was no room for.
  uint64_t lost() const;

 private:
  struct Impl;
  SamplePrograms();
  std::unique_ptr<Impl> impl_;
};

}  // namespace proftrace
