// Jumps over a file's code beside probes of the kernel: their distances, and what is left of them.
#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <cstring>
#include <optional>
#include <random>
#include <vector>

#include "userspace/inject/jump_distance.h"
#include "userspace/inject/room.h"
#include "userspace/inject/torn_jump.h"
#include "userspace/patch/trampoline_room.h"

namespace proftrace {
namespace {

constexpr uint64_t kCode = 0x7f12'3456'0000;

bool HasMarker(int32_t distance) {
  std::array<uint8_t, 4> bytes;
  std::memcpy(bytes.data(), &distance, sizeof(distance));
  for (const uint8_t byte : bytes) {
    if (byte == 0xcc || byte == 0xcd) return true;
  }
  return false;
}

Mapping Mapped(uint64_t start, uint64_t end) {
  Mapping mapping;
  mapping.start = start;
  mapping.end = end;
  return mapping;
}

TEST(JumpDistanceTest, IsSafeWithoutABreakpointInAnyByte) {
  for (int byte = 0; byte < 4; ++byte) {
    for (const uint32_t marker : {0xccU, 0xcdU}) {
      EXPECT_FALSE(IsSafeDistance(static_cast<int32_t>(marker << (8 * byte)))) << byte;
    }
  }
  EXPECT_TRUE(IsSafeDistance(0));
  EXPECT_TRUE(IsSafeDistance(-1));
  EXPECT_TRUE(IsSafeDistance(0x0c0c'cece));
}

TEST(JumpDistanceTest, TheNextTargetIsTheLowestSafeOne) {
  std::mt19937_64 random(20261128);
  for (int i = 0; i < 2000; ++i) {
    const uint64_t end = kCode + random() % 0x1000'0000;
    // Every second one close behind a distance that is not safe.
    const uint64_t base = (i % 2 == 0) ? 0xccccU - 40 + random() % 80 : random() % 0x2000'0000;
    const uint64_t target = (end + base) & ~uint64_t{15};
    const uint64_t next = NextSafeTarget(end, target, 16);
    ASSERT_EQ((next - target) % 16, 0u);
    ASSERT_FALSE(HasMarker(static_cast<int32_t>(next - end)));
    if (next - target > 0x1'0000) continue;  // too many to look at one by one
    for (uint64_t before = target; before < next; before += 16) {
      ASSERT_TRUE(HasMarker(static_cast<int32_t>(before - end)));
    }
  }
}

TEST(JumpDistanceTest, ARoomIsNotWhereTheUppermostByteWouldBeABreakpoint) {
  constexpr uint64_t kBytes = 0x10'0000;
  // All that is free near the code begins in the middle of what no jump may reach.
  const uint64_t end = kCode - 0x3280'0000;
  const std::vector<Mapping> mappings = {Mapped(0x1'0000, end - 0x2000'0000),
                                         Mapped(end, kCode + 0x9000'0000)};
  const uint64_t room = FindRoom(mappings, kCode, kCode + 0x1000, kBytes);
  ASSERT_NE(room, 0u);
  const auto highest = static_cast<int64_t>(room + kBytes - kCode);
  EXPECT_LE(highest, kUnsafeFrom);
  EXPECT_GE(room, end - 0x2000'0000);
  // There is none where the whole gap is of that kind.
  EXPECT_EQ(FindRoom({Mapped(0x1'0000, kCode - 0x33c0'0000),
                      Mapped(kCode - 0x3240'0000, kCode + 0x9000'0000)},
                     kCode, kCode + 0x1000, kBytes),
            0u);
}

TEST(TrampolineRoomTest, EveryPlaceIsSafeAndNoTwoOverlap) {
  std::mt19937_64 random(7);
  // The jumps lie so that the second uppermost byte of the distance is 0xcc for the first places.
  const uint64_t begin = kCode + 0x00cb'f000;
  TrampolineRoom room(begin, begin + 0x6'0000);
  std::vector<std::pair<uint64_t, uint64_t>> taken;
  for (int i = 0; i < 2000; ++i) {
    const uint64_t end = kCode + random() % 0x4000;
    const size_t bytes = 20 + random() % 120;
    const std::optional<uint64_t> at = room.Take(end, bytes);
    ASSERT_TRUE(at.has_value()) << i;
    ASSERT_FALSE(HasMarker(static_cast<int32_t>(*at - end)));
    ASSERT_EQ(*at % 16, 0u);
    ASSERT_GE(*at, begin);
    ASSERT_LE(*at + bytes, begin + 0x6'0000);
    for (const auto& [first, last] : taken) ASSERT_TRUE(*at + bytes <= first || *at >= last);
    taken.emplace_back(*at, *at + bytes);
  }
}

JumpPlace JumpInto(uint64_t target) {
  JumpPlace jump = {0xe9};
  const auto distance = static_cast<int32_t>(target - kCode - jump.size());
  std::memcpy(jump.data() + 1, &distance, sizeof(distance));
  return jump;
}

constexpr uint64_t kRegion = kCode - 0x33c0'0000;  // as earlier versions had them: 0xcc on top
constexpr uint64_t kRegionEnd = kRegion + 0x20'0000;
constexpr JumpPlace kFile = {0x48, 0x89, 0xe5, 0x41, 0x57};

TEST(TornJumpTest, AnyMixtureOfTheJumpAndTheFileIsRecognizedAndPutBack) {
  const JumpPlace jump = JumpInto(kRegion + 0x1230);
  for (unsigned kept = 0; kept < 32; ++kept) {  // bit: a byte of the jump
    JumpPlace now = kFile;
    for (size_t i = 0; i < now.size(); ++i) {
      if ((kept >> i & 1) != 0) now[i] = jump[i];
    }
    // A 0xcc alone may be anybody's.
    const bool is_lone_marker = kept == 0x10;
    EXPECT_EQ(MayBeJumpInto(kRegion, kRegionEnd, kCode, now, kFile), kept != 0 && !is_lone_marker)
        << kept;
    if (kept != 0 && !is_lone_marker && now[4] != 0xcc) {
      EXPECT_EQ(WithoutJump(kRegion, kRegionEnd, kCode, now, kFile), kFile) << kept;
    }
  }
  EXPECT_EQ(WithoutJump(kRegion, kRegionEnd, kCode, jump, kFile), kFile);
}

TEST(TornJumpTest, BreakpointsOfOthersStay) {
  JumpPlace now = JumpInto(kRegion + 0x1230);
  now[0] = 0xcc;
  EXPECT_TRUE(MayBeJumpInto(kRegion, kRegionEnd, kCode, now, kFile));
  JumpPlace expected = kFile;
  expected[0] = 0xcc;
  EXPECT_EQ(WithoutJump(kRegion, kRegionEnd, kCode, now, kFile), expected);
  constexpr uint64_t kNear = kCode - 0x1000'0000;
  now = JumpInto(kNear + 0x1230);
  now[4] = 0xcc;  // leads elsewhere now
  EXPECT_TRUE(MayBeJumpInto(kNear, kNear + 0x20'0000, kCode, now, kFile));
  EXPECT_EQ(WithoutJump(kNear, kNear + 0x20'0000, kCode, now, kFile)[4], 0xcc);
  // The file's code with a breakpoint is no jump.
  EXPECT_FALSE(MayBeJumpInto(kRegion, kRegionEnd, kCode, expected, kFile));
}

TEST(TornJumpTest, OtherCodeIsNobodysJump) {
  EXPECT_FALSE(MayBeJumpInto(kRegion, kRegionEnd, kCode, {0xeb, 0x05, 0x90, 0x90, 0x90}, kFile));
  EXPECT_FALSE(MayBeJumpInto(kRegion, kRegionEnd, kCode, JumpInto(kCode + 0x1000'0000), kFile));
}

}  // namespace
}  // namespace proftrace
