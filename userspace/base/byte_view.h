// Reads bytes from outside at offsets from outside.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <type_traits>

namespace proftrace {

// A view of bytes in our own memory whose content comes from a target, a library or a file. Code
// that reads such bytes at an offset which also comes from outside reads them through this view: a
// read that is not wholly inside gives nullopt or an empty view, whatever the offset is. Does not
// own the bytes.
class ByteView {
 public:
  ByteView(const void* data, size_t size)
      : data_(static_cast<const unsigned char*>(data)), size_(size) {}
  template <typename Container>
  explicit ByteView(const Container& bytes)
      : ByteView(bytes.data(), bytes.size() * sizeof(*bytes.data())) {}

  size_t size() const { return size_; }
  // Whether `bytes` from `offset` on lie inside.
  bool Holds(uint64_t offset, uint64_t bytes) const {
    return offset <= size_ && bytes <= size_ - offset;
  }
  // Returns the value at `offset`, which may be at any address; nullopt where it does not lie
  // inside.
  template <typename T>
  std::optional<T> Get(uint64_t offset) const {
    static_assert(std::is_trivially_copyable_v<T>);
    if (!Holds(offset, sizeof(T))) return std::nullopt;
    T value;
    std::memcpy(&value, data_ + offset, sizeof(value));
    return value;
  }
  // Returns the bytes from `offset` on, `bytes` of them at most; empty where that is outside.
  ByteView From(uint64_t offset, uint64_t bytes = UINT64_MAX) const {
    if (offset > size_) return {data_, 0};
    const uint64_t left = size_ - offset;
    return {data_ + offset, static_cast<size_t>(bytes < left ? bytes : left)};
  }
  const unsigned char* data() const { return data_; }

 private:
  const unsigned char* data_;
  size_t size_;
};

}  // namespace proftrace
