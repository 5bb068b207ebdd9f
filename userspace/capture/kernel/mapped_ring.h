// The reading end of a ring that BPF programs write without calling the kernel
// (bpf/shared/ring.bpf.h). For one thread at a time.
#pragma once

#include <absl/status/status.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>

#include "bpf/abi/ring.h"

struct bpf_map;
struct ring_buffer;

namespace proftrace {

// The programs' variables, which programs and reader share beside the memory.
struct RingVariables {
  uint64_t* reserved = nullptr;
  uint64_t* consumed = nullptr;
};

// Returns how many chunks a ring of `ring_bytes` bytes has. Both numbers are powers of two.
constexpr uint32_t RingChunks(uint32_t ring_bytes) {
  return ring_bytes <= PT_RING_CHUNK_BYTES ? 1 : ring_bytes / PT_RING_CHUNK_BYTES;
}

void SetRingChunks(bpf_map* ring, uint32_t chunks);
// Gives the map `ring` and the variables of a skeleton their size, before it is loaded.
template <typename Skeleton>
void SetRingBytes(Skeleton* skeleton, uint32_t ring_bytes) {
  SetRingChunks(skeleton->maps.ring, RingChunks(ring_bytes));
  skeleton->bss->ring_bytes = ring_bytes;
  skeleton->bss->ring_chunk_mask = RingChunks(ring_bytes) - 1;
}

class MappedRing {
 public:
  // Gets one record, which is valid only during the call.
  using Callback = std::function<void(std::span<const std::byte>)>;

  MappedRing() = default;
  ~MappedRing() { Close(); }
  MappedRing(const MappedRing&) = delete;
  MappedRing& operator=(const MappedRing&) = delete;

  // Maps the ring of a skeleton, which must stay loaded until Close(). Returns false on failure;
  // errno says why.
  template <typename Skeleton>
  bool Open(Skeleton* skeleton) {
    return Map(skeleton->maps.ring, skeleton->maps.doorbell,
               {reinterpret_cast<uint64_t*>(&skeleton->bss->ring_reserved),
                reinterpret_cast<uint64_t*>(&skeleton->bss->ring_consumed)});
  }
  // Opens a ring in memory that the caller owns; it has no doorbell.
  void OpenMemory(std::byte* memory, uint32_t chunks, const RingVariables& variables);
  void Close();

  // Hands over the records that are there, in the order in which their room was taken, up to the
  // first one that is not whole yet. Returns the number of records.
  uint64_t Take(const Callback& callback);
  // Waits up to `timeout_ms` for the doorbell, which most records do not ring, and then calls
  // Take().
  uint64_t WaitAndTake(int timeout_ms, const Callback& callback);
  // Drops the records that are there. Returns their number.
  uint64_t Discard();

 private:
  bool Map(const bpf_map* ring, const bpf_map* doorbell, const RingVariables& variables);
  std::byte* At(uint64_t position) const;

  std::byte* memory_ = nullptr;
  size_t mapped_bytes_ = 0;
  ring_buffer* doorbell_ = nullptr;
  RingVariables variables_;
  uint64_t chunks_ = 0;
  uint64_t position_ = 0;
};

}  // namespace proftrace
