// What another process calls memory for us is looked at before it is written or mapped.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <linux/memfd.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "userspace/base/foreign_memory.h"

namespace proftrace {
namespace {

constexpr uint64_t kBytes = 4096;
constexpr MemoryRules kRules = {.name = "ours",
                                .needed_seals = F_SEAL_SHRINK,
                                .forbidden_seals = F_SEAL_WRITE,
                                .least_bytes = kBytes,
                                .most_bytes = kBytes};

UniqueFd Memory(const char* name, int seals = F_SEAL_SHRINK, uint64_t bytes = kBytes) {
  UniqueFd memory(
      static_cast<int>(syscall(SYS_memfd_create, name, MFD_CLOEXEC | MFD_ALLOW_SEALING)));
  EXPECT_EQ(ftruncate(memory.get(), static_cast<off_t>(bytes)), 0);
  EXPECT_EQ(fcntl(memory.get(), F_ADD_SEALS, seals), 0);
  return memory;
}

TEST(ForeignMemoryTest, WhatIsMadeAsAskedForIsTaken) {
  EXPECT_EQ(WhyNotMemory(Memory("ours").get(), kRules), "");
  MemoryRules prefix = kRules;
  prefix.is_prefix = true;
  EXPECT_EQ(WhyNotMemory(Memory("ours too").get(), prefix), "");
}

TEST(ForeignMemoryTest, AnotherFileIsRefused) {
  EXPECT_EQ(WhyNotMemory(Memory("ours too").get(), kRules), "is another file");
  EXPECT_EQ(WhyNotMemory(Memory("theirs").get(), kRules), "is another file");
  EXPECT_EQ(WhyNotMemory(-1, kRules), "is another file");
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  EXPECT_EQ(WhyNotMemory(ends[0], kRules), "is another file");
  close(ends[0]);
  close(ends[1]);
  // A file that has memory's name, on a file system of memory where /dev/shm is one.
  for (const char* place : {"/dev/shm", "/tmp"}) {
    std::string folder = std::string(place) + "/proftrace-memory-XXXXXX";
    ASSERT_NE(mkdtemp(folder.data()), nullptr);
    const std::string path = folder + "/memfd:ours (deleted)";
    const UniqueFd file(open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600));
    ASSERT_EQ(ftruncate(file.get(), kBytes), 0);
    EXPECT_EQ(WhyNotMemory(file.get(), kRules), "is another file") << place;
    unlink(path.c_str());
    EXPECT_EQ(WhyNotMemory(file.get(), kRules), "is another file") << place;
    std::filesystem::remove_all(folder);
  }
}

TEST(ForeignMemoryTest, WhatCouldChangeUnderUsIsRefused) {
  EXPECT_EQ(WhyNotMemory(Memory("ours", 0).get(), kRules), "could become smaller");
  EXPECT_EQ(WhyNotMemory(Memory("ours", F_SEAL_SHRINK | F_SEAL_WRITE).get(), kRules),
            "was sealed by another");
  EXPECT_EQ(WhyNotMemory(Memory("ours", F_SEAL_SHRINK, kBytes - 1).get(), kRules),
            "has a wrong size");
  EXPECT_EQ(WhyNotMemory(Memory("ours", F_SEAL_SHRINK, kBytes + 1).get(), kRules),
            "has a wrong size");
  const UniqueFd memory = Memory("ours");
  const UniqueFd read_only(
      open(("/proc/self/fd/" + std::to_string(memory.get())).c_str(), O_RDONLY | O_CLOEXEC));
  EXPECT_EQ(WhyNotMemory(read_only.get(), kRules), "cannot be read and written");
}

// The number is looked up once: what the process does with it then is nothing to us.
TEST(ForeignMemoryTest, ACopyStaysWhatItWas) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const UniqueFd memory = Memory("ours");
  const pid_t child = fork();
  if (child == 0) {
    char byte;
    if (read(ends[0], &byte, 1) != 1) _exit(1);
    _exit(dup2(ends[0], memory.get()) == memory.get() ? 0 : 1);
  }
  const UniqueFd copy = CopyDescriptor(static_cast<uint32_t>(child), memory.get());
  if (!copy.valid()) {
    const int error = errno;
    EXPECT_EQ(write(ends[1], "", 1), 1);
    waitpid(child, nullptr, 0);
    GTEST_SKIP() << "the kernel copies no descriptors: " << std::strerror(error);
  }
  EXPECT_EQ(write(ends[1], "", 1), 1);
  int state = 0;
  ASSERT_EQ(waitpid(child, &state, 0), child);
  EXPECT_EQ(state, 0);
  EXPECT_EQ(WhyNotMemory(copy.get(), kRules), "");
  EXPECT_FALSE(CopyDescriptor(static_cast<uint32_t>(child), memory.get()).valid());
  close(ends[0]);
  close(ends[1]);
}

}  // namespace
}  // namespace proftrace
