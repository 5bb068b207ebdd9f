// The CPUs that a process may run on, beside what the kernel's own file says.
#include "symbols/process/cpu_mask.h"

#include <gtest/gtest.h>
#include <sched.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <string>

namespace proftrace {
namespace {

// Returns Cpus_allowed_list of the process.
std::string KernelsList(pid_t pid) {
  std::ifstream file("/proc/" + std::to_string(pid) + "/status");
  constexpr char kKey[] = "Cpus_allowed_list:\t";
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with(kKey)) return line.substr(sizeof(kKey) - 1);
  }
  return "";
}

TEST(CpuMaskTest, IsWhatTheKernelSays) {
  const std::optional<CpuMask> mask = ReadCpuMask(Pid{static_cast<uint32_t>(getpid())});
  ASSERT_TRUE(mask.has_value());
  EXPECT_EQ(mask->cpus, KernelsList(getpid()));
  cpu_set_t set;
  ASSERT_EQ(sched_getaffinity(0, sizeof(set), &set), 0);
  EXPECT_EQ(mask->count, static_cast<uint32_t>(CPU_COUNT(&set)));
}

TEST(CpuMaskTest, AnotherProcessHasItsOwn) {
  cpu_set_t set;
  ASSERT_EQ(sched_getaffinity(0, sizeof(set), &set), 0);
  int last = 0;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(cpu, &set)) last = cpu;
  }
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    pause();
    _exit(0);
  }
  CPU_ZERO(&set);
  CPU_SET(last, &set);
  EXPECT_EQ(sched_setaffinity(child, sizeof(set), &set), 0);
  const Pid pid{static_cast<uint32_t>(child)};
  EXPECT_EQ(ReadCpuMask(pid), (CpuMask{1, std::to_string(last)}));
  kill(child, SIGKILL);
  waitpid(child, nullptr, 0);
  EXPECT_FALSE(ReadCpuMask(pid).has_value());  // it has ended
}

}  // namespace
}  // namespace proftrace
