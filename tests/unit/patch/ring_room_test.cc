#include "userspace/patch/ring_room.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include "userspace/base/exit_status.h"
#include "userspace/patch/private_pages.h"

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

TEST(RingRoomTest, SlotsShrinkToFitTheControlGroup) {
  MemoryRoom room;
  room.limit = 1000 * kMiB;
  room.bytes = 400 * kMiB;
  PatchRingOptions wide;
  ASSERT_TRUE(FitIntoGroup(Pid{17}, 20 * kMiB, 8, room, &wide).ok());
  EXPECT_EQ(wide.slot_words, PatchRingOptions().slot_words);
  room.bytes = 40 * kMiB;
  PatchRingOptions tight;
  ASSERT_TRUE(FitIntoGroup(Pid{17}, 20 * kMiB, 8, room, &tight).ok());
  EXPECT_LT(tight.slot_words, wide.slot_words);
}

TEST(RingRoomTest, WhereTheControlGroupHasNoRoomNothingIsPutIn) {
  MemoryRoom room;
  room.limit = 1000 * kMiB;
  room.bytes = 16 * kMiB;
  PatchRingOptions options;
  const absl::Status status = FitIntoGroup(Pid{17}, 20 * kMiB, 1, room, &options);
  EXPECT_EQ(ExitCodeOf(status), ExitCode::kHostUnfit);
  EXPECT_NE(status.message().find("memory limit"), std::string_view::npos) << status;
}

TEST(PrivatePagesTest, OnlyPagesThatAreNotItsOwnTakeMemory) {
  constexpr size_t kPage = 4096;
  const std::string path = ::testing::TempDir() + "private_pages_" + std::to_string(getpid());
  std::ofstream(path) << std::string(4 * kPage, 'x');
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  unlink(path.c_str());
  auto* at =
      static_cast<char*>(mmap(nullptr, 4 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE, fd, 0));
  close(fd);
  ASSERT_NE(at, MAP_FAILED);
  at[kPage] = 'y';
  const auto address = reinterpret_cast<uint64_t>(at);
  const PrivatePages pages(Pid{static_cast<uint32_t>(getpid())});
  EXPECT_EQ(pages.BytesToOwn({}), 0u);
  EXPECT_EQ(pages.BytesToOwn({address + kPage + 8}), 0u);
  EXPECT_EQ(pages.BytesToOwn({address + 8, address + 16, address + kPage, address + 3 * kPage}),
            2 * kPage);
  munmap(at, 4 * kPage);
}

}  // namespace
}  // namespace proftrace
