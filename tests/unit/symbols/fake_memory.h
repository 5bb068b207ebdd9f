// A made-up process memory for tests of readers.
#pragma once

#include <cstdint>
#include <cstring>
#include <map>
#include <string>

#include "symbols/process/process_memory.h"

namespace proftrace {

// Memory that a test writes word by word.
class FakeMemory : public TargetMemory {
 public:
  void Put(uint64_t address, const void* data, size_t bytes) {
    for (size_t i = 0; i < bytes; ++i) bytes_[address + i] = static_cast<const uint8_t*>(data)[i];
  }
  void PutWord(uint64_t address, uint64_t word) { Put(address, &word, sizeof(word)); }
  // A C++11 string: short ones lie inside.
  void PutString(uint64_t address, const std::string& text) {
    const uint64_t characters = text.size() < 16 ? address + 16 : next_heap_;
    PutWord(address, characters);
    PutWord(address + 8, text.size());
    PutWord(address + 16, 0);
    PutWord(address + 24, 0);
    Put(characters, text.data(), text.size());
    if (text.size() >= 16) next_heap_ += text.size();
  }
  void PutOldString(uint64_t address, const std::string& text) {
    PutWord(address, next_heap_ + 24);
    PutWord(next_heap_, text.size());
    Put(next_heap_ + 24, text.data(), text.size());
    next_heap_ += 24 + text.size();
  }
  // Zeroed memory that nothing else has.
  uint64_t Allocate(size_t bytes) {
    const uint64_t address = next_heap_;
    next_heap_ += (bytes + 15) / 16 * 16;
    for (size_t i = 0; i < bytes; ++i) bytes_[address + i] = 0;
    return address;
  }
  bool Read(uint64_t address, void* buffer, size_t bytes) const override {
    for (size_t i = 0; i < bytes; ++i) {
      const auto found = bytes_.find(address + i);
      if (found == bytes_.end()) return false;
      static_cast<uint8_t*>(buffer)[i] = found->second;
    }
    return true;
  }

 private:
  std::map<uint64_t, uint8_t> bytes_;
  uint64_t next_heap_ = 0x100000;
};

}  // namespace proftrace
