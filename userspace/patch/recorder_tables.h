// The tables that the recorder in a job looks up by number, as they lie behind the recorder's code
// in each region of trampolines: places, and what operators are called with. They refer to nothing
// outside of themselves.
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
  // Returns where in `bytes` the offsets of signatures are, which count from there
  // (patch_memory.h).
  uint64_t signatures_at() const { return signatures_at_; }
  // Returns the offset of one signature. `number`: from 1 on.
  uint64_t SignatureAt(uint16_t number) const { return signatures_[number - 1]; }

 private:
  std::vector<uint8_t> bytes_;
  uint64_t place_count_ = 0;
  uint64_t signatures_at_ = 0;
  std::vector<uint64_t> signatures_;
};

}  // namespace proftrace
