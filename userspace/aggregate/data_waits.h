// Finds the reason of each wait for a batch of torch's DataLoader: which worker woke the waiting
// thread, and what that worker did meanwhile.
#pragma once

#include <cstdint>
#include <vector>

#include "userspace/aggregate/steps.h"
#include "userspace/model/timeline.h"

namespace proftrace {

// The calls of one kind on one file that a worker made while it was waited for.
struct WorkerCalls {
  uint32_t call = kNoSystemEvent;  // the longest of them, which tells kind and file
  int64_t ns = 0;                  // their parts in that time
};

struct DataWait {
  SpanId span = kNoSpan;   // the row of the DataLoader's __next__
  int64_t step = -1;       // the number of the step around it; -1 = none
  int64_t blocked_ns = 0;  // time in which its thread was off the CPU and could not run
  // The process of the worker that ended the wait, followed through threads of the job's own
  // (pin_memory); 0 = not known.
  Pid worker{};
  // Whether a worker of another recorded process asked for the batch, from a DataLoader of its own.
  bool is_nested = false;
  Tid waker{};  // the worker's thread that ended the wait
  // What the worker's loading thread did from the span's begin until the worker woke the waiting
  // thread.
  int64_t worker_ns = 0;            // the whole of that time, where the worker was recorded
  int64_t worker_io_ns = 0;         // in calls that move or look for bytes
  int64_t worker_off_ns = 0;        // otherwise off the CPU: sleeps, locks, children, no CPU
  int64_t worker_run_queue_ns = 0;  // the part of worker_off_ns in which it could run
  int64_t worker_bytes = 0;         // read by calls that ended in that time
  // The call of the worker that overlaps that time most; kNoSystemEvent: none was recorded.
  uint32_t longest_call = kNoSystemEvent;
  int64_t longest_call_ns = 0;  // the part of that call in that time
  // The worker's calls that move or look for bytes, those that took longest first.
  std::vector<WorkerCalls> worker_calls;
  // The other calls in which the worker was off the CPU and could not run, those that took longest
  // first. `ns` is that time alone.
  std::vector<WorkerCalls> worker_blocked_calls;
};

// Returns the waits in order of their begin. Empty where the scheduler was not recorded.
std::vector<DataWait> FindDataWaits(const Timeline& timeline, const Steps& steps);

}  // namespace proftrace
