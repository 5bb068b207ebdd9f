// Writes a message of protocol buffers directly by the rules of their wire format.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace proftrace {

class ProtobufMessage {
 public:
  const std::string& bytes() const { return bytes_; }
  void Clear() { bytes_.clear(); }

  // Writes an integer of any type of the schema except "sint" and "fixed". Negative numbers take
  // ten bytes.
  void Number(uint32_t field, int64_t value) {
    Varint(field << 3);
    Varint(static_cast<uint64_t>(value));
  }
  void Fixed64(uint32_t field, uint64_t value) {
    Varint(field << 3 | 1);
    for (int shift = 0; shift < 64; shift += 8) bytes_.push_back(static_cast<char>(value >> shift));
  }
  void Bytes(uint32_t field, std::string_view value) {
    Varint(field << 3 | 2);
    Varint(value.size());
    bytes_ += value;
  }
  void Message(uint32_t field, const ProtobufMessage& value) { Bytes(field, value.bytes_); }
  void Packed(uint32_t field, const std::vector<int64_t>& values) {
    ProtobufMessage packed;
    for (const int64_t value : values) packed.Varint(static_cast<uint64_t>(value));
    Message(field, packed);
  }

 private:
  void Varint(uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_.push_back(static_cast<char>(value | 0x80));
    bytes_.push_back(static_cast<char>(value));
  }

  std::string bytes_;
};

}  // namespace proftrace
