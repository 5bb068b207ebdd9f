// Caches a process's memory page by page, for readers of many small objects that lie close
// together.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "symbols/process/process_memory.h"

namespace proftrace {

// Keeps every page as it was when it was first read, so that one reading of a structure sees one
// state of each page. Keeps at most kMaxPages pages and reads further ones each time. An object is
// for one thread.
class CachedMemory final : public TargetMemory {
 public:
  // `memory` must outlive this.
  explicit CachedMemory(const TargetMemory& memory) : memory_(memory) {}
  bool Read(uint64_t address, void* buffer, size_t bytes) const override;

 private:
  static constexpr size_t kPageBytes = 4096;
  static constexpr size_t kMaxPages = 32768;  // 128 MiB; torch's operators need about 8000

  // Returns the page's bytes; null: it cannot be read.
  const uint8_t* Page(uint64_t number) const;

  const TargetMemory& memory_;
  mutable absl::flat_hash_map<uint64_t, std::unique_ptr<uint8_t[]>> pages_;
};

}  // namespace proftrace
