#include "userspace/inject/jump_distance.h"

#include "symbols/x86/instruction.h"

namespace proftrace {
namespace {

constexpr int kDistanceBytes = 4;
constexpr uint8_t kInterrupt = 0xcd;  // int

bool IsMarker(uint8_t byte) { return byte == kBreakpointOpcode || byte == kInterrupt; }

// Returns the index of the distance's uppermost byte that is not safe. -1: all bytes are safe.
int UnsafeByte(uint32_t distance) {
  for (int byte = kDistanceBytes - 1; byte >= 0; --byte) {
    if (IsMarker(static_cast<uint8_t>(distance >> (8 * byte)))) return byte;
  }
  return -1;
}

}  // namespace

bool IsSafeDistance(int32_t distance) { return UnsafeByte(static_cast<uint32_t>(distance)) < 0; }

uint64_t NextSafeTarget(uint64_t jump_end, uint64_t target, uint64_t alignment) {
  while (true) {
    const auto distance = static_cast<uint32_t>(target - jump_end);
    const int byte = UnsafeByte(distance);
    if (byte < 0) return target;
    // The target is moved to the next distance at which that byte is greater by one and the bytes
    // below it are zero.
    const uint64_t unit = uint64_t{1} << (8 * byte);
    const uint64_t step = unit - (distance & (unit - 1));
    target += (step + alignment - 1) & ~(alignment - 1);
  }
}

}  // namespace proftrace
