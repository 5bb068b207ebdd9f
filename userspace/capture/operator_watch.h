// Notices operators that a recorded process registers after its probe plan was made (a library that
// is loaded later, torch.library in the job), while the process still lives to be read.
#pragma once

#include <absl/container/flat_hash_set.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "symbols/probe_plan.h"
#include "userspace/model/ids.h"

namespace proftrace {

// May be used by several threads.
class OperatorWatch {
 public:
  // Operators that were not known before, ascending by address.
  using OnAdded = std::function<void(Pid pid, const ProbePlan& plan, uint32_t image,
                                     const std::vector<OperatorInfo>& added)>;

  explicit OperatorWatch(OnAdded on_added) : on_added_(std::move(on_added)) {}

  // Those of `plan` are known. `image`: CaptureMetadata::images.
  void Add(Pid pid, uint32_t image, std::shared_ptr<const ProbePlan> plan);
  void Remove(Pid pid);
  // Looks at each process: one word where nothing was registered.
  void Look();

 private:
  struct Watched {
    uint32_t image = 0;
    std::shared_ptr<const ProbePlan> plan;
    uint64_t last = 0;  // the list's last entry when it was read
  };
  void LookAt(Pid pid, Watched* watched);

  OnAdded on_added_;
  std::mutex mutex_;
  std::map<uint32_t, Watched> watched_;                               // by pid
  std::map<uint32_t, absl::flat_hash_set<uint64_t>> known_by_image_;  // addresses
};

}  // namespace proftrace
