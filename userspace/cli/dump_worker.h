// `proftrace dump` reads a process in a worker without rights; its threads are stopped by the
// process that has the right to.
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

// Asks for what StoppedThreads does, from inside of the worker.
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

// Runs `work` in a worker that may read the process and have its threads stopped. Whatever becomes
// of the worker, they go on. Returns what `work` returns, or as RunWorker().
absl::StatusOr<std::string> RunDumpWorker(
    Pid pid, const std::function<absl::StatusOr<std::string>(RemoteStop*)>& work);

}  // namespace proftrace
