// Quotas of CPU time, from files as the kernel writes them.
#include "symbols/process/cpu_quotas.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace proftrace {
namespace {

namespace fs = std::filesystem;

class CpuQuotaTest : public testing::Test {
 protected:
  CpuQuotaTest() : folder_(fs::temp_directory_path() / ("quota-" + std::to_string(getpid()))) {
    fs::create_directories(folder_);
    Write("cgroup.procs", "");
  }
  ~CpuQuotaTest() override { fs::remove_all(folder_); }

  void Write(const std::string& name, const std::string& text) {
    std::ofstream(folder_ / name) << text;
  }
  CpuGroup Group(bool is_v2) const { return {is_v2, "/pod", folder_.string()}; }
  // Whether the quota cannot be told.
  bool Fails(bool is_v2) const { return !ReadCpuQuota(Group(is_v2)).ok(); }
  bool HasNone(bool is_v2) const {
    const auto quota = ReadCpuQuota(Group(is_v2));
    return quota.ok() && !quota->has_value();
  }

  const fs::path folder_;
};

constexpr char kStatOfV1[] = "nr_periods 40\nnr_throttled 30\nthrottled_time 2500000000\n";
constexpr char kStatOfV2[] =
    "usage_usec 1\nuser_usec 1\nsystem_usec 0\nnr_periods 40\nnr_throttled 30\n"
    "throttled_usec 2500000\nnr_bursts 0\nburst_usec 0\n";

void ExpectHalfACpu(const absl::StatusOr<std::optional<CpuQuota>>& quota) {
  ASSERT_TRUE(quota.ok()) << quota.status();
  ASSERT_TRUE(quota->has_value());
  EXPECT_EQ((*quota)->group, "/pod");
  EXPECT_EQ((*quota)->quota_ns, 50'000'000);
  EXPECT_EQ((*quota)->period_ns, 100'000'000);
  EXPECT_EQ((*quota)->periods, 40u);
  EXPECT_EQ((*quota)->throttled_periods, 30u);
  EXPECT_EQ((*quota)->throttled_ns, 2'500'000'000);
}

TEST_F(CpuQuotaTest, OfVersion1) {
  Write("cpu.cfs_quota_us", "50000\n");
  Write("cpu.cfs_period_us", "100000\n");
  Write("cpu.stat", kStatOfV1);
  ExpectHalfACpu(ReadCpuQuota(Group(false)));
}

TEST_F(CpuQuotaTest, OfVersion2) {
  Write("cpu.max", "50000 100000\n");
  Write("cpu.stat", kStatOfV2);
  ExpectHalfACpu(ReadCpuQuota(Group(true)));
}

TEST_F(CpuQuotaTest, NoneIsNoFailure) {
  EXPECT_TRUE(HasNone(true));  // the controller is off
  EXPECT_TRUE(HasNone(false));
  Write("cpu.max", "max 100000\n");
  Write("cpu.cfs_quota_us", "-1\n");
  EXPECT_TRUE(HasNone(true));
  EXPECT_TRUE(HasNone(false));
}

TEST_F(CpuQuotaTest, WhatCannotBeReadIsNotTakenForNone) {
  for (const char* limit : {"0 100000\n", "x 100000\n", "50000\n", "50000 0\n", "-5 100000\n",
                            "99999999999999999999 100000\n", "50000 100000 7\n"}) {
    Write("cpu.max", limit);
    Write("cpu.stat", kStatOfV2);
    EXPECT_TRUE(Fails(true)) << limit;
  }
  Write("cpu.max", "50000 100000\n");
  for (const char* stat : {"", "usage_usec 7\n", "nr_periods 3\nnr_throttled 4\nthrottled_usec 1\n",
                           "nr_periods 3\nnr_throttled 2\nthrottled_usec 18446744073709551615\n"}) {
    Write("cpu.stat", stat);
    EXPECT_TRUE(Fails(true)) << stat;
  }
  fs::remove(folder_ / "cgroup.procs");
  EXPECT_TRUE(Fails(true)) << "no control group";
}

TEST_F(CpuQuotaTest, LevelsHaveTheNamesThatTheGroupHas) {
  const std::vector<CpuGroup> levels =
      LevelsOf({false, "/a/b c", {"/cpu/a/b c", "/cpu/a", "/cpu"}});
  ASSERT_EQ(levels.size(), 3u);
  EXPECT_EQ(levels[0], (CpuGroup{false, "/a/b c", "/cpu/a/b c"}));
  EXPECT_EQ(levels[1], (CpuGroup{false, "/a", "/cpu/a"}));
  EXPECT_EQ(levels[2], (CpuGroup{false, "/", "/cpu"}));
  const std::vector<CpuGroup> top = LevelsOf({true, "/", {"/cpu"}});
  ASSERT_EQ(top.size(), 1u);
  EXPECT_EQ(top[0].name, "/");
}

TEST_F(CpuQuotaTest, AProcessThatIsOverHasNoGroups) {
  EXPECT_FALSE(FindCpuGroups(Pid{0x7ffffff0}).has_value());
}

}  // namespace
}  // namespace proftrace
