#include "userspace/inject/torn_jump.h"

#include <cstddef>
#include <cstring>

#include "symbols/x86/instruction.h"

namespace proftrace {
namespace {

constexpr size_t kDistanceAt = 1;

int32_t DistanceOf(const JumpPlace& place) {
  int32_t distance = 0;
  std::memcpy(&distance, place.data() + kDistanceAt, sizeof(distance));
  return distance;
}

bool IsWhole(uint64_t begin, uint64_t end, uint64_t address, const JumpPlace& now) {
  const uint64_t target = address + now.size() + static_cast<uint64_t>(int64_t{DistanceOf(now)});
  return (now[0] == kJumpOpcode || now[0] == kBreakpointOpcode) && target >= begin && target < end;
}

}  // namespace

bool IsOfFile(const uint8_t* now, const uint8_t* file, size_t bytes) {
  for (size_t i = 0; i < bytes; ++i) {
    if (now[i] != file[i] && now[i] != kBreakpointOpcode) return false;
  }
  return true;
}

bool MayBeJumpInto(uint64_t begin, uint64_t end, uint64_t address, const JumpPlace& now,
                   const JumpPlace& file) {
  if (IsOfFile(now.data(), file.data(), now.size())) return false;
  if (IsWhole(begin, end, address, now)) return true;
  if (now[0] != kJumpOpcode && now[0] != kBreakpointOpcode && now[0] != file[0]) return false;
  // A byte that is the file's, or a breakpoint, may have replaced any byte of the distance.
  uint32_t known = 0;
  for (size_t i = kDistanceAt; i < now.size(); ++i) {
    const bool is_known = now[i] != file[i] && now[i] != kBreakpointOpcode;
    if (is_known) known |= uint32_t{0xff} << (8 * (i - kDistanceAt));
  }
  const auto distance = static_cast<uint32_t>(DistanceOf(now)) & known;
  for (uint64_t target = begin; target < end; ++target) {
    const auto there = static_cast<uint32_t>(target - address - now.size());
    if ((there & known) == distance) return true;
  }
  return false;
}

bool WriteAround(const WritableMemory& memory, uint64_t address, std::span<const uint8_t> before,
                 std::span<const uint8_t> after) {
  const auto stays = [&](size_t i) {
    return before[i] == kBreakpointOpcode && after[i] == kBreakpointOpcode;
  };
  bool is_written = true;
  for (size_t begin = 0, end = 0; begin < before.size(); begin = end) {
    while (end < before.size() && !stays(end)) ++end;
    is_written =
        (end == begin || memory.Write(address + begin, after.data() + begin, end - begin)) &&
        is_written;
    while (end < before.size() && stays(end)) ++end;
  }
  return is_written;
}

JumpPlace WithoutJump(uint64_t begin, uint64_t end, uint64_t address, const JumpPlace& now,
                      const JumpPlace& file) {
  // Jumps of an earlier version may have 0xcc in their distance.
  const bool is_whole = IsWhole(begin, end, address, now);
  JumpPlace restored = file;
  for (size_t i = 0; i < now.size(); ++i) {
    const bool is_ours = is_whole && i >= kDistanceAt;
    if (now[i] == kBreakpointOpcode && !is_ours) restored[i] = kBreakpointOpcode;
  }
  return restored;
}

}  // namespace proftrace
