// Runs the part of `proftrace dump` that reads a process in a worker without rights. Only the
// parent of the worker has the right to stop the threads of that process.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "userspace/inject/stopped_threads.h"
#include "userspace/model/ids.h"
#include "userspace/sandbox/worker.h"

namespace proftrace {

// Stops threads from inside of the worker, by asking the parent, which uses StoppedThreads.
class RemoteStop {
 public:
  explicit RemoteStop(WorkerChannel* channel) : channel_(channel) {}

  // Does what StoppedThreads::StopAll() does.
  absl::Status StopAll(int64_t deadline_ns, const std::set<int>& except);
  const std::vector<StoppedThread>& threads() const { return threads_; }
  void Release();

 private:
  WorkerChannel* channel_;
  std::vector<StoppedThread> threads_;
};

// Runs `work` in a worker that may read the process and have its threads stopped. The threads go on
// whatever happens to the worker. Returns what `work` returns, or fails as RunWorker() does.
absl::StatusOr<std::string> RunDumpWorker(
    Pid pid, const std::function<absl::StatusOr<std::string>(RemoteStop*)>& work);

}  // namespace proftrace
