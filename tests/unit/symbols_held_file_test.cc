#include "symbols/held_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "symbols/overlay_layers.h"
#include "symbols/volume_identity.h"

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
  EXPECT_EQ(StateOfFile(held_->Duplicate().get()), held_->state());
  const fs::path other = folder_ / "other";
  std::ofstream(other) << "other";
  ASSERT_EQ(rename(other.c_str(), path_.c_str()), 0);
  EXPECT_NE(StateOfFile(path_.string()), held_->state());
  char text[8] = {};
  EXPECT_EQ(pread(held_->fd(), text, sizeof(text), 0), 5);
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
  const UniqueFd memory(memfd_create("other", MFD_CLOEXEC));
  struct stat here;
  struct stat there;
  ASSERT_EQ(fstat(held_->fd(), &here), 0);
  ASSERT_EQ(fstat(memory.get(), &there), 0);
  const std::string one = VolumeIdentity(held_->fd(), here.st_dev);
  EXPECT_EQ(one, VolumeIdentity(Open("/tmp").get(), here.st_dev));
  if (one.empty()) GTEST_SKIP() << "this kernel does not tell what /tmp lies on";
  EXPECT_NE(one, VolumeIdentity(memory.get(), there.st_dev));
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

}  // namespace
}  // namespace proftrace
