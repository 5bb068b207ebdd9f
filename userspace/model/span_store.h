// An append-only array of spans in chunks. Chunks past `memory_chunks` are mapped from an unlinked
// temporary file, and the kernel may write them out: the resident set stays bounded, whatever the
// length of the recording.
#pragma once

#include <absl/status/status.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "userspace/model/span.h"

namespace proftrace {

class SpanStore {
 public:
  static constexpr uint32_t kChunkSpans = 1u << 16;     // 3 MiB a chunk
  static constexpr uint32_t kDefaultMemoryChunks = 24;  // 72 MiB, 1.5 M spans

  explicit SpanStore(std::string spill_directory, uint32_t memory_chunks = kDefaultMemoryChunks);
  ~SpanStore();
  SpanStore(const SpanStore&) = delete;
  SpanStore& operator=(const SpanStore&) = delete;

  // Fails with ExitCode::kOutputFailed when the spill file cannot grow.
  absl::Status Append(const Span& span);
  uint32_t size() const { return size_; }
  Span& at(uint32_t index) { return chunks_[index / kChunkSpans][index % kChunkSpans]; }
  const Span& at(uint32_t index) const { return chunks_[index / kChunkSpans][index % kChunkSpans]; }

  // Tells the kernel that the pages of a spilled chunk are not needed soon. Their contents stay.
  void Release(uint32_t chunk) const;
  uint32_t chunk_count() const { return static_cast<uint32_t>(chunks_.size()); }

 private:
  absl::Status AddChunk();

  std::string spill_directory_;
  uint32_t memory_chunks_;
  uint32_t size_ = 0;
  int spill_fd_ = -1;
  std::vector<Span*> chunks_;
};

}  // namespace proftrace
