#include "userspace/capture/session/host_state.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

namespace proftrace {
namespace {

// A folder that stands for "/", with the files that a test writes.
class HostStateTest : public testing::Test {
 protected:
  HostStateTest() {
    std::string name = testing::TempDir() + "host_state_XXXXXX";
    root_ = mkdtemp(name.data());
  }
  ~HostStateTest() override { std::filesystem::remove_all(root_); }

  void Write(const std::string& path, const std::string& text) {
    std::filesystem::create_directories(std::filesystem::path(root_ + path).parent_path());
    std::ofstream(root_ + path) << text;
  }
  void WriteCpu(int cpu, const std::string& path, const std::string& text) {
    Write("/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/" + path, text);
  }
  HostState Read() const { return ReadHostState(root_); }

  std::string root_;
};

TEST_F(HostStateTest, AHostThatTellsNothingHasNothing) {
  EXPECT_EQ(Read(), HostState());
  Write("/proc/vmstat", "nr_free_pages 1\nnuma_hint_faults_local 5\nnuma_hint_faults x\n");
  WriteCpu(0, "topology/physical_package_id", "0\n");
  WriteCpu(0, "thermal_throttle/package_throttle_total_time_ms", "99999999999999999999999\n");
  WriteCpu(0, "cpufreq/scaling_max_freq", "-3\n");
  WriteCpu(0, "cpufreq/cpuinfo_max_freq", "0\n");
  EXPECT_EQ(Read(), HostState());
}

TEST_F(HostStateTest, EachPackageIsReadOnce) {
  for (int cpu = 0; cpu < 4; ++cpu) {
    WriteCpu(cpu, "topology/physical_package_id", std::to_string(cpu / 2) + "\n");
    WriteCpu(cpu, "thermal_throttle/package_throttle_total_time_ms",
             std::to_string(100 + cpu / 2) + "\n");
  }
  Write("/sys/devices/system/cpu/cpufreq/boost", "1\n");  // not a CPU
  Write("/sys/devices/system/cpu/cpuidle/current_driver", "none\n");
  EXPECT_EQ(Read().throttled_ns, 201'000'000);
}

TEST_F(HostStateTest, LimitsOfTheFrequencyAreCounted) {
  for (int cpu = 0; cpu < 5; ++cpu) {
    WriteCpu(cpu, "cpufreq/cpuinfo_max_freq", cpu == 4 ? "2000000\n" : "3500000\n");
  }
  WriteCpu(0, "cpufreq/scaling_max_freq", "3500000\n");
  WriteCpu(1, "cpufreq/scaling_max_freq", "3400000\n");  // as good as all
  WriteCpu(2, "cpufreq/scaling_max_freq", "2000000\n");
  WriteCpu(4, "cpufreq/scaling_max_freq", "1200000\n");
  EXPECT_EQ(Read().frequency, (FrequencyLimit{4, 2, 1'200'000, 2'000'000}));
}

TEST_F(HostStateTest, HintsOfNumaBalancingAreRead) {
  Write("/proc/vmstat", "nr_free_pages 1\nnuma_hint_faults 500\nnuma_hint_faults_local 123\n");
  EXPECT_EQ(Read().numa, (NumaHints{500, 123}));
}

TEST_F(HostStateTest, ThisHostCanBeRead) {
  const HostState state = ReadHostState();
  if (state.numa.has_value()) EXPECT_LE(state.numa->local, state.numa->all);
  if (state.frequency.has_value()) EXPECT_LE(state.frequency->limited, state.frequency->cpus);
}

}  // namespace
}  // namespace proftrace
