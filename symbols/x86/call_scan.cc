#include "symbols/x86/call_scan.h"

#include <emmintrin.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <cstring>
#include <memory>

#include "symbols/process/read_budget.h"
#include "userspace/base/clock.h"
#include "userspace/base/turns.h"

namespace proftrace {
namespace {

constexpr size_t kChunkBytes = size_t{1} << 20;  // stays in the second-level cache
constexpr size_t kLongestForm = 6;
// More calls than any real file has, so that a hostile file cannot fill the memory.
constexpr size_t kMaxSites = 200000;

// Puts the target of the instruction at `at` into `target`. False: the instruction has none of the
// four forms.
bool TargetOf(const uint8_t* at, size_t left, uint64_t address, uint64_t* target) {
  int32_t displacement;
  if ((at[0] & 0xfe) == 0xe8 && left >= 5) {
    std::memcpy(&displacement, at + 1, 4);
    *target = address + 5 + static_cast<int64_t>(displacement);
    return true;
  }
  if (at[0] == 0xff && left >= 6 && (at[1] == 0x15 || at[1] == 0x25)) {
    std::memcpy(&displacement, at + 2, 4);
    *target = address + 6 + static_cast<int64_t>(displacement);
    return true;
  }
  return false;
}

}  // namespace

void ScanBuffer(const uint8_t* bytes, size_t count, size_t begin_limit, uint64_t address,
                const std::vector<uint64_t>& targets, std::vector<CallSite>* sites) {
  const auto check = [&](size_t i) {
    uint64_t target = 0;
    if (!TargetOf(bytes + i, count - i, address + i, &target)) return;
    for (const uint64_t wanted : targets) {
      if (wanted == target && sites->size() < kMaxSites) sites->push_back({address + i, target});
    }
  };
  const __m128i call = _mm_set1_epi8(static_cast<char>(0xe8));
  const __m128i jump_mask = _mm_set1_epi8(static_cast<char>(0xfe));
  const __m128i group = _mm_set1_epi8(static_cast<char>(0xff));
  size_t i = 0;
  for (; i + 16 <= std::min(count, begin_limit); i += 16) {
    const __m128i block = _mm_loadu_si128(reinterpret_cast<const __m128i*>(bytes + i));
    const __m128i hits = _mm_or_si128(_mm_cmpeq_epi8(_mm_and_si128(block, jump_mask), call),
                                      _mm_cmpeq_epi8(block, group));
    unsigned mask = static_cast<unsigned>(_mm_movemask_epi8(hits));
    while (mask != 0) {
      check(i + static_cast<size_t>(std::countr_zero(mask)));
      mask &= mask - 1;
    }
  }
  for (; i < std::min(count, begin_limit); ++i) check(i);
}

FoundCalls FindCalls(const ElfFile& file, const std::vector<uint64_t>& targets, int64_t limit_ns) {
  FoundCalls calls;
  if (targets.empty()) return calls;
  std::vector<CallSite>& sites = calls.sites;
  std::atomic<bool> is_cut = false;
  const int64_t first_deadline_ns = ThreadCpuNs() + limit_ns;
  for (const ElfSection* code : file.CodeSections(&calls.left_out)) {
    const ElfSection& section = *code;
    if (section.name.starts_with(".plt")) continue;
    const int64_t left_ns = first_deadline_ns - ThreadCpuNs();
    std::vector<std::vector<CallSite>> found((section.size + kChunkBytes - 1) / kChunkBytes);
    std::atomic<size_t> count = 0;
    const ReadBudget::Share share;
    ShareTurns(found.size(), [&]() -> TurnWorker {
      const auto buffer = std::make_shared<std::vector<uint8_t>>(kChunkBytes + kLongestForm);
      const int64_t deadline_ns = ThreadCpuNs() + left_ns;  // on the clock of this thread
      const auto join = std::make_shared<ReadBudget::Join>(share);
      return [&file, &section, &targets, &found, &count, &is_cut, buffer, deadline_ns,
              join](size_t turn) {
        if (count >= kMaxSites) return;
        if (ThreadCpuNs() > deadline_ns) {
          is_cut = true;
          return;
        }
        const uint64_t at = turn * kChunkBytes;
        const size_t want = std::min<uint64_t>(buffer->size(), section.size - at);
        const size_t got = file.ReadOffset(section.file_offset + at, buffer->data(), want);
        ScanBuffer(buffer->data(), got, kChunkBytes, section.address + at, targets, &found[turn]);
        count += found[turn].size();
      };
    });
    for (const std::vector<CallSite>& part : found) {
      const size_t room = kMaxSites - std::min(sites.size(), kMaxSites);
      sites.insert(sites.end(), part.begin(),
                   part.begin() + static_cast<ptrdiff_t>(std::min(part.size(), room)));
    }
  }
  calls.is_cut = is_cut;
  return calls;
}

}  // namespace proftrace
