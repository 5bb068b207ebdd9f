// One order of records for each thread, from two sources: jumps in the job's code write into a ring
// of their own, and the kernel's probes into another. Each source gives a thread's records in their
// order, but not in step with the other.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

namespace proftrace {

enum class RecordOrigin { kJump, kProbe };

class RecordMerger {
 public:
  using OnRecord = std::function<void(std::span<const std::byte> record, RecordOrigin origin)>;

  // A whole record, struct pt_record at the front.
  void Add(std::span<const std::byte> record, RecordOrigin origin);
  // Gives out what is not younger than `until_ns` (CLOCK_MONOTONIC), thread by thread, by time.
  // Until there both sources must have given all. Between records of the same nanosecond the jump's
  // comes first.
  void Emit(int64_t until_ns, const OnRecord& on_record);

 private:
  struct Queue {
    std::vector<std::byte> bytes;
    size_t head = 0;

    void Compact();
  };
  struct Thread {
    Queue jumps;
    Queue probes;
  };

  absl::flat_hash_map<uint32_t, Thread> threads_;  // by tid
};

}  // namespace proftrace
