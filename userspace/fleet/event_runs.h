// Puts a part's events in order of time, in bounded memory: where there are too many, sorted runs
// of them go into a file without a name.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "absl/status/status.h"
#include "userspace/base/guarded_folder.h"
#include "userspace/base/unique_fd.h"

namespace proftrace {

// The order of records: by time, then `order`, then the longest first, then as they were added.
struct EventKey {
  int64_t time_ns = 0;
  int32_t order = 0;        // the lower one first at the same time
  int64_t duration_ns = 0;  // longer records come first
  uint64_t number = 0;      // counts the records as they were added

  bool operator<(const EventKey& other) const {
    return std::tie(time_ns, order, other.duration_ns, number) <
           std::tie(other.time_ns, other.order, duration_ns, other.number);
  }
};

class EventRuns {
 public:
  static constexpr size_t kMostBytes = size_t{64} << 20;

  // `scratch` must outlive this object. `most_bytes`: the most bytes of records in memory.
  explicit EventRuns(const GuardedFolder& scratch, size_t most_bytes = kMostBytes)
      : scratch_(scratch), most_bytes_(most_bytes) {}

  // Adds a record. Fails with ExitCode::kOutputFailed where the file cannot be written.
  absl::Status Add(EventKey key, std::string_view record);
  // Passes all records to `take` in order, and forgets them.
  absl::Status TakeAll(
      const std::function<absl::Status(const EventKey&, std::string_view record)>& take);

 private:
  struct Entry {
    EventKey key;
    size_t begin = 0;  // in bytes_
    uint32_t size = 0;
  };
  class RunReader;

  absl::Status WriteRun();
  void SortEntries();

  const GuardedFolder& scratch_;
  size_t most_bytes_;
  std::string bytes_;
  std::vector<Entry> entries_;
  uint64_t next_number_ = 0;
  UniqueFd file_;
  std::vector<uint64_t> run_ends_;  // in the file
};

}  // namespace proftrace
