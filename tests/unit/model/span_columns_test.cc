#include "userspace/model/span_columns.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>

#include "tests/support/nameless_files.h"
#include "userspace/model/spill_file.h"

namespace proftrace {
namespace {

TEST(SpanColumnTest, ExistsFromItsFirstItemOn) {
  SpanColumn<SpanSequence> column("");
  EXPECT_FALSE(column.exists());
  EXPECT_EQ(column.at(SpanId{7}).number_plus_1, 0);
  ASSERT_TRUE(column.Set(SpanId{7}, SpanSequence{.number_plus_1 = 5, .forward_tid = 42}).ok());
  EXPECT_TRUE(column.exists());
  EXPECT_EQ(column.at(SpanId{7}).number_plus_1, 5);
  EXPECT_EQ(column.at(SpanId{7}).forward_tid, 42u);
}

TEST(SpanColumnTest, SpansWithoutAnItemReadAsZeros) {
  SpanColumn<SpanSequence> column("");
  constexpr uint32_t kFar = 3 * ChunkStore<SpanSequence>::kChunkItems + 1;
  ASSERT_TRUE(column.Set(SpanId{kFar}, SpanSequence{1, 2, 0}).ok());
  ASSERT_TRUE(column.Set(SpanId{3}, SpanSequence{9, 0, 0}).ok());
  EXPECT_EQ(column.at(SpanId{kFar}).number_plus_1, 1);
  EXPECT_EQ(column.at(SpanId{3}).number_plus_1, 9);
  EXPECT_EQ(column.at(SpanId{kFar - 1}).number_plus_1, 0);
  EXPECT_EQ(column.at(SpanId{kFar + 1}).number_plus_1, 0);
}

TEST(ChunkStoreTest, KeepsWhatIsSpilled) {
  ChunkStore<uint64_t> store("", /*memory_bytes=*/0);
  constexpr uint32_t kCount = 5 * ChunkStore<uint64_t>::kChunkItems / 2;
  for (uint32_t i = 0; i < kCount; ++i) ASSERT_TRUE(store.Append(i * uint64_t{3}).ok());
  for (uint32_t chunk = 0; chunk < store.chunk_count(); ++chunk) store.Release(chunk);
  ASSERT_EQ(store.size(), kCount);
  for (uint32_t i = 0; i < kCount; ++i) ASSERT_EQ(store.at(i), i * uint64_t{3});
}

// Beside a capture that another user owns, or on a medium that cannot be written.
TEST(ChunkStoreTest, SpillsElsewhereWhereItsDirectoryTakesNoFiles) {
  for (const char* directory : {"/nonexistent", "/proc"}) {
    ChunkStore<uint64_t> store(directory, /*memory_bytes=*/0);
    ASSERT_TRUE(store.Append(7).ok()) << directory;
    EXPECT_EQ(store.at(0), 7u);
  }
}

TEST(ChunkStoreTest, SpillsToTheDirectoryForTemporaryFiles) {
  char directory[] = "/tmp/proftrace-spill-XXXXXX";
  ASSERT_NE(mkdtemp(directory), nullptr);
  ASSERT_EQ(setenv("TMPDIR", directory, 1), 0);
  const absl::StatusOr<SpillFile> elsewhere = OpenSpillFile("/nonexistent");
  unsetenv("TMPDIR");
  ASSERT_TRUE(elsewhere.ok()) << elsewhere.status();
  EXPECT_EQ(elsewhere->directory, directory);
  close(elsewhere->fd);
  EXPECT_EQ(rmdir(directory), 0) << "nothing is left in it";
}

TEST(ChunkStoreTest, SpillsWhereFilesNeedANameAtFirst) {
  char directory[] = "/tmp/proftrace-spill-XXXXXX";
  ASSERT_NE(mkdtemp(directory), nullptr);
  const pid_t child = fork();
  if (child == 0) {
    if (!ForbidNamelessFiles()) _exit(77);
    const absl::StatusOr<SpillFile> file = OpenSpillFile(directory);
    _exit(file.ok() && file->directory == directory ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(rmdir(directory), 0) << "nothing is left in it";
  if (WIFEXITED(status) && WEXITSTATUS(status) == 77) GTEST_SKIP() << "no seccomp filters";
  EXPECT_EQ(status, 0);
}

TEST(ChunkStoreTest, SaysWhyItCannotGrow) {
  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &before), 0);
  const rlimit small{4096, before.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &small), 0);
  const auto handler = signal(SIGXFSZ, SIG_IGN);
  ChunkStore<uint64_t> store("/tmp", /*memory_bytes=*/0);
  const absl::Status status = store.Append(1);
  setrlimit(RLIMIT_FSIZE, &before);
  signal(SIGXFSZ, handler);
  EXPECT_FALSE(status.ok());
  EXPECT_NE(status.message().find("/tmp: File too large"), std::string::npos) << status;
  EXPECT_EQ(status.message().find("free some space"), std::string::npos) << status;
  EXPECT_EQ(store.size(), 0u);
}

TEST(ChunkStoreTest, RoomIsAskedForOnlyWhereThereIsNone) {
  for (const int error : {ENOSPC, EDQUOT}) {
    EXPECT_NE(CannotSpill("/a", error).message().find("free some space"), std::string::npos);
  }
  EXPECT_EQ(CannotSpill("/a", EACCES).message().find("free some space"), std::string::npos);
}

}  // namespace
}  // namespace proftrace
