// Puts the records of two sources in one order: jumps in the job's code write into one ring, and
// the kernel's probes into another. Each source gives a thread's records in their order, but not in
// step with the other source. Jumps' records come thread by thread.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <vector>

namespace proftrace {

enum class RecordOrigin { kJump, kProbe };

class RecordMerger {
 public:
  using OnRecord = std::function<void(std::span<const std::byte> record, RecordOrigin origin)>;

  // Adds a whole record, struct pt_record at the front.
  void Add(std::span<const std::byte> record, RecordOrigin origin);
  // Gives out the records that are not younger than `until_ns` (CLOCK_MONOTONIC), in the order of
  // time, because a record of one thread may give the name of something that another thread does
  // next. A thread's records of one source stay in their order, whatever their times. Both sources
  // must have given all their records until that time. Where two records of a thread have the same
  // time, the jump's comes first.
  void Emit(int64_t until_ns, const OnRecord& on_record);

 private:
  static constexpr int64_t kNone = std::numeric_limits<int64_t>::max();

  struct Queue {
    std::vector<std::byte> bytes;
    size_t head = 0;

    int64_t next_ns() const;  // kNone when it is empty
    void EmitOne(RecordOrigin origin, const OnRecord& on_record);
    void Compact();
  };
  struct Thread {
    Queue jumps;
    Queue probes;

    int64_t next_ns() const { return std::min(jumps.next_ns(), probes.next_ns()); }
    void EmitOne(const OnRecord& on_record);
  };

  absl::flat_hash_map<uint32_t, Thread> threads_;  // by tid
};

}  // namespace proftrace
