#include "symbols/process/held_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "symbols/process/mounts.h"
#include "symbols/process/overlay_layers.h"
#include "symbols/process/read_budget.h"
#include "symbols/process/remote_file.h"
#include "symbols/process/volume_identity.h"
#include "userspace/base/text.h"

namespace proftrace {
namespace {

namespace fs = std::filesystem;

class HeldFileTest : public testing::Test {
 protected:
  void SetUp() override {
    char name[] = "/tmp/symbols_held_XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    folder_ = name;
    path_ = folder_ / "library.so";
    std::ofstream(path_) << "first";
    held_ = HeldFile::Hold(Open(path_));
    ASSERT_NE(held_, nullptr);
  }
  void TearDown() override { fs::remove_all(folder_); }

  static UniqueFd Open(const fs::path& path) {
    return UniqueFd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  }

  fs::path folder_;
  fs::path path_;
  std::shared_ptr<const HeldFile> held_;
};

TEST_F(HeldFileTest, IsTheFileThatWasOpenedWhateverItsNameLeadsTo) {
  EXPECT_TRUE(held_->IsUnchanged());
  EXPECT_EQ(StateOfFile(path_.string()), held_->state());
  EXPECT_EQ(StateOfFile(held_->path()), held_->state());
  const fs::path other = folder_ / "other";
  std::ofstream(other) << "other";
  ASSERT_EQ(rename(other.c_str(), path_.c_str()), 0);
  EXPECT_NE(StateOfFile(path_.string()), held_->state());
  char text[8] = {};
  EXPECT_EQ(held_->ReadAt(0, text, sizeof(text)), 5u);
  EXPECT_STREQ(text, "first");
}

TEST_F(HeldFileTest, TellsThatItWasWrittenToAlsoWhenItsTimesAreSetBack) {
  usleep(20000);  // the clock of file times goes by ticks
  std::fstream(path_, std::ios::in | std::ios::out) << "FIRST";
  EXPECT_FALSE(held_->IsUnchanged());
  const FileState& state = held_->state();
  const timespec times[] = {{state.modified_s, state.modified_ns},
                            {state.modified_s, state.modified_ns}};
  ASSERT_EQ(utimensat(AT_FDCWD, path_.c_str(), times, 0), 0);
  EXPECT_EQ(StateOfFile(held_->fd())->modified_ns, state.modified_ns);
  EXPECT_FALSE(held_->IsUnchanged());
}

TEST_F(HeldFileTest, HoldsRegularFilesAlone) {
  EXPECT_EQ(HeldFile::Hold(Open(folder_)), nullptr);
  EXPECT_EQ(HeldFile::Hold(Open("/dev/null")), nullptr);
  EXPECT_EQ(HeldFile::Hold(UniqueFd()), nullptr);
  ASSERT_EQ(mkfifo((folder_ / "fifo").c_str(), 0600), 0);
  EXPECT_EQ(HeldFile::Hold(Open(folder_ / "fifo")), nullptr);
}

TEST_F(HeldFileTest, FileSystemsThatMayHaveTheSameNumbersAreToldApart) {
  const auto memory = HeldFile::Hold(UniqueFd(memfd_create("other", MFD_CLOEXEC)));
  std::ofstream(folder_ / "second") << "second";
  const auto second = HeldFile::Hold(Open(folder_ / "second"));
  ASSERT_NE(memory, nullptr);
  ASSERT_NE(second, nullptr);
  const std::string one = VolumeIdentity(*held_);
  EXPECT_EQ(one, VolumeIdentity(*second));
  if (one.empty()) GTEST_SKIP() << "this kernel does not tell what /tmp lies on";
  EXPECT_NE(one, VolumeIdentity(*memory));
}

TEST(OverlayLayersTest, FoldersAreReadFromTheMountsOptions) {
  const std::string text =
      "23 28 0:22 / /proc rw - proc proc rw\n"
      "68 44 0:40 /opt /usr\\040lib rw,relatime shared:1 - overlay overlay "
      "rw,lowerdir=/a:/b\\134:c\\054d::/e,upperdir=/u,workdir=/w\n"
      "69 44 0:41 / /new rw - overlay overlay rw,lowerdir+=/x,lowerdir+=/y\\040z,upperdir=/u\n"
      "70 44\n"
      "71 44 0:42 / /tmp rw - tmpfs lowerdir=/a rw\n";
  const OverlayMount mount = ParseOverlayMount(text, "68");
  EXPECT_EQ(mount.root, "/opt");
  EXPECT_EQ(mount.point, "/usr lib");
  EXPECT_EQ(mount.lower, (std::vector<std::string>{"/a", "/b:c,d", "/e"}));
  EXPECT_EQ(ParseOverlayMount(text, "69").lower, (std::vector<std::string>{"/x", "/y z"}));
  for (const char* other : {"23", "70", "71", "72", ""}) {
    EXPECT_TRUE(ParseOverlayMount(text, other).lower.empty()) << other;
  }
}

// What a process of its own opens: a file of a local file system is read here.
TEST_F(HeldFileTest, LocalFilesAreGivenBackByTheProcessThatOpensThem) {
  const RemoteUser self{Pid{static_cast<uint32_t>(getpid())}, {}, {}};
  const auto held = HeldFile::Hold(RemoteReader::Open({path_.string(), -1, "", {}}, self));
  ASSERT_NE(held, nullptr);
  EXPECT_FALSE(held->is_remote());
  EXPECT_EQ(held->state(), held_->state());
  EXPECT_EQ(RemoteReader::Open({(folder_ / "none").string(), -1, "", {}}, self).error, ENOENT);
  EXPECT_EQ(RemoteReader::Open({folder_.string(), -1, "", {}}, self).error, EINVAL);
}

TEST_F(HeldFileTest, NothingIsOpenedWhereThereIsNoTimeToWait) {
  ReadBudget budget({.waiting_ns = 0});
  const ReadBudget::Scope scope(&budget);
  const RemoteUser self{Pid{static_cast<uint32_t>(getpid())}, {}, {}};
  EXPECT_EQ(RemoteReader::Open({path_.string(), -1, "", {}}, self).error, ETIMEDOUT);
  EXPECT_TRUE(ReadBudget::PayAll(1));
}

MountTable TableOf(const std::string& text) {
  MountTable table;
  table.text = text;
  for (const std::string_view line : SplitText(table.text, "\n", /*skip_empty=*/true)) {
    table.lines.push_back(*ParseMountLine(line));
  }
  return table;
}

TEST(MountsTest, OverlaysAreAsRemoteAsTheirLayers) {
  const MountTable table = TableOf(
      "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n"
      "2 1 0:31 / /net rw - fuse.sshfs host: rw,user_id=0\n"
      "3 1 0:40 / /a rw - overlay o rw,lowerdir=/lib:/usr,upperdir=/up,workdir=/w\n"
      "4 1 0:41 / /b rw - overlay o rw,lowerdir=/lib:/net/x,upperdir=/up\n"
      "5 1 0:42 / /c rw - overlay o rw,lowerdir=/lib,upperdir=/net/up\n"
      "6 1 0:43 / /d rw - overlay o rw,lowerdir+=/lib,datadir+=/net/data\n"
      "7 1 0:44 / /e rw - overlay o rw,lowerdir=/b/lower\n"
      "8 1 0:31 / /bound rw - fuse.sshfs host: rw\n"
      "9 1 0:45 / /f rw - overlay o rw,lowerdir=/lib::/bound/data\n"
      "10 2 0:46 / /net rw - overlay o rw,lowerdir=/net\n"
      "11 1 0:47 / /g rw - overlay o rw,lowerdir=/network\n"
      "12 1 0:48 / /h rw - overlay o rw,lowerdir=l/AB\n");
  std::vector<std::string> remote;
  for (const MountLine& mount : table.lines) {
    if (HasRemoteLayer(mount, {&table})) remote.push_back(mount.point);
  }
  EXPECT_EQ(remote, (std::vector<std::string>{"/b", "/c", "/d", "/e", "/f", "/net"}));
  // What only one of them sees.
  const MountTable inside = TableOf("20 0 0:41 / / rw - overlay o rw,lowerdir=/lib:/net/x\n");
  EXPECT_FALSE(HasRemoteLayer(inside.lines[0], {&inside}));
  EXPECT_TRUE(HasRemoteLayer(inside.lines[0], {&inside, &table}));
}

TEST(MountsTest, OtherProgramsAndMachinesAreAskedForFilesOfThese) {
  const auto facts = [](const char* line) { return FactsOfMount(*ParseMountLine(line)); };
  EXPECT_FALSE(facts("22 1 8:1 / / rw - ext4 /dev/sda1 rw").is_remote);
  EXPECT_FALSE(facts("22 1 0:30 / / rw - overlay overlay rw,lowerdir=/a").is_remote);
  EXPECT_TRUE(facts("22 1 0:31 / /n rw - nfs4 host:/n rw").is_remote);
  EXPECT_TRUE(facts("22 1 7:1 / /n rw - fuseblk /dev/loop1 rw,user_id=0,group_id=0").is_remote);
  const MountFacts own = facts("22 1 0:32 / /s rw - fuse.sshfs host: rw,user_id=7,group_id=8");
  EXPECT_TRUE(own.is_remote);
  EXPECT_EQ(own.user, 7u);
  EXPECT_EQ(own.group, 8u);
  EXPECT_EQ(own.device, uint64_t{makedev(0, 32)});
  // All may, and it is opened as who runs the process.
  EXPECT_FALSE(facts("22 1 0:32 / /s rw - fuse.x y rw,user_id=7,allow_other").user.has_value());
}

}  // namespace
}  // namespace proftrace
