// Machine code made up by tests, in place of a file's.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "symbols/elf/code_image.h"

namespace proftrace {

inline constexpr uint64_t kFakeCodeBase = 0x1000;

class FakeCode final : public CodeImage {
 public:
  // Bytes of a function (or data) at `address`; `name` may be empty.
  void Add(uint64_t address, std::vector<uint8_t> bytes, std::string name = "") {
    if (!name.empty()) names_[address] = std::move(name);
    parts_[address] = std::move(bytes);
  }
  void AddStub(uint64_t address, std::string name) {
    names_[address] = std::move(name);
    stubs_.insert(address);
  }
  void AddSlot(uint64_t address, std::string name) { slots_[address] = std::move(name); }

  size_t ReadCode(uint64_t address, void* buffer, size_t bytes) const override {
    for (const auto& [start, part] : parts_) {
      if (address < start || address - start >= part.size()) continue;
      const size_t count = std::min<size_t>(bytes, part.size() - (address - start));
      std::memcpy(buffer, part.data() + (address - start), count);
      return count;
    }
    return 0;
  }
  std::string_view CalleeName(uint64_t address) const override {
    const auto found = names_.find(address);
    return found == names_.end() ? std::string_view() : found->second;
  }
  std::string_view SlotName(uint64_t address) const override {
    const auto found = slots_.find(address);
    return found == slots_.end() ? std::string_view() : found->second;
  }
  bool IsPltStub(uint64_t address) const override { return stubs_.contains(address); }
  std::optional<FunctionRange> FunctionAt(uint64_t address) const override {
    for (const auto& [start, part] : parts_) {
      if (address >= start && address - start < part.size()) {
        return FunctionRange{start, start + part.size(), CalleeName(start)};
      }
    }
    return std::nullopt;
  }

 private:
  std::map<uint64_t, std::vector<uint8_t>> parts_;
  std::map<uint64_t, std::string> names_;
  std::map<uint64_t, std::string> slots_;
  std::set<uint64_t> stubs_;
};

// Code in the order in which it is given, to be added at kFakeCodeBase.
class Code {
 public:
  Code& Bytes(std::vector<uint8_t> bytes) {
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
    return *this;
  }
  Code& Call(uint64_t target) {
    const int32_t distance = static_cast<int32_t>(target - (kFakeCodeBase + bytes_.size() + 5));
    bytes_.push_back(0xe8);
    const uint8_t* at = reinterpret_cast<const uint8_t*>(&distance);
    bytes_.insert(bytes_.end(), at, at + 4);
    return *this;
  }
  const std::vector<uint8_t>& bytes() const { return bytes_; }

 private:
  std::vector<uint8_t> bytes_;
};

}  // namespace proftrace
