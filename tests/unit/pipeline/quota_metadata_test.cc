// What a capture has of quotas of CPU time: written and read back, and what it says of a window.
#include <gtest/gtest.h>

#include <optional>
#include <string>
#include <vector>

#include "userspace/aggregate/cpu_throttling.h"
#include "userspace/wire/kept_metadata.h"
#include "userspace/wire/metadata.h"

namespace proftrace {
namespace {

constexpr int64_t kSecond = 1'000'000'000;

CpuQuota QuotaAt(uint64_t periods, uint64_t throttled, const std::string& group = "/pod") {
  return {group,   50'000'000, 100'000'000,
          periods, throttled,  static_cast<int64_t>(throttled) * 40'000'000};
}

// Snapshots of each second: throttled in each period of the second one.
MetadataWriter Written() {
  MetadataWriter writer;
  writer.AddCpuGroups(Pid{7}, std::vector<std::string>{"/pod", "/"});
  writer.AddCpuQuotas({1 * kSecond, {QuotaAt(10, 1)}});
  writer.AddCpuQuotas({2 * kSecond, {QuotaAt(20, 1)}});
  writer.AddCpuQuotas({3 * kSecond, {QuotaAt(30, 11)}});
  writer.AddCpuQuotas({4 * kSecond, {QuotaAt(40, 11)}});
  return writer;
}

CaptureMetadata Merged(const std::string& json) {
  CaptureMetadata metadata;
  EXPECT_TRUE(metadata.Merge(json).ok());
  return metadata;
}

std::optional<std::vector<CpuQuota>> OfWindow(RecordingInfo info, int64_t start_ns, int64_t end_ns,
                                              uint32_t pid = 7) {
  info.window.start_ns = start_ns;
  info.window.duration_ns = end_ns - start_ns;
  return ThrottlingOf(info, Pid{pid});
}

TEST(QuotaMetadataTest, WhatAWindowHadIsTheDifferenceOfTheSnapshotsAroundIt) {
  const RecordingInfo info = Merged(Written().TakeJson().front()).info;
  ASSERT_EQ(info.cpu_quotas.size(), 4u);
  const auto all = OfWindow(info, kSecond, 4 * kSecond);
  ASSERT_TRUE(all.has_value());
  ASSERT_EQ(all->size(), 1u);
  EXPECT_EQ((*all)[0].group, "/pod");
  EXPECT_EQ((*all)[0].periods, 30u);
  EXPECT_EQ((*all)[0].throttled_periods, 10u);
  EXPECT_EQ((*all)[0].throttled_ns, 400'000'000);
  const auto last = OfWindow(info, 3 * kSecond + 1, 4 * kSecond - 1);
  ASSERT_TRUE(last.has_value());
  EXPECT_EQ((*last)[0].throttled_periods, 0u);
  EXPECT_EQ((*last)[0].periods, 10u);
  // A window that begins before the first snapshot has that one.
  const auto early = OfWindow(info, kSecond - 5, 2 * kSecond - 5);
  ASSERT_TRUE(early.has_value());
  EXPECT_EQ((*early)[0].periods, 10u);
}

TEST(QuotaMetadataTest, WhatIsNotKnownIsNotNone) {
  const RecordingInfo info = Merged(Written().TakeJson().front()).info;
  EXPECT_FALSE(OfWindow(info, kSecond, 4 * kSecond, /*pid=*/8).has_value());
  EXPECT_FALSE(ThrottlingOf(RecordingInfo(), Pid{7}).has_value());
  // One snapshot alone says nothing.
  EXPECT_FALSE(OfWindow(info, 5 * kSecond, 6 * kSecond).has_value());
  // It has moved to another group.
  MetadataWriter writer = Written();
  writer.AddCpuGroups(Pid{7}, std::nullopt);
  EXPECT_FALSE(OfWindow(Merged(writer.TakeJson().front()).info, kSecond, 4 * kSecond).has_value());
  // The quota was changed, or the group was made anew.
  for (const CpuQuota& other :
       {CpuQuota{"/pod", 60'000'000, 100'000'000, 50, 11, 440'000'000}, QuotaAt(2, 0)}) {
    MetadataWriter changed = Written();
    changed.AddCpuQuotas({5 * kSecond, {other}});
    EXPECT_FALSE(
        OfWindow(Merged(changed.TakeJson().front()).info, kSecond, 5 * kSecond).has_value());
  }
}

TEST(QuotaMetadataTest, WithoutAQuotaThereIsNone) {
  MetadataWriter writer;
  writer.AddCpuGroups(Pid{7}, std::vector<std::string>{"/"});
  writer.AddCpuQuotas({1 * kSecond, {QuotaAt(1, 1, "/another")}});
  writer.AddCpuQuotas({2 * kSecond, {QuotaAt(9, 9, "/another")}});
  const auto quotas = OfWindow(Merged(writer.TakeJson().front()).info, kSecond, 2 * kSecond);
  ASSERT_TRUE(quotas.has_value());
  EXPECT_TRUE(quotas->empty());
}

TEST(QuotaMetadataTest, WhatCannotBeIsPassedOver) {
  MetadataWriter one;
  one.AddCpuQuotas({1 * kSecond, {QuotaAt(10, 1)}});
  const std::string good = one.TakeJson().front();
  ASSERT_EQ(Merged(good).info.cpu_quotas.size(), 1u);
  for (const auto& [text, other] :
       {std::pair<std::string, std::string>{"\"periods\":10", "\"periods\":0"},
        {"\"quota_ns\":50000000", "\"quota_ns\":-1"},
        {"\"quota_ns\":50000000", "\"quota_ns\":0"},
        {"\"period_ns\":100000000", "\"period_ns\":\"x\""},
        {"\"throttled_ns\":40000000", "\"throttled_ns\":9223372036854775807"},
        {"\"time_ns\":1000000000", "\"time_ns\":-4"},
        {"\"groups\":[", "\"groups\":[7,"}}) {
    std::string bad = good;
    const size_t at = bad.find(text);
    ASSERT_NE(at, std::string::npos) << text << " in " << bad;
    bad.replace(at, text.size(), other);
    EXPECT_TRUE(Merged(bad).info.cpu_quotas.empty()) << bad;
  }
  EXPECT_TRUE(Merged(R"([{"type":"cpu_groups","pid":-1,"groups":["/a"]},
                         {"type":"cpu_groups","pid":7,"groups":["/a",3]},
                         {"type":"cpu_groups","pid":8,"groups":{"a":"/"}}])")
                  .info.cpu_groups.empty());
}

TEST(QuotaMetadataTest, TheLastMaskCounts) {
  MetadataWriter writer;
  writer.AddCpuMask(Pid{7}, CpuMask{2, "0-1"});
  writer.AddCpuMask(Pid{8}, CpuMask{1, "5"});
  writer.AddCpuMask(Pid{8}, std::nullopt);
  const RecordingInfo info = Merged(writer.TakeJson().front()).info;
  ASSERT_EQ(info.cpu_masks.size(), 1u);
  EXPECT_EQ(info.cpu_masks.at(7), (CpuMask{2, "0-1"}));
  EXPECT_TRUE(Merged(R"([{"type":"cpu_mask","pid":7,"count":0,"cpus":"0"},
                         {"type":"cpu_mask","pid":7,"count":-2,"cpus":"0"},
                         {"type":"cpu_mask","pid":7,"count":2,"cpus":5}])")
                  .info.cpu_masks.empty());
}

TEST(QuotaMetadataTest, AFlightRecorderKeepsTheLastSnapshotBeforeItsWindow) {
  KeptMetadata kept;
  for (int second = 1; second <= 5; ++second) {
    MetadataWriter writer;
    writer.AddCpuQuotas({second * kSecond, {QuotaAt(10 * static_cast<uint64_t>(second), 0)}});
    kept.Add(writer.TakeJson(), second * kSecond);
  }
  const size_t bytes = kept.bytes();
  kept.ForgetSnapshots(4 * kSecond);
  EXPECT_LT(kept.bytes(), bytes);
  const RecordingInfo info = Merged(kept.ToJson().front()).info;
  ASSERT_EQ(info.cpu_quotas.size(), 3u);
  EXPECT_EQ(info.cpu_quotas.front().time_ns, 3 * kSecond);
}

}  // namespace
}  // namespace proftrace
