#include "symbols/process/control_groups.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "symbols/process/memory_room.h"
#include "userspace/base/exit_status.h"

namespace proftrace {
namespace {

constexpr uint64_t kMiB = uint64_t{1} << 20;

constexpr char kHybridMounts[] =
    "31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755\n"
    "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime shared:9 - cgroup cgroup rw,memory\n"
    "37 31 0:34 / /sys/fs/cgroup/freezer rw,relatime - cgroup cgroup rw,freezer\n"
    "41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw\n";
constexpr char kUnifiedMounts[] =
    "25 30 0:22 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate,memory_recursiveprot\n";

TEST(ControlGroupTest, OfVersion1FromItsOwnFolderUp) {
  const auto group =
      FindControlGroup("6:freezer:/\n4:memory:/docker/ab\n0::/\n", kHybridMounts, "memory");
  ASSERT_TRUE(group.has_value());
  EXPECT_FALSE(group->is_v2);
  EXPECT_EQ(group->name, "/docker/ab");
  EXPECT_EQ(group->folders,
            (std::vector<std::string>{"/sys/fs/cgroup/memory/docker/ab",
                                      "/sys/fs/cgroup/memory/docker", "/sys/fs/cgroup/memory"}));
}

TEST(ControlGroupTest, OfVersion2WhereTheControllerHasNoHierarchyOfItsOwn) {
  const auto group = FindControlGroup("0::/a.slice/b.scope\n", kUnifiedMounts, "memory");
  ASSERT_TRUE(group.has_value());
  EXPECT_TRUE(group->is_v2);
  ASSERT_EQ(group->folders.size(), 3u);
  EXPECT_EQ(group->folders[0], "/sys/fs/cgroup/a.slice/b.scope");
}

TEST(ControlGroupTest, TheUnifiedOneBesideOldOnes) {
  const auto group = FindControlGroup("4:memory:/x\n0::/y\n", kHybridMounts, "");
  ASSERT_TRUE(group.has_value());
  EXPECT_EQ(group->folders[0], "/sys/fs/cgroup/unified/y");
}

TEST(ControlGroupTest, AContainersMountBeginsAtItsGroup) {
  const char* mounts = "35 31 0:32 /docker/ab /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n";
  const auto group = FindControlGroup("4:memory:/docker/ab/c\n", mounts, "memory");
  ASSERT_TRUE(group.has_value());
  EXPECT_EQ(group->folders,
            (std::vector<std::string>{"/sys/fs/cgroup/memory/c", "/sys/fs/cgroup/memory"}));
  EXPECT_FALSE(FindControlGroup("4:memory:/docker/other\n", mounts, "memory").has_value());
}

TEST(ControlGroupTest, OneOutsideOfOurNamespaceCannotBeSeen) {
  EXPECT_FALSE(FindControlGroup("0::/../../other\n", kUnifiedMounts, "memory").has_value());
  EXPECT_FALSE(FindControlGroup("", kUnifiedMounts, "memory").has_value());
  EXPECT_FALSE(FindControlGroup("0::/a\n", "", "memory").has_value());
}

// Folders of two levels with files as the kernel has them.
class MemoryRoomTest : public ::testing::Test {
 protected:
  MemoryRoomTest() {
    std::filesystem::create_directories(own());
    group_.is_v2 = true;
    group_.folders = {own(), parent()};
  }
  ~MemoryRoomTest() override { std::filesystem::remove_all(parent()); }

  static std::string parent() {
    return ::testing::TempDir() + "memory_room_" + std::to_string(getpid());
  }
  static std::string own() { return parent() + "/own"; }
  static void Write(const std::string& folder, const char* name, const std::string& text) {
    std::ofstream(folder + "/" + name) << text << "\n";
  }
  static void Fill(const std::string& folder, const std::string& limit, uint64_t used_mib,
                   uint64_t cached_mib, uint64_t dirty_mib = 0) {
    Write(folder, "memory.max", limit);
    Write(folder, "memory.current", std::to_string(used_mib * kMiB));
    Write(folder, "memory.stat",
          "anon 1\ninactive_file " + std::to_string(cached_mib * kMiB) +
              "\nactive_file 0\nfile_dirty " + std::to_string(dirty_mib * kMiB) +
              "\nfile_writeback 0");
  }
  static std::string MiBs(uint64_t mib) { return std::to_string(mib * kMiB); }

  ControlGroup group_;
};

TEST_F(MemoryRoomTest, WithoutALimitThereIsNoEnd) {
  Fill(own(), "max", 100, 0);
  EXPECT_FALSE(RoomOf(group_).has_value());
  group_.is_v2 = false;
  Write(own(), "memory.limit_in_bytes", "9223372036854771712");
  Write(own(), "memory.usage_in_bytes", "1");
  EXPECT_FALSE(RoomOf(group_).has_value());
}

TEST_F(MemoryRoomTest, TheTightestLevelCounts) {
  Fill(own(), MiBs(500), 100, 0);
  Fill(parent(), MiBs(900), 890, 0);
  const auto room = RoomOf(group_);
  ASSERT_TRUE(room.has_value());
  EXPECT_EQ(room->bytes, 10 * kMiB);
  EXPECT_EQ(room->limit_file, parent() + "/memory.max");
}

TEST_F(MemoryRoomTest, HalfOfTheCleanFileCacheCanBeHad) {
  Fill(own(), MiBs(500), 500, 120, 20);
  ASSERT_TRUE(RoomOf(group_).has_value());
  EXPECT_EQ(RoomOf(group_)->bytes, 50 * kMiB);
}

TEST_F(MemoryRoomTest, RefusesWithWhatIsMissing) {
  Fill(own(), MiBs(500), 496, 0);
  const auto room = RoomOf(group_);
  EXPECT_TRUE(CheckMemoryRoom(Pid{17}, 0, "probes", room).ok());
  EXPECT_TRUE(CheckMemoryRoom(Pid{17}, kMiB, "probes", room).ok());
  EXPECT_TRUE(CheckMemoryRoom(Pid{17}, 20 * kMiB, "probes", std::nullopt).ok());
  const absl::Status status = CheckMemoryRoom(Pid{17}, 20 * kMiB, "probes", room);
  EXPECT_EQ(ExitCodeOf(status), ExitCode::kHostUnfit);
  EXPECT_NE(status.message().find("probes would take 25.0 MiB"), std::string_view::npos) << status;
  EXPECT_NE(status.message().find("raise that limit by 21.0 MiB"), std::string_view::npos);
}

}  // namespace
}  // namespace proftrace
