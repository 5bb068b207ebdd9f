// The metadata of a long recording. Entries of processes and threads that have ended can be
// dropped. Not thread-safe.
#pragma once

#include <absl/container/flat_hash_map.h>
#include <absl/container/flat_hash_set.h>

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "userspace/wire/kept_definitions.h"

namespace proftrace {

class KeptMetadata {
 public:
  // Adds the arrays that MetadataWriter::TakeJson() returned at the time `now_ns`.
  void Add(const std::vector<std::string>& json_arrays, int64_t now_ns);
  // Drops entries of ended processes and threads that came up to `late_ns` after their end. The
  // entries of an address space are dropped with its last process.
  void Forget(std::span<const EndedTask> tasks, int64_t late_ns);
  // Drops the snapshots of clocks, quotas and the host that were added before `from_ns`, except the
  // last one of each.
  void ForgetSnapshots(int64_t from_ns);
  // Returns the entries in their order, as one JSON array for each block.
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
  std::map<std::string, std::deque<Entry>> snapshots_;  // by type
  // entries of types of which only the last entry counts
  absl::flat_hash_map<std::string, std::string> last_;
  absl::flat_hash_set<std::string> notes_;  // entries of type "unsupported", each once
  size_t bytes_ = 0;
};

}  // namespace proftrace
