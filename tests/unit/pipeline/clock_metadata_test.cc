// What a capture has of its host's clocks, written and read back.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "tests/unit/pipeline_timeline.h"
#include "userspace/wire/flight_keeper.h"

namespace proftrace {
namespace {

ClockSnapshot SnapshotAt(int64_t monotonic_ns) {
  ClockSnapshot clocks;
  clocks.monotonic_ns = monotonic_ns;
  clocks.monotonic_raw_ns = monotonic_ns + 1;
  clocks.boottime_ns = monotonic_ns + 2;
  clocks.realtime_ns = 1'700'000'000'000'000'000 + monotonic_ns;
  clocks.tai_ns = 1'700'000'037'000'000'000 + monotonic_ns;
  clocks.ntp = NtpState{true, 1'500'000, 40'000, -3000, -12'345, 0x2001};
  clocks.gap_ns = 60;
  return clocks;
}

std::string EntriesOf(MetadataWriter writer) { return writer.TakeJson().front(); }

CaptureMetadata MergedEntries(const std::string& json) {
  CaptureMetadata metadata;
  EXPECT_TRUE(metadata.Merge(json).ok());
  return metadata;
}

// The snapshot that `change` makes of a good entry: its text, and what takes that text's place.
size_t SnapshotsWith(const std::string& text, const std::string& other) {
  MetadataWriter writer;
  writer.AddClocks(SnapshotAt(5000));
  std::string json = EntriesOf(std::move(writer));
  const size_t at = json.find(text);
  EXPECT_NE(at, std::string::npos) << text << " in " << json;
  json.replace(at, text.size(), other);
  return MergedEntries(json).info.clocks.size();
}

TEST(ClockMetadataTest, SnapshotsAreReadAsTheyWereWritten) {
  MetadataWriter writer;
  writer.AddClocks(SnapshotAt(5000));
  ClockSnapshot bare;
  bare.monotonic_ns = 7000;
  writer.AddClocks(bare);
  const CaptureMetadata metadata = MergedEntries(EntriesOf(std::move(writer)));
  ASSERT_EQ(metadata.info.clocks.size(), 2u);
  const ClockSnapshot expected = SnapshotAt(5000);
  const ClockSnapshot& read = metadata.info.clocks[0];
  EXPECT_EQ(read.monotonic_ns, expected.monotonic_ns);
  EXPECT_EQ(read.monotonic_raw_ns, expected.monotonic_raw_ns);
  EXPECT_EQ(read.boottime_ns, expected.boottime_ns);
  EXPECT_EQ(read.realtime_ns, expected.realtime_ns);
  EXPECT_EQ(read.tai_ns, expected.tai_ns);
  EXPECT_EQ(read.gap_ns, expected.gap_ns);
  ASSERT_TRUE(read.ntp);
  EXPECT_TRUE(read.ntp->is_synchronised);
  EXPECT_EQ(read.ntp->max_error_ns, 1'500'000);
  EXPECT_EQ(read.ntp->estimated_error_ns, 40'000);
  EXPECT_EQ(read.ntp->offset_ns, -3000);
  EXPECT_EQ(read.ntp->frequency_ppb, -12'345);
  EXPECT_EQ(read.ntp->status, 0x2001u);
  EXPECT_FALSE(metadata.info.clocks[1].realtime_ns);
  EXPECT_FALSE(metadata.info.clocks[1].ntp);
}

TEST(ClockMetadataTest, ASnapshotWithAValueThatCannotBeIsLeftOut) {
  EXPECT_EQ(SnapshotsWith("\"gap_ns\":60", "\"gap_ns\":60"), 1u);
  for (const auto& [text, others] : std::vector<std::pair<std::string, std::vector<std::string>>>{
           {"\"monotonic_ns\":5000", {"\"x\":1", "\"monotonic_ns\":-1", "\"monotonic_ns\":1e99"}},
           {"\"gap_ns\":60", {"\"x\":1", "\"gap_ns\":-1", "\"gap_ns\":9223372036854775807"}},
           {"\"boottime_ns\":5002", {"\"boottime_ns\":\"5002\"", "\"boottime_ns\":-9"}},
           {"\"monotonic_raw_ns\":5001", {"\"monotonic_raw_ns\":18446744073709551615"}},
           {"\"realtime_ns\":17", {"\"realtime_ns\":-17", "\"realtime_ns\":999917"}},
           {"\"tai_ns\":17", {"\"tai_ns\":999917"}},
           {"\"max_error_ns\":1500000", {"\"x\":1", "\"max_error_ns\":-1"}},
           {"\"frequency_ppb\":-12345", {"\"frequency_ppb\":-12345678"}},
           {"\"status\":8193", {"\"status\":4294967296"}},
           {"\"ntp\":{", {"\"ntp\":5,\"x\":{"}},
       }) {
    for (const std::string& other : others) EXPECT_EQ(SnapshotsWith(text, other), 0u) << other;
  }
}

TEST(ClockMetadataTest, SnapshotsAreInOrderOfTime) {
  MetadataWriter writer;
  for (const int64_t ns : {5000, 4000, 6000}) writer.AddClocks(SnapshotAt(ns));
  const CaptureMetadata metadata = MergedEntries(EntriesOf(std::move(writer)));
  ASSERT_EQ(metadata.info.clocks.size(), 2u);
  EXPECT_EQ(metadata.info.clocks[0].monotonic_ns, 5000);
  EXPECT_EQ(metadata.info.clocks[1].monotonic_ns, 6000);
}

TEST(ClockMetadataTest, TheHostsBootIsKnown) {
  RecordingInfo info;
  info.host = Host{"example", "6.1", 2, "77a109eb-f2f7-4bfe-9ece-ceccd82a1f7e", "00ff00ff00ff00ff"};
  MetadataWriter writer;
  writer.AddRecording(info);
  const std::string json = EntriesOf(std::move(writer));
  const CaptureMetadata metadata = MergedEntries(json);
  EXPECT_EQ(metadata.info.host.boot_id, info.host.boot_id);
  EXPECT_EQ(metadata.info.host.machine_id_hash, info.host.machine_id_hash);
  std::string damaged = json;
  damaged.replace(damaged.find("77a1"), 4, "77a\\n");
  EXPECT_EQ(MergedEntries(damaged).info.host.boot_id, "");
}

// A flight recorder that runs for hours keeps those of its window, and the last one before it.
TEST(ClockMetadataTest, AFlightRecorderLetsOldSnapshotsGo) {
  constexpr int64_t kSecond = 1'000'000'000;
  int64_t now_ns = 0;
  FlightKeeper keeper({30 * kSecond, 64u << 20}, [&now_ns] { return now_ns; });
  size_t bytes_then = 0;
  for (int64_t second = 10; second <= 36'000; second += 10) {
    now_ns = second * kSecond;
    MetadataWriter writer;
    writer.AddClocks(SnapshotAt(now_ns));
    ASSERT_TRUE(keeper.AppendMetadata(writer.TakeJson()).ok());
    RecordMaker maker;
    maker.Begin(1, now_ns, 1, 1);
    ASSERT_TRUE(keeper.AppendRecords(maker.bytes()).ok());
    if (second == 1000) bytes_then = keeper.bytes();
  }
  EXPECT_LT(keeper.bytes(), bytes_then * 11 / 10);
  const FlightSnapshot snapshot = keeper.Take();
  ASSERT_EQ(snapshot.metadata.size(), 1u);
  const std::vector<ClockSnapshot> kept = MergedEntries(snapshot.metadata[0]).info.clocks;
  ASSERT_EQ(kept.size(), 5u);
  EXPECT_EQ(kept.front().monotonic_ns, 35'960 * kSecond);
  EXPECT_EQ(kept.back().monotonic_ns, 36'000 * kSecond);
}

// As captures were before.
TEST(ClockMetadataTest, OlderCapturesHaveNone) {
  const CaptureMetadata metadata = MergedEntries(R"([{"type":"recording","host":{"name":"a"}}])");
  EXPECT_TRUE(metadata.info.clocks.empty());
  EXPECT_EQ(metadata.info.host.boot_id, "");
}

}  // namespace
}  // namespace proftrace
