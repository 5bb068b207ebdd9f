// Records as they lie in a buffer: at any address, and of any length.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <span>

namespace proftrace {

// Returns a record of type T from `bytes`. Members that a shorter record lacks are zero.
template <typename T>
T Copy(std::span<const std::byte> bytes) {
  T record{};
  std::memcpy(&record, bytes.data(), std::min(bytes.size(), sizeof(T)));
  return record;
}

}  // namespace proftrace
