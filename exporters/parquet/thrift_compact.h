// Writes structs in Thrift's compact protocol, in which Parquet's headers and footers are written.
//
//   CompactWriter writer;
//   writer.Integer(1, 42);     // field 1
//   writer.BeginStruct(2);
//   writer.Binary(1, "text");
//   writer.EndStruct();
//   const std::string bytes = writer.Finish();
//
// Fields of a struct must come in the order of their numbers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace proftrace {

class CompactWriter {
 public:
  enum class Type : uint8_t { kI32 = 5, kI64 = 6, kBinary = 8, kList = 9, kStruct = 12 };

  void Integer(int field, int32_t value) {
    Field(field, Type::kI32);
    ZigZag(value);
  }
  void Long(int field, int64_t value) {
    Field(field, Type::kI64);
    ZigZag(value);
  }
  void Binary(int field, std::string_view bytes) {
    Field(field, Type::kBinary);
    BinaryItem(bytes);
  }
  void BeginStruct(int field) {
    Field(field, Type::kStruct);
    BeginStructItem();
  }
  void EndStruct() {
    bytes_.push_back('\0');
    last_fields_.pop_back();
  }

  // `size` items of this type must follow.
  void BeginList(int field, Type type, size_t size) {
    Field(field, Type::kList);
    const auto kind = static_cast<uint8_t>(type);
    if (size < 15) {
      Byte(static_cast<uint8_t>(size << 4 | kind));
    } else {
      Byte(static_cast<uint8_t>(0xF0 | kind));
      Varint(size);
    }
  }
  void IntegerItem(int32_t value) { ZigZag(value); }
  void BinaryItem(std::string_view bytes) {
    Varint(bytes.size());
    bytes_ += bytes;
  }
  void BeginStructItem() { last_fields_.push_back(0); }  // ends with EndStruct()

  // Ends the outermost struct and returns its bytes.
  std::string Finish() {
    EndStruct();
    return std::move(bytes_);
  }

 private:
  void Field(int field, Type type) {
    int& last = last_fields_.back();
    const int step = field - last;
    if (step > 0 && step < 16) {
      Byte(static_cast<uint8_t>(step << 4 | static_cast<int>(type)));
    } else {
      Byte(static_cast<uint8_t>(type));
      ZigZag(field);
    }
    last = field;
  }
  void Byte(uint8_t byte) { bytes_.push_back(static_cast<char>(byte)); }
  void Varint(uint64_t value) {
    for (; value >= 0x80; value >>= 7) Byte(static_cast<uint8_t>(value | 0x80));
    Byte(static_cast<uint8_t>(value));
  }
  void ZigZag(int64_t value) {
    Varint(static_cast<uint64_t>(value) << 1 ^ static_cast<uint64_t>(value >> 63));
  }

  std::string bytes_;
  std::vector<int> last_fields_ = {0};  // of the open structs
};

}  // namespace proftrace
