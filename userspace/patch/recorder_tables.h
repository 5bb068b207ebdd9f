// What the recorder in a job looks up by number, as it lies behind the recorder's code in each
// region of trampolines: places, and what operators are called with. It refers to nothing outside
// of itself.
#pragma once

#include <cstdint>
#include <vector>

#include "bpf/abi/records.h"

namespace proftrace {

class RecorderTables {
 public:
  RecorderTables() = default;
  RecorderTables(const std::vector<abi::pt_place>& places,
                 const std::vector<abi::pt_signature>& signatures);

  const std::vector<uint8_t>& bytes() const { return bytes_; }
  uint64_t place_count() const { return place_count_; }
  uint64_t signature_count() const { return signatures_.size(); }
  // Of the offsets of signatures, which count from there (patch_memory.h), in `bytes`.
  uint64_t signatures_at() const { return signatures_at_; }
  // Of one signature, in `bytes`. `number`: from 1 on.
  uint64_t SignatureAt(uint16_t number) const { return signatures_[number - 1]; }

 private:
  std::vector<uint8_t> bytes_;
  uint64_t place_count_ = 0;
  uint64_t signatures_at_ = 0;
  std::vector<uint64_t> signatures_;
};

}  // namespace proftrace
