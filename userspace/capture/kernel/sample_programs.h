// The BPF programs of --sample and --waker-stacks: a clock on every CPU, and a list of threads.
// They are a BPF object of their own beside BpfPrograms. Everything in the kernel is removed when
// the object is destroyed.
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
  // Gets a sample that a clock took, or a waker's. The memory behind it ends where the stack that
  // was read ends, which may be before the end of the struct.
  using OnSample = std::function<void(const abi::pt_raw_sample&)>;

  // Loads the programs. Fails with kNotPermitted, or with kHostUnfit where this kernel does not
  // take them (Linux 5.17 or later is needed). With `wakers`, threads are sampled when they wake
  // others.
  static absl::StatusOr<std::unique_ptr<SamplePrograms>> Load(bool wakers);
  ~SamplePrograms();
  SamplePrograms(const SamplePrograms&) = delete;
  SamplePrograms& operator=(const SamplePrograms&) = delete;

  // Starts the clocks, which take a sample every `period_ns`; 0: no clocks. Wakers are sampled from
  // here on.
  absl::Status Start(int64_t period_ns);
  // Stops the clocks and the sampling of wakers.
  void Stop();

  absl::Status AddProcess(Pid pid, const abi::pt_sampled_process& process);
  void RemoveProcess(Pid pid);

  // Hands over all samples that are there.
  void Drain(const OnSample& on_sample);
  // Lists every thread of the sampled processes.
  absl::StatusOr<std::vector<abi::pt_thread_state>> ListThreads() const;
  // Returns how many samples found no room.
  uint64_t lost() const;

 private:
  struct Impl;
  SamplePrograms();
  std::unique_ptr<Impl> impl_;
};

}  // namespace proftrace
