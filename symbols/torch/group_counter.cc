#include "symbols/torch/group_counter.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace proftrace {
namespace {

constexpr uint32_t kMostCounterOffset = 65536;

}  // namespace

GroupCounter CounterOfCode(std::span<const uint8_t> code) {
  constexpr std::array<uint8_t, 4> kEndbr64 = {0xf3, 0x0f, 0x1e, 0xfa};
  constexpr uint8_t kRexW = 0x48;
  constexpr uint8_t kLoad = 0x8b;       // mov r, [r/m]
  constexpr uint8_t kByteOfRdi = 0x47;  // eax or rax, [rdi + 8 bits]
  constexpr uint8_t kWordOfRdi = 0x87;  // eax or rax, [rdi + 32 bits]
  if (code.size() >= kEndbr64.size() &&
      std::equal(kEndbr64.begin(), kEndbr64.end(), code.begin())) {
    code = code.subspan(kEndbr64.size());
  }
  GroupCounter counter{0, 4};
  if (!code.empty() && code[0] == kRexW) {
    counter.bytes = 8;
    code = code.subspan(1);
  }
  if (code.size() < 6 || code[0] != kLoad) return {};
  if (code[1] == kByteOfRdi && code[2] < 0x80) {
    counter.offset = code[2];
  } else if (code[1] == kWordOfRdi) {
    std::memcpy(&counter.offset, &code[2], sizeof(counter.offset));
  } else {
    return {};
  }
  return counter.offset < kMostCounterOffset ? counter : GroupCounter();
}

}  // namespace proftrace
