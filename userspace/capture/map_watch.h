// Tells of processes that map the code of PyTorch's files, as they do it: from the kernel's own
// records of executable mappings (perf events), which cost nothing but at such a mmap.
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

// What a part of the kernel's stream tells.
struct MapNews {
  absl::flat_hash_set<Pid> pids;  // that mapped a file whose name says torch
  bool is_lossy = false;          // others may have, too
};

// Adds what whole records in `bytes` tell (linux/perf_event.h: PERF_RECORD_MMAP, PERF_RECORD_LOST).
void ReadMapRecords(std::span<const std::byte> bytes, MapNews* news);

class MapWatch {
 public:
  // Begins at once, on every processor. Fails where the kernel or its settings do not allow it.
  static absl::StatusOr<std::unique_ptr<MapWatch>> Open();
  ~MapWatch();
  MapWatch(const MapWatch&) = delete;
  MapWatch& operator=(const MapWatch&) = delete;

  // Returns what came since the last call. Does not wait.
  MapNews Take();

 private:
  struct Ring {
    UniqueFd fd;
    void* memory = nullptr;
  };
  MapWatch() = default;

  std::vector<Ring> rings_;  // one a processor
};

}  // namespace proftrace
