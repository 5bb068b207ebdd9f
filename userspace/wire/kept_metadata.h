// The metadata of a recording that goes on for long: entries of processes and threads that are over
// can be let go. Not thread-safe.
#pragma once

#include <absl/container/flat_hash_map.h>
#include <absl/container/flat_hash_set.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <vector>

#include "userspace/wire/kept_definitions.h"

namespace proftrace {

class KeptMetadata {
 public:
  // Adds what MetadataWriter::TakeJson() gave at the time `now_ns`.
  void Add(const std::vector<std::string>& json_arrays, int64_t now_ns);
  // Lets go entries of ended processes and threads that came up to `late_ns` after their end; what
  // an address space was described with goes with its last process.
  void Forget(std::span<const EndedTask> tasks, int64_t late_ns);
  // Lets go the snapshots of the clocks and of quotas told before `from_ns`, except the last of
  // each.
  void ForgetSnapshots(int64_t from_ns);
  // Returns the entries in their order, a JSON array a block.
  std::vector<std::string> ToJson() const;
  size_t bytes() const { return bytes_; }

 private:
  enum class Kind : uint8_t {
    kLasting,
    kOfProcess,  // of `pid`
    kProcess,    // of `pid`, and it has `image`
    kThread,     // of `pid` and `tid`
    kOfImage,
  };
  struct Entry {
    Kind kind = Kind::kLasting;
    uint32_t pid = 0;
    uint32_t tid = 0;
    uint32_t image = 0;
    int64_t told_ns = 0;
    std::string text;
  };

  template <typename Predicate>
  void RemoveIf(Predicate&& is_over);

  std::vector<Entry> entries_;
  std::deque<Entry> clocks_;                            // snapshots of them
  std::deque<Entry> quotas_;                            // snapshots of them
  absl::flat_hash_map<std::string, std::string> last_;  // of types of which the last one counts
  absl::flat_hash_set<std::string> notes_;              // of "unsupported": each once
  size_t bytes_ = 0;
};

}  // namespace proftrace
