#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "userspace/base/exit_status.h"
#include "userspace/cli/result_directory.h"

namespace proftrace {
namespace {

namespace fs = std::filesystem;

class ResultDirectoryTest : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = fs::temp_directory_path() / "proftrace-test-XXXXXX";
    ASSERT_NE(mkdtemp(pattern.data()), nullptr);
    root_ = pattern;
  }
  void TearDown() override { fs::remove_all(root_); }

  fs::path root_;
};

TEST_F(ResultDirectoryTest, IsMadeAndDiscarded) {
  const fs::path path = root_ / "result";
  absl::StatusOr<ResultDirectory> directory = ResultDirectory::Prepare(path, false);
  ASSERT_TRUE(directory.ok()) << directory.status();
  absl::StatusOr<int> fd = directory->CreateCapture();
  ASSERT_TRUE(fd.ok()) << fd.status();
  close(*fd);
  EXPECT_TRUE(fs::exists(path / "capture.ptrec"));
  directory->Discard();
  EXPECT_FALSE(fs::exists(path));
}

TEST_F(ResultDirectoryTest, AnEmptyOneIsTakenAndKept) {
  absl::StatusOr<ResultDirectory> directory = ResultDirectory::Prepare(root_, false);
  ASSERT_TRUE(directory.ok()) << directory.status();
  directory->Discard();
  EXPECT_TRUE(fs::exists(root_));
}

TEST_F(ResultDirectoryTest, AnEarlierCaptureStaysWhereNothingWasRecorded) {
  const fs::path capture = root_ / "capture.ptrec";
  for (const bool was_recorded : {false, true}) {
    std::ofstream(capture) << "precious";
    absl::StatusOr<ResultDirectory> directory = ResultDirectory::Prepare(root_, true);
    ASSERT_TRUE(directory.ok()) << directory.status();
    absl::StatusOr<int> fd = directory->CreateCapture();
    ASSERT_TRUE(fd.ok()) << fd.status();
    close(*fd);
    if (was_recorded) {
      directory->ForgetEarlier();
    } else {
      directory->Discard();
    }
    EXPECT_EQ(fs::file_size(capture), was_recorded ? 0u : 8u);
    EXPECT_EQ(std::distance(fs::directory_iterator(root_), {}), 1);
  }
}

TEST_F(ResultDirectoryTest, OneWithContentsIsRefused) {
  std::ofstream(root_ / "mine") << "precious";
  const auto directory = ResultDirectory::Prepare(root_, false);
  EXPECT_EQ(ExitCodeOf(directory.status()), ExitCode::kOutputFailed);
  EXPECT_TRUE(ResultDirectory::Prepare(root_, true).ok());
}

TEST_F(ResultDirectoryTest, FilesAndLinksAreRefused) {
  std::ofstream(root_ / "file") << "x";
  fs::create_directory(root_ / "real");
  fs::create_directory_symlink(root_ / "real", root_ / "link");
  for (const char* name : {"file", "link", "missing/deeper"}) {
    const auto directory = ResultDirectory::Prepare(root_ / name, true);
    EXPECT_EQ(ExitCodeOf(directory.status()), ExitCode::kOutputFailed) << name;
  }
}

TEST_F(ResultDirectoryTest, ALinkInPlaceOfTheCaptureIsNotFollowed) {
  std::ofstream(root_ / "victim") << "precious";
  fs::create_directory(root_ / "result");
  fs::create_symlink(root_ / "victim", root_ / "result" / "capture.ptrec");
  absl::StatusOr<ResultDirectory> directory = ResultDirectory::Prepare(root_ / "result", true);
  ASSERT_TRUE(directory.ok());
  absl::StatusOr<int> fd = directory->CreateCapture();
  ASSERT_TRUE(fd.ok()) << fd.status();
  close(*fd);
  EXPECT_EQ(fs::file_size(root_ / "victim"), 8u);
}

}  // namespace
}  // namespace proftrace
