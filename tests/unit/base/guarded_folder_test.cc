// Root writes where it was told to write, whatever the owner of a directory on the way does.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "userspace/base/exit_status.h"
#include "userspace/base/guarded_folder.h"

namespace proftrace {
namespace {

namespace fs = std::filesystem;

constexpr uid_t kNobody = 65534;

class GuardedFolderTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = fs::temp_directory_path() / "proftrace-folder-XXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    root_ = pattern;
    // In `theirs` another user can put what it likes; without root's rights we are that user.
    fs::create_directories(root_ / "theirs" / "inner");
    fs::create_directory(root_ / "ours");
    fs::create_directory(root_ / "victim");
    for (const char* name : {"theirs", "ours"}) {
      fs::create_directory_symlink(root_ / "victim", root_ / name / "link");
    }
    if (geteuid() == 0) {
      ASSERT_EQ(chown((root_ / "theirs").c_str(), kNobody, kNobody), 0);
      ASSERT_EQ(lchown((root_ / "theirs" / "link").c_str(), kNobody, kNobody), 0);
    }
  }
  void TearDown() override { fs::remove_all(root_); }

  static FolderTrust OfRoot(std::optional<FileOwner> caller = std::nullopt) {
    return FolderTrust{true, 0, caller};
  }
  static bool CanBeTold() { return geteuid() == 0; }
  std::string MessageOf(const fs::path& path, const FolderTrust& trust) {
    const absl::StatusOr<GuardedFolder> folder = GuardedFolder::Open(path, trust);
    EXPECT_EQ(ExitCodeOf(folder.status()), folder.ok() ? ExitCode::kDone : ExitCode::kOutputFailed);
    return folder.ok() ? "" : std::string(folder.status().message());
  }

  fs::path root_;
};

TEST_F(GuardedFolderTest, LinksAreFollowedWhereOnlyTheTrustedCanPutThem) {
  if (!CanBeTold()) GTEST_SKIP() << "only root can give directories away";
  EXPECT_EQ(MessageOf(root_ / "ours" / "link", OfRoot()), "");
  const std::string refused = MessageOf(root_ / "theirs" / "link", OfRoot());
  EXPECT_EQ(refused, (root_ / "theirs").string() +
                         " belongs to user 65534, so root does not follow the symbolic link "
                         "\"link\" in it");
  // Who called sudo may lead us by links.
  EXPECT_EQ(MessageOf(root_ / "theirs" / "link", OfRoot(FileOwner{kNobody, kNobody})), "");
  // Without root's rights there is nothing to guard.
  EXPECT_EQ(MessageOf(root_ / "theirs" / "link", FolderTrust{false, kNobody, {}}), "");
}

TEST_F(GuardedFolderTest, RemovesContentsAndLinksButNotWhatTheyLeadTo) {
  std::ofstream(root_ / "victim" / "kept") << "kept";
  std::ofstream(root_ / "ours" / "file") << "gone";
  fs::create_directories(root_ / "ours" / "a" / "b");
  std::ofstream(root_ / "ours" / "a" / "b" / "file") << "gone";
  fs::create_directory_symlink(root_ / "victim", root_ / "ours" / "a" / "link");
  const absl::StatusOr<GuardedFolder> folder = GuardedFolder::Open(root_ / "ours", OfRoot());
  ASSERT_TRUE(folder.ok());
  EXPECT_TRUE(folder->RemoveContents());
  EXPECT_TRUE(folder->IsEmpty());
  EXPECT_TRUE(fs::exists(root_ / "victim" / "kept"));
}

TEST_F(GuardedFolderTest, LinksInTheMiddleAndBehindLinksAreNone) {
  if (!CanBeTold()) GTEST_SKIP() << "only root can give directories away";
  fs::create_directory(root_ / "victim" / "deeper");
  fs::create_directory_symlink(root_ / "theirs" / "link", root_ / "ours" / "to_theirs");
  for (const char* path : {"theirs/link/deeper", "ours/to_theirs/deeper", "ours/to_theirs"}) {
    EXPECT_NE(MessageOf(root_ / path, OfRoot()), "") << path;
  }
  EXPECT_EQ(MessageOf(root_ / "ours/link/deeper", OfRoot()), "");
  EXPECT_EQ(MessageOf(root_ / "theirs/inner", OfRoot()), "");
}

TEST_F(GuardedFolderTest, SharedDirectoriesGiveEachUserTheirOwnLinks) {
  if (!CanBeTold()) GTEST_SKIP() << "only root can give directories away";
  const fs::path shared = root_ / "shared";
  fs::create_directory(shared);
  ASSERT_EQ(chmod(shared.c_str(), 01777), 0);
  fs::create_directory_symlink(root_ / "victim", shared / "ours");
  fs::create_directory_symlink(root_ / "victim", shared / "theirs");
  ASSERT_EQ(lchown((shared / "theirs").c_str(), kNobody, kNobody), 0);
  EXPECT_EQ(MessageOf(shared / "ours", OfRoot()), "");
  EXPECT_NE(MessageOf(shared / "theirs", OfRoot()), "");
  // Without the sticky bit everybody can exchange anybody's.
  ASSERT_EQ(chmod(shared.c_str(), 0777), 0);
  EXPECT_NE(MessageOf(shared / "ours", OfRoot()), "");
}

TEST_F(GuardedFolderTest, DotsDoNotLeadOutOfWhatCanBeMoved) {
  if (!CanBeTold()) GTEST_SKIP() << "only root can give directories away";
  EXPECT_NE(MessageOf(root_ / "theirs" / "..", OfRoot()), "");
  EXPECT_EQ(MessageOf(root_ / "ours" / ".." / "victim" / ".", OfRoot()), "");
}

TEST_F(GuardedFolderTest, DirectoriesThatOthersCanChangeAreNotTrusted) {
  if (!CanBeTold()) GTEST_SKIP() << "only root can give directories away";
  const auto why = [&](const char* name, uid_t uid, gid_t gid, mode_t mode, FolderTrust trust) {
    const fs::path path = root_ / name;
    fs::create_directory(path);
    EXPECT_EQ(chown(path.c_str(), uid, gid), 0);
    EXPECT_EQ(chmod(path.c_str(), mode), 0);
    return GuardedFolder::Open(path, trust)->WhyNotTrusted();
  };
  const FolderTrust by_sudo = OfRoot(FileOwner{1000, 1000});
  EXPECT_EQ(why("a", 0, 0, 0755, OfRoot()), "");
  EXPECT_EQ(why("b", 0, 0, 01777, OfRoot()), "");
  EXPECT_EQ(why("c", 1000, 1000, 0775, by_sudo), "") << "a group of the user's own";
  EXPECT_EQ(why("d", 1000, 100, 0755, by_sudo), "");
  EXPECT_EQ(why("e", 1000, 1000, 0700, OfRoot()),
            "it belongs to user 1000, and what root writes there could be exchanged");
  EXPECT_NE(why("f", 1000, 100, 0775, by_sudo), "");
  EXPECT_NE(why("g", 0, 0, 0777, OfRoot()), "");
  EXPECT_NE(why("h", 0, 0, 0775, OfRoot()), "");
}

TEST_F(GuardedFolderTest, WhatIsMadeIsForItsOwnerAlone) {
  if (!CanBeTold()) GTEST_SKIP() << "only root can give files away";
  const FileOwner caller{1234, 5678};
  const auto parent = GuardedFolder::Open(root_ / "ours", OfRoot(caller));
  ASSERT_TRUE(parent.ok());
  bool is_made = false;
  const auto folder = parent->Make("result", &is_made);
  ASSERT_TRUE(folder.ok() && is_made) << folder.status();
  const UniqueFd file = folder->Create("file", O_WRONLY);
  ASSERT_TRUE(file.valid());
  for (const auto& [fd, mode] : {std::pair(folder->fd(), 0700u), std::pair(file.get(), 0600u)}) {
    struct stat facts {};
    ASSERT_EQ(fstat(fd, &facts), 0);
    EXPECT_EQ(facts.st_mode & 0777, mode);
    EXPECT_EQ(facts.st_uid, caller.uid);
    EXPECT_EQ(facts.st_gid, caller.gid);
  }
}

TEST_F(GuardedFolderTest, NamesAreOnesInItAndAreNotFollowed) {
  const auto folder = GuardedFolder::Open(root_ / "ours");
  ASSERT_TRUE(folder.ok());
  bool is_made = false;
  EXPECT_FALSE(folder->Make("link", &is_made).ok());
  EXPECT_FALSE(folder->Make("a/b", &is_made).ok());
  for (const char* name : {"link", "../file", "/tmp/proftrace-never", "", ".."}) {
    EXPECT_FALSE(folder->Create(name, O_WRONLY).valid()) << name;
  }
  EXPECT_TRUE(fs::is_empty(root_ / "victim"));
  EXPECT_FALSE(fs::exists(root_ / "file"));
}

TEST_F(GuardedFolderTest, APathIsTheDirectoryThatItWas) {
  const auto folder = GuardedFolder::Open(root_ / "ours");
  ASSERT_TRUE(folder.ok());
  fs::rename(root_ / "ours", root_ / "elsewhere");
  fs::create_directory_symlink(root_ / "victim", root_ / "ours");
  EXPECT_TRUE(folder->Create("file", O_WRONLY).valid());
  // So does what takes nothing but paths.
  const auto again = GuardedFolder::Open(folder->DescriptorPath());
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->path(), root_ / "elsewhere");
  EXPECT_TRUE(again->CreateTemporary().valid());
  EXPECT_TRUE(fs::exists(root_ / "elsewhere" / "file"));
  EXPECT_TRUE(fs::is_empty(root_ / "victim"));
}

TEST_F(GuardedFolderTest, PathsOfAllKindsAreFound) {
  const fs::path before = fs::current_path();
  fs::current_path(root_);
  for (const char* path : {"", ".", "ours", "./ours/", "ours//", "ours/link", "ours/link/."}) {
    EXPECT_TRUE(GuardedFolder::Open(path).ok()) << path;
  }
  std::string name;
  for (const auto& [path, expected] :
       {std::pair("new", "new"), std::pair("ours/new/", "new"), std::pair("ours/.", "."),
        std::pair("/", "."), std::pair(".", "."), std::pair("/tmp", "tmp")}) {
    EXPECT_TRUE(GuardedFolder::OpenParent(path, &name).ok()) << path;
    EXPECT_EQ(name, expected) << path;
  }
  const auto made = GuardedFolder::OpenOrMake("ours/new/deeper");
  EXPECT_TRUE(made.ok());
  EXPECT_TRUE(fs::is_directory(root_ / "ours/new/deeper"));
  fs::create_directory_symlink("loop", root_ / "loop");
  EXPECT_EQ(std::string(GuardedFolder::Open("loop").status().message()), ErrnoText(ELOOP));
  EXPECT_EQ(std::string(GuardedFolder::Open("none").status().message()), ErrnoText(ENOENT));
  fs::current_path(before);
}

}  // namespace
}  // namespace proftrace
