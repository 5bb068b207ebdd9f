#include "userspace/patch/patch_rooms.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <vector>

namespace proftrace {
namespace {

constexpr uint64_t kCode = 0x7f00'0000'0000;
constexpr uint64_t kFixed = 0x1'0000;
constexpr uint64_t kPage = 0x1000;
constexpr size_t kSpots = 4000;

// mov %rdi, %rbx; lea (%rsi,%rbx,2), %rax
const std::vector<uint8_t> kWindow = {0x48, 0x89, 0xfb, 0x48, 0x8d, 0x04, 0x5e};

std::vector<PatchSpot> Spots() {
  std::vector<PatchSpot> spots(kSpots);
  for (size_t i = 0; i < kSpots; ++i) {
    spots[i].bias = kCode;
    spots[i].window.address = 64 * i;
    spots[i].window.recorder = spots[i].window.address;
    spots[i].window.size = kWindow.size();
    spots[i].original = kWindow;
  }
  return spots;
}

struct Gap {
  uint64_t begin, bytes;
};

// All memory but these gaps, which ascend and lie above the code.
std::vector<Mapping> AllBut(const std::vector<Gap>& gaps) {
  std::vector<Mapping> mappings;
  Mapping mapping;
  mapping.start = 0x1000;
  for (const Gap& gap : gaps) {
    mapping.end = gap.begin;
    mappings.push_back(mapping);
    mapping.start = gap.begin + gap.bytes;
  }
  mapping.end = 0x7fff'ffff'f000;
  mappings.push_back(mapping);
  return mappings;
}

TEST(FindPatchRoomsTest, TakesOneRoomWhereItFits) {
  const std::vector<PatchSpot> spots = Spots();
  const auto rooms = FindPatchRooms(spots, kFixed, AllBut({{kCode + 0x100'0000, 0x100'0000}}));
  ASSERT_EQ(rooms.size(), 1u);
  EXPECT_EQ(rooms[0].first, 0u);
  EXPECT_EQ(rooms[0].end, kSpots);
  EXPECT_GE(rooms[0].bytes, kFixed + kSpots * kMostTrampolineBytes);
}

TEST(FindPatchRoomsTest, TakesPiecesWhereNoneIsLargeEnough) {
  const std::vector<PatchSpot> spots = Spots();
  std::vector<Gap> gaps;
  for (uint64_t i = 0; i < 20; ++i) gaps.push_back({kCode + 0x100'0000 * (i + 1), 0x2'0000});
  const auto rooms = FindPatchRooms(spots, kFixed, AllBut(gaps));
  ASSERT_GT(rooms.size(), 1u);
  size_t next = 0;
  for (const PatchRoom& room : rooms) {
    EXPECT_EQ(room.first, next);
    next = room.end;
    const bool is_in_gap = std::any_of(gaps.begin(), gaps.end(), [&](const Gap& gap) {
      return room.address >= gap.begin + kPage &&
             room.address + room.bytes + kPage <= gap.begin + gap.bytes;
    });
    EXPECT_TRUE(is_in_gap) << room.address;
    EXPECT_GE(room.bytes, kFixed + (room.end - room.first) * 16);
    for (const PatchRoom& other : rooms) {
      EXPECT_TRUE(&other == &room || other.address + other.bytes <= room.address ||
                  room.address + room.bytes <= other.address);
    }
  }
  EXPECT_EQ(next, kSpots);
}

TEST(FindPatchRoomsTest, LeavesOutWhatHasNoRoom) {
  const std::vector<PatchSpot> spots = Spots();
  const auto rooms = FindPatchRooms(spots, kFixed, AllBut({{kCode + 0x100'0000, 0x2'0000}}));
  ASSERT_EQ(rooms.size(), 1u);
  EXPECT_EQ(rooms[0].first, 0u);
  EXPECT_LT(rooms[0].end, kSpots);
  EXPECT_TRUE(FindPatchRooms(spots, kFixed, AllBut({})).empty());
  // Too small for the recorder; and out of reach.
  EXPECT_TRUE(FindPatchRooms(spots, kFixed, AllBut({{kCode + 0x100'0000, kFixed}})).empty());
  EXPECT_TRUE(
      FindPatchRooms(spots, kFixed, AllBut({{kCode + 0x1'0000'0000, 0x1000'0000}})).empty());
}

}  // namespace
}  // namespace proftrace
