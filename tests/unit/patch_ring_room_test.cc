#include "userspace/patch/ring_room.h"

#include <gtest/gtest.h>

#include "userspace/base/exit_status.h"

namespace proftrace {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

TEST(RingRoomTest, TheLimitIsTheSoftOne) {
  const std::string_view text =
      "Limit                     Soft Limit           Hard Limit           Units     \n"
      "Max cpu time              unlimited            unlimited            seconds   \n"
      "Max address space         4294967296           unlimited            bytes     \n";
  EXPECT_EQ(AddressSpaceLimit(text), uint64_t{1} << 32);
  EXPECT_EQ(AddressSpaceLimit("Max address space         unlimited            1234 bytes\n"),
            std::nullopt);
  EXPECT_EQ(AddressSpaceLimit(""), std::nullopt);
}

TEST(RingRoomTest, TheRingLeavesTheJobItsRoom) {
  PatchRingOptions options;
  ASSERT_TRUE(FitRing(uint64_t{1} << 40, &options).ok());
  EXPECT_EQ(options.slot_words, PatchRingOptions().slot_words);
  for (const uint64_t room : {6000 * kMiB, 2000 * kMiB, 1000 * kMiB}) {
    PatchRingOptions tight;
    ASSERT_TRUE(FitRing(room, &tight).ok()) << room;
    EXPECT_LE(PatchRing::Bytes(tight), room / 4);
    EXPECT_GE(PatchRing::Bytes(tight), room / 4 / 4);
  }
}

TEST(RingRoomTest, ATooSmallRoomIsRefused) {
  PatchRingOptions options;
  const absl::Status status = FitRing(300 * kMiB, &options);
  EXPECT_EQ(ExitCodeOf(status), ExitCode::kHostUnfit);
  EXPECT_NE(status.message().find("may map 300 MiB more"), std::string_view::npos) << status;
}

}  // namespace
}  // namespace proftrace
