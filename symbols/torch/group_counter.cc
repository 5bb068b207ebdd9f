#include "symbols/torch/group_counter.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace proftrace {
namespace {

constexpr uint32_t kMostCounterOffset = 65536;

// Returns whether `code` began with `bytes`, which it then begins behind.
bool Skip(std::span<const uint8_t> bytes, std::span<const uint8_t>* code) {
  if (code->size() < bytes.size() || !std::equal(bytes.begin(), bytes.end(), code->begin())) {
    return false;
  }
  *code = code->subspan(bytes.size());
  return true;
}

// Skips code that keeps the object in rbx and calls a function which checks it, as torch 2.15 has
// it. Returns whether it was there.
bool SkipCheck(std::span<const uint8_t>* code) {
  constexpr std::array<uint8_t, 4> kKeep = {0x53, 0x48, 0x89, 0xfb};  // push rbx; mov rbx, rdi
  constexpr std::array<uint8_t, 1> kCall = {0xe8};
  constexpr size_t kDistanceBytes = 4;
  std::span<const uint8_t> rest = *code;
  if (!Skip(kKeep, &rest) || !Skip(kCall, &rest) || rest.size() < kDistanceBytes) return false;
  *code = rest.subspan(kDistanceBytes);
  return true;
}

}  // namespace

GroupCounter CounterOfCode(std::span<const uint8_t> code) {
  constexpr std::array<uint8_t, 4> kEndbr64 = {0xf3, 0x0f, 0x1e, 0xfa};
  constexpr uint8_t kRexW = 0x48;
  constexpr uint8_t kLoad = 0x8b;    // mov r, [r/m]
  constexpr uint8_t kByteOf = 0x40;  // eax or rax, [register + 8 bits]
  constexpr uint8_t kWordOf = 0x80;  // eax or rax, [register + 32 bits]
  constexpr uint8_t kRdi = 7;
  constexpr uint8_t kRbx = 3;
  Skip(kEndbr64, &code);
  const uint8_t object = SkipCheck(&code) ? kRbx : kRdi;
  GroupCounter counter{0, 4};
  if (!code.empty() && code[0] == kRexW) {
    counter.bytes = 8;
    code = code.subspan(1);
  }
  if (code.size() < 6 || code[0] != kLoad) return {};
  if (code[1] == (kByteOf | object) && code[2] < 0x80) {
    counter.offset = code[2];
  } else if (code[1] == (kWordOf | object)) {
    std::memcpy(&counter.offset, &code[2], sizeof(counter.offset));
  } else {
    return {};
  }
  return counter.offset < kMostCounterOffset ? counter : GroupCounter();
}

}  // namespace proftrace
