// Numbers of threads of a process in another PID namespace, from what /proc says of it.
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "userspace/capture/gpu/gpu_process.h"

namespace proftrace {
namespace {

constexpr int64_t kSecond = 1'000'000'000;

class ThreadNumbersTest : public testing::Test {
 protected:
  ThreadNumbersTest() : numbers_(folder_.string()) {}
  ~ThreadNumbersTest() override { std::filesystem::remove_all(folder_); }

  void Begin(uint32_t outer, uint32_t inner) {
    const std::filesystem::path task = folder_ / "task" / std::to_string(outer);
    std::filesystem::create_directories(task);
    std::ofstream(task / "status") << "Name:\tjob\nNSpid:\t" << outer << "\t" << inner << "\n";
  }
  void End(uint32_t outer) {
    std::filesystem::remove_all(folder_ / "task" / std::to_string(outer));
  }

  std::filesystem::path folder_ =
      std::filesystem::temp_directory_path() / ("proftrace_threads_" + std::to_string(getpid()));
  ThreadNumbers numbers_;
};

TEST_F(ThreadNumbersTest, AThreadThatHasEndedKeepsItsNumberForAWhile) {
  Begin(4711, 7);
  numbers_.Look(kSecond);
  End(4711);
  numbers_.Look(2 * kSecond);
  EXPECT_EQ(numbers_.Of(7, 3 * kSecond), 4711u);
  numbers_.Look(100 * kSecond);
  EXPECT_EQ(numbers_.size(), 0u);
}

TEST_F(ThreadNumbersTest, ANumberIsThatOfTheLastThreadThatHadIt) {
  Begin(4711, 7);
  numbers_.Look(kSecond);
  End(4711);
  Begin(4800, 7);
  numbers_.Look(2 * kSecond);
  EXPECT_EQ(numbers_.Of(7, 2 * kSecond), 4800u);
  numbers_.Look(100 * kSecond);
  EXPECT_EQ(numbers_.Of(7, 100 * kSecond), 4800u) << "it lives";
}

TEST_F(ThreadNumbersTest, AThreadThatStartedSinceIsLookedForAndOneThatNobodySawIsCounted) {
  Begin(4711, 7);
  numbers_.Look(kSecond);
  Begin(4712, 8);
  EXPECT_EQ(numbers_.Of(8, 2 * kSecond), 4712u);
  EXPECT_EQ(numbers_.unknown(), 0u);
  EXPECT_EQ(numbers_.Of(9, 3 * kSecond), 0u);
  EXPECT_EQ(numbers_.Of(0, 3 * kSecond), 0u);
  EXPECT_EQ(numbers_.unknown(), 1u);
}

}  // namespace
}  // namespace proftrace
