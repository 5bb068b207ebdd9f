// An append-only array in chunks. Chunks past `memory_bytes` are mapped from an unlinked temporary
// file, and the kernel may write them out: the resident set stays bounded, whatever the length of
// the recording. Pages that were never written hold zeros and take no memory.
#pragma once

#include <absl/status/status.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <type_traits>
#include <vector>

namespace proftrace {

// Owns the memory of the chunks as plain bytes.
class ChunkMemory {
 public:
  ChunkMemory(std::string spill_directory, size_t chunk_bytes, uint32_t memory_chunks);
  ~ChunkMemory();
  ChunkMemory(const ChunkMemory&) = delete;
  ChunkMemory& operator=(const ChunkMemory&) = delete;

  // Adds one more chunk, all zeros. Fails with ExitCode::kOutputFailed when the spill file cannot
  // grow.
  absl::Status Add();
  std::byte* chunk(uint32_t index) const { return chunks_[index]; }
  uint32_t count() const { return static_cast<uint32_t>(chunks_.size()); }
  // Tells the kernel that the pages of a spilled chunk are not needed soon. Their contents stay.
  void Release(uint32_t index) const;

 private:
  std::string spill_directory_;
  size_t chunk_bytes_;
  uint32_t memory_chunks_;
  int spill_fd_ = -1;
  std::vector<std::byte*> chunks_;
};

// An array of T in chunks. T{} must be all zeros, because items that were never written read as
// zeros.
template <typename T>
class ChunkStore {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  static constexpr uint32_t kChunkItems = 1u << 16;
  static constexpr size_t kChunkBytes = sizeof(T) * kChunkItems;

  // `spill_directory`: the first choice for the folder of the spill file (OpenSpillFile()).
  ChunkStore(std::string spill_directory, size_t memory_bytes)
      : memory_(std::move(spill_directory), kChunkBytes,
                static_cast<uint32_t>(memory_bytes / kChunkBytes)) {}

  absl::Status Append(const T& item) {
    if (absl::Status status = GrowTo(size_ + 1); !status.ok()) return status;
    at(size_ - 1) = item;
    return absl::OkStatus();
  }
  // Adds items that are all zeros until there are `size` items.
  absl::Status GrowTo(uint32_t size) {
    while (size > uint64_t{memory_.count()} * kChunkItems) {
      if (absl::Status status = memory_.Add(); !status.ok()) return status;
    }
    if (size > size_) size_ = size;
    return absl::OkStatus();
  }

  uint32_t size() const { return size_; }
  T& at(uint32_t index) { return Chunk(index / kChunkItems)[index % kChunkItems]; }
  const T& at(uint32_t index) const { return Chunk(index / kChunkItems)[index % kChunkItems]; }
  void Release(uint32_t chunk) const { memory_.Release(chunk); }
  uint32_t chunk_count() const { return memory_.count(); }

 private:
  T* Chunk(uint32_t index) const { return reinterpret_cast<T*>(memory_.chunk(index)); }

  ChunkMemory memory_;
  uint32_t size_ = 0;
};

}  // namespace proftrace
