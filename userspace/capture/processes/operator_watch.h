// Notices operators that a recorded process registers after its probe plan was made (a library that
// is loaded later, torch.library in the job), while the process still lives to be read.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "symbols/probe_plan.h"
#include "userspace/capture/targets/target_reader.h"
#include "userspace/model/ids.h"

namespace proftrace {

// May be used by several threads.
class OperatorWatch {
 public:
  // Gets operators that were not known before, ascending by address. An operator is given without a
  // name where another one, which was deregistered, had the same address, so that rows with this
  // address may be either's.
  using OnAdded = std::function<void(Pid pid, const ProbePlan& plan, uint32_t image,
                                     const std::vector<OperatorInfo>& added)>;

  // `reader` has a worker that runs ReadTargetWords(), and must outlive this object.
  OperatorWatch(TargetReader* reader, OnAdded on_added)
      : reader_(reader), on_added_(std::move(on_added)) {}

  // Watches a process; the operators of `plan` are known already. `image` is explained at
  // CaptureMetadata::images.
  void Add(Pid pid, uint32_t image, std::shared_ptr<const ProbePlan> plan);
  void Remove(Pid pid);
  // Looks at each process. Where nothing was registered since, a look asks only for the list's last
  // entry.
  void Look();
  // Returns how many addresses have had several operators, one after the other.
  uint64_t replaced() const;

 private:
  struct Watched {
    uint32_t image = 0;
    std::shared_ptr<const ProbePlan> plan;
    uint64_t last = 0;  // the list's last entry when it was read
  };
  void LookAt(Pid pid, Watched* watched);

  TargetReader* reader_;
  OnAdded on_added_;
  mutable std::mutex mutex_;
  std::map<uint32_t, Watched> watched_;  // by pid
  // For each image, the hashes of operators' names by address; kSeveral where several operators
  // have had the address.
  std::map<uint32_t, absl::flat_hash_map<uint64_t, uint64_t>> known_by_image_;
  uint64_t replaced_ = 0;
};

}  // namespace proftrace
