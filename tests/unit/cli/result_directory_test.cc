#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "userspace/base/exit_status.h"
#include "userspace/cli/result_directory.h"
#include "userspace/wire/capture_writer.h"

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

// A capture with nothing in it.
absl::StatusOr<ResultDirectory> WithCapture(const fs::path& path) {
  absl::StatusOr<ResultDirectory> directory = ResultDirectory::Prepare(path, false);
  if (!directory.ok()) return directory;
  absl::StatusOr<int> fd = directory->CreateCapture();
  if (!fd.ok()) return fd.status();
  const auto writer = CaptureWriter::Create(*fd, path);
  if (!writer.ok()) return writer.status();
  if (absl::Status status = (*writer)->Finish(); !status.ok()) return status;
  return directory;
}

void WriteInto(const ResultDirectory& directory, const std::string& name) {
  const absl::StatusOr<OutputDirectory> output = directory.OpenForOutputs();
  ASSERT_TRUE(output.ok()) << output.status();
  const auto sink = output->Create(name);
  ASSERT_TRUE(sink.ok()) << sink.status();
  EXPECT_TRUE((*sink)->Finish().ok());
}

TEST_F(ResultDirectoryTest, ARenamedOneGetsItsFiles) {
  const absl::StatusOr<ResultDirectory> directory = WithCapture(root_ / "result");
  ASSERT_TRUE(directory.ok()) << directory.status();
  EXPECT_TRUE(directory->CheckPlace().ok());
  EXPECT_TRUE(directory->CheckCapture().ok());
  fs::rename(root_ / "result", root_ / "elsewhere");
  // What is in its place now is not written into.
  fs::create_directory(root_ / "victim");
  fs::create_directory_symlink(root_ / "victim", root_ / "result");
  EXPECT_EQ(directory->FindPlace().path, root_ / "elsewhere");
  EXPECT_EQ(ExitCodeOf(directory->CheckPlace()), ExitCode::kOutputFailed);
  EXPECT_TRUE(directory->CheckCapture().ok());
  EXPECT_TRUE(directory->OpenCapture({}).ok());
  WriteInto(*directory, "table");
  EXPECT_TRUE(directory->PrepareIn("cycle_0", false).ok());
  EXPECT_TRUE(fs::exists(root_ / "elsewhere" / "table"));
  EXPECT_TRUE(fs::exists(root_ / "elsewhere" / "cycle_0"));
  EXPECT_TRUE(fs::is_empty(root_ / "victim"));
  directory->RemoveCapture();
  EXPECT_FALSE(fs::exists(root_ / "elsewhere" / "capture.ptrec"));
}

TEST_F(ResultDirectoryTest, TheCaptureOfARemovedOneCanBeRead) {
  const absl::StatusOr<ResultDirectory> directory = WithCapture(root_ / "result");
  ASSERT_TRUE(directory.ok()) << directory.status();
  fs::remove_all(root_ / "result");
  EXPECT_TRUE(directory->FindPlace().is_removed);
  EXPECT_EQ(ExitCodeOf(directory->CheckPlace()), ExitCode::kOutputFailed);
  EXPECT_TRUE(directory->OpenCapture({}).ok());
  EXPECT_FALSE(directory->PrepareIn("cycle_0", false).ok());
  // Another one of its name is none of ours.
  fs::create_directory(root_ / "result");
  EXPECT_TRUE(directory->FindPlace().is_removed);
}

TEST_F(ResultDirectoryTest, ACaptureThatIsTakenAwayIsMissed) {
  const absl::StatusOr<ResultDirectory> directory = WithCapture(root_ / "result");
  ASSERT_TRUE(directory.ok()) << directory.status();
  fs::remove(root_ / "result" / "capture.ptrec");
  std::ofstream(root_ / "result" / "capture.ptrec") << "another";
  EXPECT_TRUE(directory->CheckPlace().ok());
  EXPECT_EQ(ExitCodeOf(directory->CheckCapture()), ExitCode::kOutputFailed);
  EXPECT_TRUE(directory->OpenCapture({}).ok());
}

}  // namespace
}  // namespace proftrace
