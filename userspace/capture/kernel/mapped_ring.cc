#include "userspace/capture/kernel/mapped_ring.h"

#include <bpf/libbpf.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <utility>

namespace proftrace {
namespace {

// While records are taken, the programs are told of the new room each time that so many bytes were
// taken. It must not be more often, because all programs read the cache line with this figure.
constexpr uint64_t kPublishBytes = 64 << 10;
constexpr size_t kChunkStride = PT_RING_CHUNK_BYTES + PT_RING_SLACK_BYTES;

int IgnoreRing(void* /*context*/, void* /*data*/, size_t /*bytes*/) { return 0; }

}  // namespace

void SetRingChunks(bpf_map* ring, uint32_t chunks) { bpf_map__set_max_entries(ring, chunks); }

bool MappedRing::Map(const bpf_map* ring, const bpf_map* doorbell, const RingVariables& variables) {
  Close();
  const uint32_t chunks = bpf_map__max_entries(ring);
  const size_t bytes = size_t{chunks} * kChunkStride;
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, bpf_map__fd(ring), 0);
  if (memory == MAP_FAILED) return false;
  OpenMemory(static_cast<std::byte*>(memory), chunks, variables);
  mapped_bytes_ = bytes;
  doorbell_ = ring_buffer__new(bpf_map__fd(doorbell), IgnoreRing, nullptr, nullptr);
  return doorbell_ != nullptr;
}

void MappedRing::OpenMemory(std::byte* memory, uint32_t chunks, const RingVariables& variables) {
  Close();
  memory_ = memory;
  chunks_ = chunks;
  variables_ = variables;
  position_ = *variables.consumed;
}

void MappedRing::Close() {
  ring_buffer__free(std::exchange(doorbell_, nullptr));
  if (mapped_bytes_ > 0) munmap(memory_, std::exchange(mapped_bytes_, 0));
  memory_ = nullptr;
}

std::byte* MappedRing::At(uint64_t position) const {
  const uint64_t chunk = position / PT_RING_CHUNK_BYTES & (chunks_ - 1);
  return memory_ + chunk * kChunkStride + position % PT_RING_CHUNK_BYTES;
}

uint64_t MappedRing::Take(const Callback& callback) {
  // Records that come later are left for the next call, because a job may write as fast as this
  // loop reads.
  const uint64_t end = std::atomic_ref(*variables_.reserved).load(std::memory_order_acquire);
  std::atomic_ref consumed(*variables_.consumed);
  uint64_t published = position_;
  uint64_t taken = 0;
  while (position_ < end) {
    std::byte* place = At(position_);
    auto* head = reinterpret_cast<uint32_t*>(place);
    if (std::atomic_ref(head[0]).load(std::memory_order_acquire) != PT_RING_WHOLE) break;
    const uint32_t bytes = std::min(head[1], PT_RING_SLACK_BYTES - PT_RING_HEAD_BYTES);
    if (callback) callback(std::span<const std::byte>(place + PT_RING_HEAD_BYTES, bytes));
    std::memset(place, 0, PT_RING_HEAD_BYTES + bytes);
    position_ += PT_RING_HEAD_BYTES + bytes;
    ++taken;
    if (position_ - published >= kPublishBytes) {
      consumed.store(position_, std::memory_order_release);
      published = position_;
    }
  }
  consumed.store(position_, std::memory_order_release);
  return taken;
}

uint64_t MappedRing::WaitAndTake(int timeout_ms, const Callback& callback) {
  (void)ring_buffer__poll(doorbell_, timeout_ms);
  return Take(callback);
}

uint64_t MappedRing::Discard() { return Take(nullptr); }

}  // namespace proftrace
