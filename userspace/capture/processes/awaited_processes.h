// Awaits processes that have no PyTorch yet, or are loading it, and attaches to each as soon as it
// has loaded PyTorch.
#pragma once

#include <absl/status/status.h>

#include <atomic>
#include <cstdint>
#include <functional>

#include "userspace/capture/processes/attacher.h"
#include "userspace/capture/processes/child_attacher.h"
#include "userspace/capture/processes/loading_process.h"
#include "userspace/capture/processes/process_parts.h"
#include "userspace/capture/processes/shared_parts.h"
#include "userspace/capture/targets/target_info.h"
#include "userspace/model/ids.h"

namespace proftrace {

// The caller's thread names processes; Look() is for the follower's thread alone. It has no lock
// but those of its parts: KnownProcesses keeps which processes are awaited.
class AwaitedProcesses {
 public:
  // All must outlive this object.
  AwaitedProcesses(SharedParts* shared, Attacher* attacher, ChildAttacher* children,
                   const ProcessCallbacks* callbacks)
      : shared_(shared), attacher_(attacher), children_(children), callbacks_(callbacks) {}

  // Awaits a process that we started ourselves: it and its descendants are stopped for the moment
  // in which their probes go in, so that no operator is missed.
  absl::Status AwaitOwn(Pid pid);
  // Awaits a process that maps PyTorch, or is about to.
  void OnTorchMapped(Pid pid);
  // Awaits processes that were found to map PyTorch. With `again`, Look() searches the host for
  // more such processes once a second, because the kernel does not report them.
  void LookForTorch(const TorchProcesses& found, bool again);

  // Looks at all awaited processes, each in its turn. Ends early when `is_wanted`() says that there
  // is something else to do.
  void Look(const std::function<bool()>& is_wanted);
  // Whether the looks are to follow each other quickly.
  bool is_urgent() const { return holds_awaited_ && shared_->known.has_awaited(); }

 private:
  void Search();
  // Returns whether the process need not be looked at again.
  bool Try(Pid pid, LoadingProcess* loading);
  // Attaches to a process that is ready. Returns false where it is not, after all.
  absl::StatusOr<bool> Attach(Pid pid, LoadingProcess* loading);
  absl::StatusOr<bool> AttachNow(Pid pid, LoadingProcess* loading, StoppedThreads* held);

  SharedParts* shared_;
  Attacher* attacher_;
  ChildAttacher* children_;
  const ProcessCallbacks* callbacks_;
  std::atomic<bool> holds_awaited_ = false;
  std::atomic<bool> searches_ = false;
  // These two are for the follower's thread.
  int64_t last_search_ns_ = 0;
  uint32_t last_tried_ = 0;  // the pid that was looked at last
};

}  // namespace proftrace
