#include "userspace/patch/recorder_tables.h"

#include <algorithm>
#include <cstddef>
#include <cstring>

namespace proftrace {
namespace {

constexpr size_t kAlignment = 8;

size_t RoundUp(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

// Returns the bytes of a signature, cut behind its last argument.
size_t BytesOf(const abi::pt_signature& signature) {
  const size_t arguments = std::min<size_t>(signature.count, PT_MOST_ARGUMENTS);
  return offsetof(abi::pt_signature, arguments) + arguments * sizeof(abi::pt_argument);
}

}  // namespace

RecorderTables::RecorderTables(const std::vector<abi::pt_place>& places,
                               const std::vector<abi::pt_signature>& signatures)
    : place_count_(places.size()), signatures_at_(places.size() * sizeof(abi::pt_place)) {
  size_t end = RoundUp(signatures_at_ + signatures.size() * sizeof(uint32_t));
  for (const abi::pt_signature& signature : signatures) {
    signatures_.push_back(end);
    end = RoundUp(end + BytesOf(signature));
  }
  bytes_.resize(end);
  if (!places.empty()) std::memcpy(bytes_.data(), places.data(), signatures_at_);
  for (size_t i = 0; i < signatures.size(); ++i) {
    const auto offset = static_cast<uint32_t>(signatures_[i] - signatures_at_);
    std::memcpy(bytes_.data() + signatures_at_ + i * sizeof(offset), &offset, sizeof(offset));
    std::memcpy(bytes_.data() + signatures_[i], &signatures[i], BytesOf(signatures[i]));
  }
}

}  // namespace proftrace
