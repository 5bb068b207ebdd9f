// The reading end of a BPF ring buffer of the kernel, which holds samples; other records come by
// mapped_ring.h. For one thread at a time.
#pragma once

#include <bpf/libbpf.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <utility>

namespace proftrace {

class RecordRing {
 public:
  // Gets one record, which is valid only during the call.
  using Callback = std::function<void(std::span<const std::byte>)>;

  RecordRing() = default;
  ~RecordRing() { Close(); }
  RecordRing(const RecordRing&) = delete;
  RecordRing& operator=(const RecordRing&) = delete;

  // Opens the ring. Returns false on failure; errno says why.
  bool Open(const bpf_map* map) {
    Close();
    ring_ = ring_buffer__new(bpf_map__fd(map), OnRecord, this, nullptr);
    return ring_ != nullptr;
  }
  void Close() { ring_buffer__free(std::exchange(ring_, nullptr)); }

  // Hands over all records that are there. Returns their number, or a negative errno.
  int64_t Take(const Callback& callback) {
    callback_ = &callback;
    const int taken = ring_buffer__consume(ring_);
    callback_ = nullptr;
    return taken;
  }

 private:
  static int OnRecord(void* context, void* data, size_t bytes) {
    const auto* self = static_cast<const RecordRing*>(context);
    if (self->callback_ != nullptr) {
      (*self->callback_)(std::span(static_cast<const std::byte*>(data), bytes));
    }
    return 0;
  }

  ring_buffer* ring_ = nullptr;
  const Callback* callback_ = nullptr;
};

}  // namespace proftrace
