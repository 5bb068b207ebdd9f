// Reads messages of protocol buffers, for tests of what writes them.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <vector>

namespace proftrace {

// Fields of a message by their numbers, in order: numbers as they are, bytes in `texts`.
struct ProtobufFields {
  std::multimap<uint64_t, uint64_t> numbers;
  std::multimap<uint64_t, std::string> texts;

  uint64_t Number(uint64_t field) const {
    EXPECT_EQ(numbers.count(field), 1u) << field;
    return numbers.count(field) == 1 ? numbers.find(field)->second : 0;
  }
  // 0: it has none.
  uint64_t NumberOrNone(uint64_t field) const {
    return numbers.count(field) == 0 ? 0 : Number(field);
  }
  std::vector<std::string> Texts(uint64_t field) const {
    std::vector<std::string> found;
    for (auto [it, end] = texts.equal_range(field); it != end; ++it) found.push_back(it->second);
    return found;
  }
};

inline uint64_t ReadVarint(const std::string& bytes, size_t* at) {
  uint64_t value = 0;
  for (int shift = 0; *at < bytes.size(); shift += 7) {
    const auto byte = static_cast<unsigned char>(bytes[(*at)++]);
    value |= static_cast<uint64_t>(byte & 0x7F) << shift;
    if (byte < 0x80) return value;
  }
  ADD_FAILURE() << "a number has no end";
  return 0;
}

inline std::vector<uint64_t> ReadPackedNumbers(const std::string& bytes) {
  std::vector<uint64_t> values;
  for (size_t at = 0; at < bytes.size();) values.push_back(ReadVarint(bytes, &at));
  return values;
}

inline ProtobufFields ReadProtobuf(const std::string& bytes) {
  ProtobufFields fields;
  for (size_t at = 0; at < bytes.size();) {
    const uint64_t key = ReadVarint(bytes, &at);
    if ((key & 7) == 1) {
      uint64_t fixed = 0;
      EXPECT_LE(sizeof(fixed), bytes.size() - at);
      std::memcpy(&fixed, bytes.data() + at, std::min(sizeof(fixed), bytes.size() - at));
      fields.numbers.emplace(key >> 3, fixed);
      at += sizeof(fixed);
      continue;
    }
    const uint64_t value = ReadVarint(bytes, &at);
    if ((key & 7) == 0) {
      fields.numbers.emplace(key >> 3, value);
      continue;
    }
    EXPECT_EQ(key & 7, 2u);
    EXPECT_LE(value, bytes.size() - at);
    fields.texts.emplace(key >> 3, bytes.substr(at, value));
    at += value;
  }
  return fields;
}

}  // namespace proftrace
