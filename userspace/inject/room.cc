#include "userspace/inject/room.h"

#include <algorithm>
#include <cstddef>

namespace proftrace {
namespace {

constexpr uint64_t kRoomPageBytes = 4096;
constexpr uint64_t kReach = 0x7800'0000;  // of a jump, less what one module may be long
constexpr uint64_t kMargin = 0x10000;  // left free beside other mappings, where there is more room
constexpr uint64_t kLowest = 0x10000;

uint64_t FindRoom(const std::vector<Mapping>& mappings, uint64_t lowest, uint64_t highest,
                  uint64_t bytes, uint64_t margin) {
  const auto distance = [&](uint64_t at) {
    const uint64_t end = at + bytes;
    const uint64_t below = at < highest ? highest - at : 0;
    const uint64_t above = end > lowest ? end - lowest : 0;
    return std::max(below, above);
  };
  uint64_t best = 0;
  const auto take = [&](uint64_t at) {
    if (distance(at) < kReach && (best == 0 || distance(at) < distance(best))) best = at;
  };
  // Below the first one, too: the heap may lie close behind a program, which then has no other gap.
  uint64_t start = kLowest;
  for (size_t i = 0; i < mappings.size(); ++i) {
    const uint64_t end = mappings[i].start;
    if (end >= start + bytes + 2 * margin) {
      if (i > 0 && mappings[i - 1].path != "[heap]") take(start + margin);  // that grows there
      take((end - bytes - margin) & ~(kRoomPageBytes - 1));
    }
    start = std::max(kLowest, mappings[i].end);
  }
  return best;
}

}  // namespace

uint64_t FindRoom(const std::vector<Mapping>& mappings, uint64_t lowest, uint64_t highest,
                  uint64_t bytes) {
  const uint64_t room = FindRoom(mappings, lowest, highest, bytes, kMargin);
  return room != 0 ? room : FindRoom(mappings, lowest, highest, bytes, kRoomPageBytes);
}

}  // namespace proftrace
