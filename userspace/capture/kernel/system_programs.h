// The BPF programs of --activities syscalls,io,sched,faults: a BPF object of its own beside
// BpfPrograms, with a ring of its own. Everything in the kernel is removed when the object is
// destroyed.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "symbols/plan/python_reading.h"
#include "userspace/capture/kernel/system_cost.h"
#include "userspace/model/ids.h"
#include "userspace/model/recording.h"

namespace proftrace {

struct SystemOptions {
  SystemActivities activities;
  bool follow_children = true;
  uint32_t ring_bytes = 32u << 20;  // a power of two, at least a page
  std::vector<Pid> awaited;         // these are recorded from their next exec on
};

class SystemPrograms {
 public:
  using RecordCallback = std::function<void(std::span<const std::byte>)>;

  // Loads and attaches the programs; no process is recorded yet. Fails with kNotPermitted, or with
  // kHostUnfit where this kernel does not take the programs (Linux 5.17 or later is needed).
  static absl::StatusOr<std::unique_ptr<SystemPrograms>> Load(const SystemOptions& options);
  ~SystemPrograms();
  SystemPrograms(const SystemPrograms&) = delete;
  SystemPrograms& operator=(const SystemPrograms&) = delete;

  // Records the process from here on, beginning with the calls and waits that its threads are in
  // the middle of, and, with `follow_children`, the processes that it forks. May be called on any
  // thread.
  absl::Status AddProcess(Pid pid);
  // Records many processes at once, for which the kernel's list of threads is gone through a single
  // time.
  absl::Status AddProcesses(std::span<const Pid> pids);

  // Distinguishes, from here on, waits for Python's locks from waits for work, in the process and
  // in the processes that it forks. Does nothing where the scheduler is not recorded. May be called
  // on any thread.
  void AddPython(Pid pid, const PythonReading& python);
  bool wants_python() const { return wants_python_; }

  // Hands over all records that are there.
  void Drain(const RecordCallback& callback);
  // Makes records of the calls and waits that threads are in the middle of, up to now. The rest of
  // each call and wait is recorded as if it began now.
  void TellOpen();
  // Does what TellOpen() does, and ends the recording. Drain() gives the rest of the records.
  void Stop();

  // Returns the number of records that found no room, plus the number of threads that could not be
  // followed for want of room.
  uint64_t lost() const;
  // Returns what the records cost, by loops in this process; nullopt where neither system calls nor
  // page faults are recorded.
  const std::optional<SystemCost>& cost() const { return cost_; }
  // Returns the activities that cannot be recorded on this kernel.
  const std::vector<Unsupported>& gaps() const { return gaps_; }

 private:
  struct Impl;
  SystemPrograms();
  absl::Status Attach(const SystemActivities& activities);
  absl::Status OpenFaultCounters();
  // Measures cost_. `plain`: what calls and faults took before they were recorded.
  absl::Status MeasureCost(const LoopTimes& plain);

  std::unique_ptr<Impl> impl_;
  std::vector<Unsupported> gaps_;
  std::optional<SystemCost> cost_;
  bool wants_python_ = false;
};

}  // namespace proftrace
