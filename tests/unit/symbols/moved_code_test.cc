// Instructions made anew for another address. That they do the same is what
// symbols_moved_code_emulated_test looks at.
#include "symbols/x86/moved_code.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

namespace proftrace {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr uint64_t kFrom = 0x7f0000001000;
constexpr uint64_t kTo = 0x7f0000101000;

using Bytes = std::vector<uint8_t>;

absl::StatusOr<Bytes> Move(const Bytes& code, uint64_t to = kTo) {
  return MoveCode(code, kFrom, to);
}

// Where the last instruction of `moved`, a jmp rel32, leads.
uint64_t LastJump(const Bytes& moved) {
  EXPECT_EQ(moved[moved.size() - 5], 0xe9);
  int32_t distance = 0;
  std::memcpy(&distance, moved.data() + moved.size() - 4, 4);
  return kTo + moved.size() + static_cast<uint64_t>(int64_t{distance});
}

TEST(MovedCodeTest, PlainInstructionsStayAndAreFollowedByAJumpBack) {
  const Bytes code = {0x41, 0x54, 0x48, 0x89, 0xfb};  // push r12; mov rbx, rdi
  const auto moved = Move(code);
  ASSERT_TRUE(moved.ok()) << moved.status();
  ASSERT_EQ(moved->size(), code.size() + 5);
  EXPECT_TRUE(std::equal(code.begin(), code.end(), moved->begin()));
  EXPECT_EQ(LastJump(*moved), kFrom + code.size());
}

TEST(MovedCodeTest, MayBeMadeInTwoParts) {
  const Bytes code = {0x41, 0x54, 0x48, 0x89, 0xfb};
  const auto first = MoveCode(std::span(code).first(2), kFrom, kTo, MovedEnd::kFallThrough);
  ASSERT_TRUE(first.ok());
  EXPECT_THAT(*first, ElementsAre(0x41, 0x54));
  const auto nothing = MoveCode({}, kFrom + 5, kTo);
  ASSERT_TRUE(nothing.ok());
  ASSERT_EQ(nothing->size(), 5u);
  EXPECT_EQ(LastJump(*nothing), kFrom + 5);
}

TEST(MovedCodeTest, RebasesOperandsRelativeToTheInstructionPointer) {
  // cmp dword [rip + 0x10], 7: an immediate lies behind the displacement
  const auto moved = Move({0x83, 0x3d, 0x10, 0, 0, 0, 0x07});
  ASSERT_TRUE(moved.ok()) << moved.status();
  int32_t distance = 0;
  std::memcpy(&distance, moved->data() + 2, 4);
  EXPECT_EQ(kTo + 7 + static_cast<uint64_t>(int64_t{distance}), kFrom + 7 + 0x10);
  EXPECT_EQ((*moved)[6], 0x07);
}

TEST(MovedCodeTest, MakesShortJumpsLong) {
  // nop; nop; nop; je -16
  const auto moved = Move({0x90, 0x90, 0x90, 0x74, 0xf0});
  ASSERT_TRUE(moved.ok());
  EXPECT_EQ((*moved)[3], 0x0f);
  EXPECT_EQ((*moved)[4], 0x84);
  int32_t distance = 0;
  std::memcpy(&distance, moved->data() + 5, 4);
  EXPECT_EQ(kTo + 9 + static_cast<uint64_t>(int64_t{distance}), kFrom + 5 - 16);
  EXPECT_EQ(LastJump(*moved), kFrom + 5);
}

TEST(MovedCodeTest, CallsPushTheirOwnReturnAddress) {
  const auto moved = Move({0xe8, 0x00, 0x01, 0, 0});
  ASSERT_TRUE(moved.ok());
  uint32_t low = 0;
  uint32_t high = 0;
  std::memcpy(&low, moved->data() + 8, 4);
  std::memcpy(&high, moved->data() + 16, 4);
  EXPECT_EQ(uint64_t{high} << 32 | low, kFrom + 5);
  EXPECT_EQ(LastJump(*moved), kFrom + 5 + 0x100);
  EXPECT_EQ(moved->size(), 25u);
}

TEST(MovedCodeTest, CallsThroughTheStackFindTheirSlot) {
  // call [rsp + 0x18] becomes jmp [rsp + 0x20]
  const auto moved = Move({0xff, 0x54, 0x24, 0x18});
  ASSERT_TRUE(moved.ok());
  EXPECT_THAT(Bytes(moved->begin() + 20, moved->end()),
              ElementsAre(0xff, 0xa4, 0x24, 0x20, 0, 0, 0));
  // call [r12 + 0x18]: not the stack
  const auto other = Move({0x41, 0xff, 0x54, 0x24, 0x18});
  ASSERT_TRUE(other.ok());
  EXPECT_THAT(Bytes(other->begin() + 20, other->end()), ElementsAre(0x41, 0xff, 0x64, 0x24, 0x18));
}

TEST(MovedCodeTest, EndsWithAReturnAndLeavesPaddingOut) {
  const auto moved = Move({0x5b, 0xc3, 0xcc, 0xcc, 0xcc});
  ASSERT_TRUE(moved.ok());
  EXPECT_THAT(*moved, ElementsAre(0x5b, 0xc3));
  const auto nops = Move({0x5b, 0xc3, 0x66, 0x0f, 0x1f, 0x44, 0x00, 0x00});
  ASSERT_TRUE(nops.ok());
  EXPECT_THAT(*nops, ElementsAre(0x5b, 0xc3));
  EXPECT_FALSE(Move({0x5b, 0xc3, 0x5b, 0x5b, 0x5b}).ok());
}

TEST(MovedCodeTest, RefusesWhatIsNotTheSameElsewhere) {
  const struct {
    Bytes code;
    const char* reason;
  } kRefused[] = {
      {{0xe8, 0, 0, 0, 0}, "reads the instruction pointer"},
      {{0xe3, 0x10, 0x90, 0x90, 0x90}, "jrcxz"},
      {{0xe2, 0x10, 0x90, 0x90, 0x90}, "loop"},
      {{0x0f, 0x05, 0x90, 0x90, 0x90}, "plain"},  // syscall
      {{0xc7, 0xf8, 0, 0, 0, 0}, "plain"},        // xbegin
      {{0x0f, 0x0b, 0x90, 0x90, 0x90}, "trap"},   // ud2
      {{0xcc, 0x90, 0x90, 0x90, 0x90}, "trap"},
      {{0xf4, 0x90, 0x90, 0x90, 0x90}, "trap"},   // hlt
      {{0xfa, 0x90, 0x90, 0x90, 0x90}, "plain"},  // cli
      {{0xec, 0x90, 0x90, 0x90, 0x90}, "plain"},  // in al, dx
      {{0x0f, 0x78, 0xc1, 0x90, 0x90}, "plain"},  // vmread
      {{0xf2, 0x48, 0x0f, 0x78, 0x1d, 1, 0, 0, 0}, "cannot be moved"},
      {{0x90, 0xf3, 0x0f, 0x1e, 0xfa}, "jumped to"},        // endbr64
      {{0x90, 0x90, 0x90, 0x90, 0xcb}, "far"},              // retf
      {{0x90, 0x90, 0x48, 0xff, 0x2f}, "far"},              // jmp far [rdi]
      {{0x90, 0x90, 0x48, 0xcf}, "plain"},                  // iretq
      {{0x90, 0x90, 0x90, 0xff, 0xd4}, "stack"},            // call rsp
      {{0x67, 0x8b, 0x05, 1, 0, 0, 0}, "address"},          // mov eax, [eip + 1]
      {{0xff, 0xd0, 0x90, 0x90, 0x90}, "into the middle"},  // call rax, and more
      {{0x67, 0xe8, 0x10, 0, 0, 0}, "prefix"},
      // With a 2-byte distance; of 4 bytes for newer disassemblers.
      {{0x66, 0xe8, 0x10, 0, 0, 0}, "cannot be moved"},
  };
  for (const auto& [code, reason] : kRefused) {
    const auto moved = Move(code);
    ASSERT_FALSE(moved.ok()) << reason;
    EXPECT_THAT(std::string(moved.status().message()), HasSubstr(reason));
  }
  EXPECT_FALSE(Move({0x0f}).ok());
}

TEST(MovedCodeTest, RefusesDistancesBeyondTwoGiB) {
  const Bytes load = {0x48, 0x8b, 0x05, 0x10, 0, 0, 0};
  EXPECT_TRUE(Move(load, kFrom + (uint64_t{1} << 30)).ok());
  EXPECT_FALSE(Move(load, kFrom + (uint64_t{3} << 30)).ok());
  EXPECT_FALSE(Move({0x90, 0x90, 0x90, 0x90, 0x90}, kFrom - (uint64_t{3} << 30)).ok());
  // What goes nowhere may go anywhere.
  EXPECT_TRUE(Move({0x90, 0x90, 0x90, 0x90, 0xc3}, kFrom - (uint64_t{3} << 30)).ok());
}

}  // namespace
}  // namespace proftrace
