// Writes and reads numbers and texts in entries of the caches (cache_folder.h): numbers are
// little-endian, and each text lies behind its length.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace proftrace {

template <typename T>
std::string_view BytesOfPlain(const T& value) {
  static_assert(std::is_trivially_copyable_v<T>);
  return {reinterpret_cast<const char*>(&value), sizeof(value)};
}

// Copies the bytes of a value into `value`. False: their number is not that of a T.
template <typename T>
bool TakePlain(std::string_view bytes, T* value) {
  static_assert(std::is_trivially_copyable_v<T>);
  if (bytes.size() != sizeof(*value)) return false;
  std::memcpy(value, bytes.data(), bytes.size());
  return true;
}

class CacheWriter {
 public:
  template <typename T>
  void Number(T value) {
    static_assert(std::is_unsigned_v<T>);
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  void Text(std::string_view text) {
    Number(static_cast<uint32_t>(text.size()));
    bytes_.append(text);
  }
  std::string Take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

// Reads values one after the other. After the first one that does not fit, every value reads as 0
// or empty and ok() is false.
class CacheReader {
 public:
  explicit CacheReader(std::string_view bytes) : bytes_(bytes) {}
  template <typename T>
  T Number() {
    T value = 0;
    if (bytes_.size() < sizeof(value)) {
      Spoil();
      return 0;
    }
    std::memcpy(&value, bytes_.data(), sizeof(value));
    bytes_.remove_prefix(sizeof(value));
    return value;
  }
  std::string Text() {
    const uint32_t size = Number<uint32_t>();
    if (size > bytes_.size()) {
      Spoil();
      return "";
    }
    std::string text(bytes_.substr(0, size));
    bytes_.remove_prefix(size);
    return text;
  }
  bool ok() const { return ok_; }
  bool at_end() const { return bytes_.empty(); }

 private:
  void Spoil() {
    ok_ = false;
    bytes_ = {};
  }
  std::string_view bytes_;
  bool ok_ = true;
};

}  // namespace proftrace
