#include "userspace/capture/plans/process_plan.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <utility>

#include "symbols/process/held_file.h"

namespace proftrace {
namespace {

constexpr size_t kOnePageBytes = 4096;

// A file of one page, without a name.
UniqueFd FileOfOnePage() {
  char name[] = "/tmp/capture_plan_XXXXXX";
  UniqueFd fd(mkostemp(name, O_CLOEXEC));
  unlink(name);
  EXPECT_EQ(ftruncate(fd.get(), kOnePageBytes), 0);
  return fd;
}

// A plan of this process with one file that it has mapped.
class ProcessPlanTest : public testing::Test {
 protected:
  void SetUp() override {
    if (geteuid() != 0) GTEST_SKIP() << "only root may follow the links in map_files";
    UniqueFd file = FileOfOnePage();
    place_ = mmap(nullptr, kOnePageBytes, PROT_READ | PROT_EXEC, MAP_PRIVATE, file.get(), 0);
    ASSERT_NE(place_, MAP_FAILED);
    char range[64];
    const auto address = reinterpret_cast<uintptr_t>(place_);
    std::snprintf(range, sizeof(range), "%lx-%lx", address, address + kOnePageBytes);
    ModulePlan module;
    module.mapped_path = "/proc/" + std::to_string(getpid()) + "/map_files/" + range;
    module.held = HeldFile::Hold(std::move(file));
    plan_.modules.push_back(std::move(module));
  }
  void TearDown() override {
    if (place_ != nullptr) munmap(place_, kOnePageBytes);
  }

  // Whether a forked child that has done `change` has the plan's files.
  bool DoesChildHaveFiles(const std::function<void()>& change) {
    int ends[2];
    EXPECT_EQ(pipe(ends), 0);
    const pid_t child = fork();
    if (child == 0) {
      change();
      if (write(ends[1], "x", 1) == 1) pause();
      _exit(0);
    }
    char byte;
    EXPECT_EQ(read(ends[0], &byte, 1), 1);
    const bool has = HasFiles(Pid{static_cast<uint32_t>(child)}, plan_);
    kill(child, SIGKILL);
    waitpid(child, nullptr, 0);
    close(ends[0]);
    close(ends[1]);
    return has;
  }

  void* place_ = nullptr;
  ProbePlan plan_;
};

TEST_F(ProcessPlanTest, AForkedChildHasItsParentsFiles) {
  EXPECT_TRUE(DoesChildHaveFiles([] {}));
}

TEST_F(ProcessPlanTest, AnotherFileAtTheSamePlaceIsNotTheParents) {
  const UniqueFd other = FileOfOnePage();
  EXPECT_FALSE(DoesChildHaveFiles([&] {
    mmap(place_, kOnePageBytes, PROT_READ | PROT_EXEC, MAP_PRIVATE | MAP_FIXED, other.get(), 0);
  }));
  EXPECT_FALSE(DoesChildHaveFiles([&] { munmap(place_, kOnePageBytes); }));
}

TEST_F(ProcessPlanTest, AFileThatWasChangedSinceIsAnother) {
  usleep(20000);  // the clock of file times goes by ticks
  ASSERT_EQ(fchmod(plan_.modules[0].held->fd(), 0711), 0);
  EXPECT_FALSE(DoesChildHaveFiles([] {}));
}

}  // namespace
}  // namespace proftrace
