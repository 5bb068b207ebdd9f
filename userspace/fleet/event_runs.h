// Puts a part's events in order of time, in bounded memory: what is too much for it goes into a
// file without a name, in runs that are in order.
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

// What records are put in order by.
struct EventKey {
  int64_t time_ns = 0;
  int32_t order = 0;        // at the same time
  int64_t duration_ns = 0;  // longer ones first
  uint64_t number = 0;      // in which they were added

  bool operator<(const EventKey& other) const {
    return std::tie(time_ns, order, other.duration_ns, number) <
           std::tie(other.time_ns, other.order, duration_ns, other.number);
  }
};

class EventRuns {
 public:
  static constexpr size_t kMostBytes = size_t{64} << 20;

  // `scratch` must outlive this. `most_bytes`: of records in memory.
  explicit EventRuns(const GuardedFolder& scratch, size_t most_bytes = kMostBytes)
      : scratch_(scratch), most_bytes_(most_bytes) {}

  // Errors are ExitCode::kOutputFailed: the file could not be written.
  absl::Status Add(EventKey key, std::string_view record);
  // Gives all records in order, and forgets them.
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
