#include "symbols/x86/branch_scan.h"

#include <emmintrin.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
#include <iterator>
#include <memory>

#include "symbols/process/read_budget.h"
#include "userspace/base/turns.h"

namespace proftrace {
namespace {

constexpr size_t kChunkBytes = size_t{1} << 20;  // stays in the second-level cache
constexpr size_t kDistanceBytes = 4;
// The most branches that are kept. No real file has as many patterns by chance.
constexpr size_t kMaxBranches = 1000000;

// The places, with a bit for each block of 64 bytes, so that one bit decides for most targets that
// they are not among them.
class Places {
 public:
  explicit Places(const std::vector<AddressRange>& places) : places_(places) {
    if (places.empty()) return;
    base_ = places.front().first >> kBlockShift;
    const uint64_t blocks = (places.back().last >> kBlockShift) - base_ + 1;
    if (blocks > kMostBlocks) return;
    blocks_.resize(blocks);
    for (const AddressRange& place : places) {
      for (uint64_t block = place.first >> kBlockShift; block <= place.last >> kBlockShift; ++block)
        blocks_[block - base_] = true;
    }
  }

  bool Hold(uint64_t address) const {
    const uint64_t block = (address >> kBlockShift) - base_;
    if (!blocks_.empty() && (block >= blocks_.size() || !blocks_[block])) return false;
    const auto after =
        std::upper_bound(places_.begin(), places_.end(), address,
                         [](uint64_t a, const AddressRange& place) { return a < place.first; });
    return after != places_.begin() && address < (after - 1)->last;
  }

 private:
  static constexpr unsigned kBlockShift = 6;
  // The limit of 8 MiB of bits, for 4 GiB of addresses. Places of a real file do not lie further
  // apart.
  static constexpr uint64_t kMostBlocks = uint64_t{1} << 26;
  const std::vector<AddressRange>& places_;
  uint64_t base_ = 0;
  std::vector<bool> blocks_;  // empty: the places lie too far apart
};

// Looks at patterns whose last byte before the distance has an index in [first, limit).
void ScanChunk(const uint8_t* bytes, size_t count, size_t first, size_t limit, uint64_t address,
               const Places& places, std::vector<Branch>* branches) {
  const auto check = [&](size_t i) {
    const size_t distance_at = i + 1;
    if (distance_at + kDistanceBytes > count) return;
    int32_t distance;
    std::memcpy(&distance, bytes + distance_at, sizeof(distance));
    const uint64_t target = address + distance_at + kDistanceBytes + static_cast<int64_t>(distance);
    if (!places.Hold(target)) return;
    const bool is_conditional = (bytes[i] & 0xf0) == 0x80;
    branches->push_back({address + i - (is_conditional ? 1 : 0), target});
  };
  const __m128i call = _mm_set1_epi8(static_cast<char>(0xe8));
  const __m128i call_mask = _mm_set1_epi8(static_cast<char>(0xfe));
  const __m128i escape = _mm_set1_epi8(0x0f);
  const __m128i condition = _mm_set1_epi8(static_cast<char>(0x80));
  const __m128i condition_mask = _mm_set1_epi8(static_cast<char>(0xf0));
  const auto is_pattern = [&](size_t i) {
    return (bytes[i] & 0xfe) == 0xe8 ||
           (i > 0 && bytes[i - 1] == 0x0f && (bytes[i] & 0xf0) == 0x80);
  };
  const size_t end = std::min(count, limit);
  size_t i = first;
  if (i == 0 && end > 0) {  // there is no byte before the first one
    if (is_pattern(i)) check(i);
    ++i;
  }
  for (; i + 16 <= end; i += 16) {
    const __m128i block = _mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes + i));
    const __m128i before = _mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes + i - 1));
    const __m128i conditional =
        _mm_and_si128(_mm_cmpeq_epi8(before, escape),
                      _mm_cmpeq_epi8(_mm_and_si128(block, condition_mask), condition));
    const __m128i hits =
        _mm_or_si128(_mm_cmpeq_epi8(_mm_and_si128(block, call_mask), call), conditional);
    unsigned mask = static_cast<unsigned>(_mm_movemask_epi8(hits));
    while (mask != 0) {
      check(i + static_cast<size_t>(std::countr_zero(mask)));
      mask &= mask - 1;
    }
  }
  for (; i < end; ++i) {
    if (is_pattern(i)) check(i);
  }
}

}  // namespace

std::optional<std::vector<Branch>> FindBranchesInto(const ElfFile& file,
                                                    const std::vector<AddressRange>& places) {
  std::vector<Branch> branches;
  const Places wanted(places);
  if (places.empty()) return branches;
  size_t left_out = 0;
  const std::vector<const ElfSection*> sections = file.CodeSections(&left_out);
  if (left_out > 0) return std::nullopt;
  std::atomic<size_t> count = 0;
  for (const ElfSection* code : sections) {
    const ElfSection& section = *code;
    std::vector<std::vector<Branch>> found((section.size + kChunkBytes - 1) / kChunkBytes);
    const ReadBudget::Share share;
    ShareTurns(found.size(), [&]() -> TurnWorker {
      // The buffer has one byte before the chunk, which may be the first of a conditional jump, and
      // room for a distance behind the chunk.
      const auto buffer = std::make_shared<std::vector<uint8_t>>(1 + kChunkBytes + kDistanceBytes);
      const auto join = std::make_shared<ReadBudget::Join>(share);
      return [&file, &section, &wanted, &found, &count, buffer, join](size_t turn) {
        if (count > kMaxBranches) return;
        const uint64_t before = turn == 0 ? 0 : 1;
        const uint64_t at = turn * kChunkBytes - before;
        const size_t want = std::min<uint64_t>(buffer->size(), section.size - at);
        const size_t got = file.ReadOffset(section.file_offset + at, buffer->data(), want);
        ScanChunk(buffer->data(), got, before, kChunkBytes + before, section.address + at, wanted,
                  &found[turn]);
        count += found[turn].size();
      };
    });
    if (count > kMaxBranches) return std::nullopt;
    for (const std::vector<Branch>& part : found) {
      branches.insert(branches.end(), part.begin(), part.end());
    }
  }
  return branches;
}

}  // namespace proftrace
