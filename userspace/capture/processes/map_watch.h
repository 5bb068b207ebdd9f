// Notices processes at the moment at which they map code of PyTorch's files. It reads the kernel's
// own records of executable mappings (perf events), which cost nothing except at such an mmap.
#pragma once

#include <absl/container/flat_hash_set.h>
#include <absl/status/statusor.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "userspace/base/unique_fd.h"
#include "userspace/model/ids.h"

namespace proftrace {

// The news in a part of the kernel's records.
struct MapNews {
  absl::flat_hash_set<Pid> pids;  // processes that mapped a file with torch in its name
  bool is_lossy = false;  // records were lost, so other processes may have mapped such files
};

// Adds the news of the whole records in `bytes` (linux/perf_event.h: PERF_RECORD_MMAP,
// PERF_RECORD_LOST).
void ReadMapRecords(std::span<const std::byte> bytes, MapNews* news);

class MapWatch {
 public:
  // Begins to watch at once, on every processor. Fails where the kernel or its settings do not
  // allow it.
  static absl::StatusOr<std::unique_ptr<MapWatch>> Open();
  ~MapWatch();
  MapWatch(const MapWatch&) = delete;
  MapWatch& operator=(const MapWatch&) = delete;

  // Returns the news since the last call. Does not wait.
  MapNews Take();

 private:
  struct Ring {
    UniqueFd fd;
    void* memory = nullptr;
  };
  MapWatch() = default;

  std::vector<Ring> rings_;  // one for each processor
};

}  // namespace proftrace
