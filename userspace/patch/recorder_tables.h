// The tables that the recorder in a job looks up by number: places, and signatures, which describe
// what operators are called with. In each region of trampolines they lie behind the recorder's
// code. They contain no address outside of themselves.
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
  // Returns the position in bytes() of the signatures' offsets. These offsets count from that
  // position (patch_memory.h).
  uint64_t signatures_at() const { return signatures_at_; }
  // Returns the position in bytes() of the signature `number`, which is 1 for the first one.
  uint64_t SignatureAt(uint16_t number) const { return signatures_[number - 1]; }

 private:
  std::vector<uint8_t> bytes_;
  uint64_t place_count_ = 0;
  uint64_t signatures_at_ = 0;
  std::vector<uint64_t> signatures_;
};

}  // namespace proftrace
