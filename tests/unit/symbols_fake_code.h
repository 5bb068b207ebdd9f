// Machine code made up by tests, in place of a file's.
#pragma once

#include <cstring>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "symbols/code_image.h"

namespace proftrace {

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

}  // namespace proftrace
