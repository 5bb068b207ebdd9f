#include "exporters/parquet/hybrid_runs.h"

#include <algorithm>
#include <bit>
#include <cstddef>

namespace proftrace {
namespace {

constexpr size_t kGroup = 8;

void AppendVarint(uint64_t value, std::string* bytes) {
  for (; value >= 0x80; value >>= 7) bytes->push_back(static_cast<char>(value | 0x80));
  bytes->push_back(static_cast<char>(value));
}

template <typename Number>
size_t RunAt(std::span<const Number> numbers, size_t begin) {
  size_t end = begin + 1;
  while (end < numbers.size() && numbers[end] == numbers[begin]) ++end;
  return end - begin;
}

// Returns whether the whole group that begins at `begin` is one number.
template <typename Number>
bool IsRun(std::span<const Number> numbers, size_t begin) {
  if (numbers.size() - begin < kGroup) return false;
  for (size_t i = 1; i < kGroup; ++i) {
    if (numbers[begin + i] != numbers[begin]) return false;
  }
  return true;
}

template <typename Number>
void AppendGroups(std::span<const Number> numbers, int bit_width, std::string* bytes) {
  const size_t groups = (numbers.size() + kGroup - 1) / kGroup;
  AppendVarint(groups << 1 | 1, bytes);
  uint64_t bits = 0;
  int count = 0;
  for (size_t i = 0; i < groups * kGroup; ++i) {
    bits |= uint64_t{i < numbers.size() ? numbers[i] : Number{0}} << count;
    for (count += bit_width; count >= 8; count -= 8, bits >>= 8) {
      bytes->push_back(static_cast<char>(bits));
    }
  }
}

template <typename Number>
void AppendRuns(std::span<const Number> numbers, int bit_width, std::string* bytes) {
  for (size_t at = 0; at < numbers.size();) {
    if (IsRun(numbers, at)) {
      const size_t length = RunAt(numbers, at);
      AppendVarint(length << 1, bytes);
      for (int shift = 0; shift < bit_width; shift += 8) {
        bytes->push_back(static_cast<char>(uint32_t{numbers[at]} >> shift));
      }
      at += length;
      continue;
    }
    size_t end = at;
    while (end < numbers.size() && !IsRun(numbers, end)) end += kGroup;
    end = std::min(end, numbers.size());
    AppendGroups(numbers.subspan(at, end - at), bit_width, bytes);
    at = end;
  }
}

}  // namespace

int BitWidthOf(uint32_t most) { return std::max(1, static_cast<int>(std::bit_width(most))); }

void AppendHybridRuns(std::span<const uint32_t> numbers, int bit_width, std::string* bytes) {
  AppendRuns(numbers, bit_width, bytes);
}

void AppendHybridRuns(std::span<const uint8_t> numbers, int bit_width, std::string* bytes) {
  AppendRuns(numbers, bit_width, bytes);
}

}  // namespace proftrace
