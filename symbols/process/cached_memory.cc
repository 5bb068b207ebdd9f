#include "symbols/process/cached_memory.h"

#include <algorithm>
#include <cstring>

namespace proftrace {

const uint8_t* CachedMemory::Page(uint64_t number) const {
  if (const auto it = pages_.find(number); it != pages_.end()) return it->second.get();
  if (pages_.size() >= kMaxPages) return nullptr;
  // The buffer is not zeroed, because Read() fills all of it or the buffer is dropped.
  std::unique_ptr<uint8_t[]> page(new uint8_t[kPageBytes]);
  if (!memory_.Read(number * kPageBytes, page.get(), kPageBytes)) page.reset();
  return pages_.emplace(number, std::move(page)).first->second.get();
}

bool CachedMemory::Read(uint64_t address, void* buffer, size_t bytes) const {
  if (address + bytes < address) return false;
  auto* to = static_cast<uint8_t*>(buffer);
  while (bytes > 0) {
    const size_t offset = address % kPageBytes;
    const size_t part = std::min(bytes, kPageBytes - offset);
    const uint8_t* page = Page(address / kPageBytes);
    if (page == nullptr) return memory_.Read(address, to, bytes);
    std::memcpy(to, page + offset, part);
    to += part;
    address += part;
    bytes -= part;
  }
  return true;
}

}  // namespace proftrace
