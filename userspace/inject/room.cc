#include "userspace/inject/room.h"

#include <algorithm>
#include <cstddef>

#include "userspace/inject/jump_distance.h"

namespace proftrace {
namespace {

constexpr uint64_t kRoomPageBytes = 4096;
constexpr uint64_t kReach = 0x7800'0000;  // a jump's reach, less room for the length of one module
constexpr uint64_t kMargin = 0x10000;  // left free beside other mappings, if there is room for it
constexpr uint64_t kLowest = 0x10000;
// How many pages are tried from each end of a gap. Over so many pages, every unsafe byte of a
// distance has changed, except the uppermost one.
constexpr int kMostPages = 96;

// Returns `address` lowered by -`change`, or 0 where the result would be negative.
uint64_t Less(uint64_t address, int64_t change) {
  const auto less = static_cast<uint64_t>(-change);
  return address > less ? address - less : 0;
}

// The properties of the room that is wanted.
struct Wanted {
  uint64_t lowest;   // the lowest address at which a jump may lie
  uint64_t highest;  // the address behind the highest jump
  uint64_t bytes;
  const std::function<bool(uint64_t)>& accepts;

  // Return the highest address of a room that lies wholly below the targets that no jump may have,
  // and the lowest address of a room wholly above them.
  uint64_t HighestBelow() const { return Less(lowest, kUnsafeFrom - static_cast<int64_t>(bytes)); }
  uint64_t LowestAbove() const { return Less(highest, kUnsafeUntil); }
  bool IsSafe(uint64_t at) const {
    return (at <= HighestBelow() || at >= LowestAbove()) && (accepts == nullptr || accepts(at));
  }
};

uint64_t FindRoom(const std::vector<Mapping>& mappings, const Wanted& wanted, uint64_t margin) {
  const auto [lowest, highest, bytes, accepts] = wanted;
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
  // Takes the safe page nearest to `last`, and without `at_end` also the one nearest to `first`.
  const auto take_within = [&](uint64_t first, uint64_t last, bool at_end) {
    for (int i = 0; !at_end && i < kMostPages && first + i * kRoomPageBytes <= last; ++i) {
      if (!wanted.IsSafe(first + i * kRoomPageBytes)) continue;
      take(first + i * kRoomPageBytes);
      break;
    }
    for (int i = 0; i < kMostPages && first + i * kRoomPageBytes <= last; ++i) {
      if (!wanted.IsSafe(last - i * kRoomPageBytes)) continue;
      take(last - i * kRoomPageBytes);
      break;
    }
  };
  // Takes rooms within [first, last], on both sides of the targets that no jump may have.
  const auto take_beside = [&](uint64_t first, uint64_t last, bool at_end) {
    const uint64_t below = std::min(last, wanted.HighestBelow() & ~(kRoomPageBytes - 1));
    const uint64_t above =
        std::max(first, (wanted.LowestAbove() + kRoomPageBytes - 1) & ~(kRoomPageBytes - 1));
    if (first <= below) take_within(first, below, at_end);
    if (above <= last) take_within(above, last, at_end);
  };
  // The gap below the first mapping counts, too: the heap may lie close behind a program that has
  // no other gap.
  uint64_t start = kLowest;
  for (size_t i = 0; i < mappings.size(); ++i) {
    const uint64_t end = mappings[i].start;
    if (end >= start + bytes + 2 * margin) {
      const uint64_t last = (end - bytes - margin) & ~(kRoomPageBytes - 1);
      // The heap grows into the gap behind it.
      const bool is_behind_heap = i > 0 && mappings[i - 1].path == "[heap]";
      const uint64_t first = start + margin;
      take_beside((first + kRoomPageBytes - 1) & ~(kRoomPageBytes - 1), last, is_behind_heap);
    }
    start = std::max(kLowest, mappings[i].end);
  }
  return best;
}

}  // namespace

uint64_t FindRoom(const std::vector<Mapping>& mappings, uint64_t lowest, uint64_t highest,
                  uint64_t bytes, const std::function<bool(uint64_t)>& accepts) {
  const Wanted wanted{lowest, highest, bytes, accepts};
  const uint64_t room = FindRoom(mappings, wanted, kMargin);
  return room != 0 ? room : FindRoom(mappings, wanted, kRoomPageBytes);
}

}  // namespace proftrace
