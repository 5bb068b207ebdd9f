#include <limits>
#include <string>

#include "tests/unit/pipeline/timeline.h"

namespace proftrace {
namespace {

CaptureMetadata Merged(const std::string& json) {
  CaptureMetadata metadata;
  EXPECT_TRUE(metadata.Merge(json).ok());
  return metadata;
}

TEST(MetadataTest, NumbersThatDoNotFitAreLeftOutNotCut) {
  const CaptureMetadata metadata = Merged(
      R"([{"type":"process","pid":4294967396,"ppid":-1,"plan":1.5,"rank":9999999999,"probes_on_ns":9223372036854775807}])");
  ASSERT_EQ(metadata.processes.size(), 1u);
  const ProcessEntry& process = metadata.processes.front();
  EXPECT_EQ(Raw(process.target.pid), 0u) << "4294967396 is not process 100";
  EXPECT_EQ(Raw(process.target.ppid), 0u);
  EXPECT_EQ(process.plan, 0u);
  EXPECT_EQ(process.target.rank, std::nullopt);
  EXPECT_EQ(process.target.probes_on_ns, 0);
}

TEST(MetadataTest, WhatTheUserGaveIsThere) {
  RecordingInfo info;
  info.metadata = {{"owner", "a\xff"}};
  info.metadata_json = {{"settings", R"({"lr": 1e-3})"}, {"steps", "5"}};
  MetadataWriter writer;
  writer.AddRecording(info);
  CaptureMetadata metadata;
  for (const std::string& block : writer.TakeJson()) ASSERT_TRUE(metadata.Merge(block).ok());
  EXPECT_EQ(metadata.info.metadata, info.metadata);
  EXPECT_EQ(metadata.info.metadata_json, info.metadata_json);
}

TEST(MetadataTest, HowTheTierWasChosenIsThere) {
  TierChoice counted;
  counted.limit_percent = 3;
  counted.probes_percent = 130.5;
  counted.operators_per_s = 450000;
  counted.ns_per_operator = 2900;
  counted.tid = Tid{4711};
  counted.reason = "probes would cost \xff";
  TierChoice not_counted;
  not_counted.limit_percent = 3;
  not_counted.reason = "a job that is yet to start";
  not_counted.are_jumps_refused = true;
  for (const TierChoice& choice : {counted, not_counted}) {
    MetadataWriter writer;
    writer.AddTierChoice(choice);
    const CaptureMetadata metadata = Merged(writer.TakeJson().front());
    ASSERT_TRUE(metadata.info.tier_choice.has_value());
    const TierChoice& read = *metadata.info.tier_choice;
    EXPECT_EQ(read.probes_percent, choice.probes_percent);
    EXPECT_EQ(read.operators_per_s, choice.operators_per_s);
    EXPECT_EQ(read.ns_per_operator, choice.ns_per_operator);
    EXPECT_EQ(read.tid, choice.tid);
    EXPECT_EQ(read.reason, choice.reason);
    EXPECT_EQ(read.are_jumps_refused, choice.are_jumps_refused);
  }
  // From a damaged file.
  EXPECT_EQ(Merged(R"([{"type":"tier_choice","probes_percent":"x","tid":-1,"reason":5}])")
                .info.tier_choice->probes_percent,
            0);
}

TEST(MetadataTest, SchemasBelongToOperatorsThatAreKnown) {
  MetadataWriter writer;
  writer.AddOperators(3, {OperatorEntry{0x10, "aten::add", "Tensor", ""}});
  writer.AddSchemas(3, {SchemaEntry{0x10, "aten::add.Tensor(Tensor self) -> Tensor"},
                        SchemaEntry{0x20, "aten::sub(Tensor self) -> Tensor"}});
  CaptureMetadata metadata = Merged(writer.TakeJson().front());
  ASSERT_EQ(metadata.images[3].operators.size(), 1u);
  EXPECT_EQ(metadata.images[3].operators[0x10].schema, "aten::add.Tensor(Tensor self) -> Tensor");
  // From an older or a damaged file.
  ASSERT_TRUE(metadata
                  .Merge(R"([{"type":"schemas","image":3,"schemas":[[16],[-1,"x"],"y",[16,5]]},
                             {"type":"schemas","image":9}])")
                  .ok());
  EXPECT_EQ(metadata.images[3].operators[0x10].schema, "aten::add.Tensor(Tensor self) -> Tensor");
}

TEST(MetadataTest, LossesAreThoseOfTheRecorderElseOfTheStream) {
  RecordMaker maker;
  maker.Loss(1, 10, 3);
  maker.Loss(2, 20, 4);
  CaptureMetadata metadata = TestMetadata();
  EXPECT_EQ(Build(maker, metadata)->ledger().ring_lost, 7u);
  metadata.has_end = true;
  metadata.kernel_ledger.ring_lost = 9;  // two that were never announced
  EXPECT_EQ(Build(maker, metadata)->ledger().ring_lost, 9u);
}

TEST(MetadataTest, ManyEntriesAreSeveralArrays) {
  constexpr uint32_t kImages = 40;
  MetadataWriter writer;
  const std::string name(100, 'x');
  for (uint32_t image = 1; image <= kImages; ++image) {
    writer.AddOperators(image, {OperatorEntry{0x10 * image, name, "", ""}});
  }
  const std::vector<std::string> arrays = writer.TakeJson(1000);
  EXPECT_GT(arrays.size(), 4u);
  CaptureMetadata metadata;
  for (const std::string& array : arrays) {
    EXPECT_LE(array.size(), 1000u);
    ASSERT_TRUE(metadata.Merge(array).ok()) << array;
  }
  EXPECT_EQ(metadata.images.size(), kImages);
  EXPECT_EQ(metadata.images[kImages].operators[0x10 * kImages].name, name);
  EXPECT_TRUE(writer.TakeJson().empty());
}

TEST(MetadataTest, ProcessGroupsTellTheRank) {
  MetadataWriter writer;
  writer.AddProcessGroups(Pid{RecordMaker::kPid},
                          {{"0", "default_pg", "gloo", 5, 8}, {"1", "pair", "gloo", 1, 2}});
  CaptureMetadata metadata = TestMetadata();
  ASSERT_TRUE(metadata.Merge(writer.TakeJson().front()).ok());
  RecordMaker maker;
  const auto timeline = Build(maker, metadata);
  const Target& target = timeline->info().targets.front();
  EXPECT_EQ(target.rank, 5);
  EXPECT_EQ(target.world_size, 8);
  ASSERT_EQ(target.process_groups.size(), 2u);
  EXPECT_EQ(target.process_groups[1], (ProcessGroup{"1", "pair", "gloo", 1, 2}));
}

TEST(MetadataTest, ProcessGroupsHaveTheirMembers) {
  MetadataWriter writer;
  const ProcessGroup pair{"1", "pair", "gloo", 1, 2, "cpu:gloo,cuda:nccl", {3, 5}, 0x7f0010};
  writer.AddProcessGroups(Pid{7}, {pair}, 4);
  const CaptureMetadata metadata = Merged(writer.TakeJson().front());
  ASSERT_EQ(metadata.process_groups.at(7).size(), 1u);
  EXPECT_EQ(metadata.process_groups.at(7)[0], pair);
  EXPECT_EQ(metadata.process_group_counts.at(7), 4);
}

TEST(MetadataTest, MembersThatCannotBeAreLeftOut) {
  for (const char* ranks : {"[1]", "[1,-2]", "[1,99999999999]", "[1,\"2\"]", "5"}) {
    const CaptureMetadata metadata =
        Merged(std::string(R"([{"type":"process_groups","pid":7,"count":-1,"groups":[
            {"rank":0,"size":2,"ranks":)") +
               ranks + "}]}]");
    ASSERT_EQ(metadata.process_groups.at(7).size(), 1u) << ranks;
    EXPECT_TRUE(metadata.process_groups.at(7)[0].ranks.empty()) << ranks;
    EXPECT_FALSE(metadata.process_group_counts.contains(7));
  }
}

TEST(MetadataTest, ProcessGroupsThatCannotBeAreLeftOut) {
  const CaptureMetadata metadata = Merged(
      R"([{"type":"process_groups","pid":7,"groups":[{"rank":2,"size":2},{"rank":-1,"size":2},5,
           {"rank":99999999999,"size":2},{"rank":0,"size":1,"name":7}]},
          {"type":"process_groups","pid":8,"groups":"x"},{"type":"process_groups"}])");
  ASSERT_EQ(metadata.process_groups.at(7).size(), 1u);
  EXPECT_EQ(metadata.process_groups.at(7)[0].name, "");
  EXPECT_TRUE(metadata.process_groups.at(8).empty());
}

TEST(MetadataTest, TimesOfAHostileFileCannotOverflow) {
  CaptureMetadata metadata = TestMetadata();
  ASSERT_TRUE(metadata
                  .Merge(R"([{"type":"recording","start_ns":9223372036854775807,
                              "monotonic_to_unix_ns":9223372036854775807},
                             {"type":"end","duration_ns":9223372036854775807}])")
                  .ok());
  RecordMaker maker;
  maker.Begin(1, std::numeric_limits<int64_t>::max(), 1, 0);
  maker.Begin(1, kLatestMonotonicNs, 1, 0);
  const auto timeline = Build(maker, metadata);
  EXPECT_EQ(timeline->ledger().malformed, 1u);
  EXPECT_EQ(timeline->info().window.duration_ns, 0);
  EXPECT_GT(timeline->ToUnixNs(kLatestMonotonicNs), 0);
}

TEST(MetadataTest, AFileCannotUpsetTheLedger) {
  CaptureMetadata metadata = TestMetadata();
  ASSERT_TRUE(
      metadata
          .Merge(
              R"([{"type":"end","duration_ns":9999,"ledger":{"begins":7,"records":3,"ring_lost":5}}])")
          .ok());
  RecordMaker maker;
  maker.Begin(1, 1000, 1, 0);
  const auto timeline = Build(maker, metadata);
  EXPECT_EQ(timeline->ledger().begins, 1u);
  EXPECT_EQ(timeline->ledger().records, 1u);
  EXPECT_EQ(timeline->ledger().ring_lost, 5u);
}

TEST(MetadataTest, WhatAKilledRecorderLostIsNotKnown) {
  RecordMaker maker;
  maker.Begin(1, 1000, 1, 0);
  EXPECT_FALSE(Build(maker)->info().has_end);
  CaptureMetadata metadata = TestMetadata();
  ASSERT_TRUE(metadata.Merge(R"([{"type":"end","duration_ns":9999}])").ok());
  EXPECT_TRUE(Build(maker, metadata)->info().has_end);
}

RecordingInfo InfoOfARun() {
  RecordingInfo info;
  info.proftrace_version = "1.2.3";
  info.arguments = {"record", "-a"};
  info.metadata = {{"key", "value"}};
  info.host = Host{"example", "6.1", 2};
  info.window.monotonic_to_unix_ns = 1'700'000'000'000'000'000;
  return info;
}

TEST(MetadataTest, WhatWasKnownBeforeTheWindowIsReplacedByWhatIsKnownOfIt) {
  RecordingInfo info = InfoOfARun();
  MetadataWriter writer;
  writer.AddRecording(info);
  CaptureMetadata metadata = Merged(writer.TakeJson().front());
  EXPECT_EQ(metadata.info.window.start_ns, 0);
  EXPECT_EQ(metadata.info.window.monotonic_to_unix_ns, info.window.monotonic_to_unix_ns);
  EXPECT_EQ(metadata.info.host.name, "example");
  EXPECT_EQ(metadata.info.proftrace_version, "1.2.3");
  info.window.start_ns = 900;
  writer.AddRecording(info);
  ASSERT_TRUE(metadata.Merge(writer.TakeJson().front()).ok());
  EXPECT_EQ(metadata.info.window.start_ns, 900);
  EXPECT_EQ(metadata.info.arguments, info.arguments);
  EXPECT_EQ(metadata.info.metadata, info.metadata);
}

TEST(MetadataTest, TheEndTellsTheWindowWhereTheRecordingsEntryIsDamaged) {
  const Window window{900, 1000, 1'700'000'000'000'000'000, 0, 0};
  MetadataWriter writer;
  writer.AddEnd(window, Cost{}, Ledger{});
  CaptureMetadata metadata = TestMetadata();
  metadata.info.window.monotonic_to_unix_ns = 0;
  ASSERT_TRUE(metadata.Merge(writer.TakeJson().front()).ok());
  RecordMaker maker;
  maker.Begin(1, 1000, 1, 0);
  maker.End(1, 1100, 1, 0);
  maker.Begin(1, 2500, 1, 0);  // after the window
  const auto timeline = Build(maker, metadata);
  EXPECT_EQ(timeline->span_count(), 1u);
  EXPECT_EQ(timeline->info().window.start_ns, 900);
  EXPECT_EQ(timeline->ToUnixNs(0), window.monotonic_to_unix_ns);
  EXPECT_TRUE(timeline->info().unsupported.empty());
}

TEST(MetadataTest, TheEndTellsWhatRecordsOfSystemActivityCost) {
  Cost cost;
  cost.system = {.call = 150, .fault = 950, .fault_beside = 750};
  MetadataWriter writer;
  writer.AddEnd(Window{}, cost, Ledger{});
  CaptureMetadata metadata = TestMetadata();
  ASSERT_TRUE(metadata.Merge(writer.TakeJson().front()).ok());
  EXPECT_EQ(metadata.info.cost.system.call, 150);
  EXPECT_EQ(metadata.info.cost.system.fault, 950);
  EXPECT_EQ(metadata.info.cost.system.fault_beside, 750);
  // A damaged file can hold any numbers.
  ASSERT_TRUE(metadata
                  .Merge(R"([{"type":"end","cost":{"ns_per_system_call":-5,)"
                         R"("ns_per_fault_record":1e300}}])")
                  .ok());
  EXPECT_EQ(metadata.info.cost.system.call, 0);
  EXPECT_EQ(metadata.info.cost.system.fault, 1e9);
  EXPECT_EQ(metadata.info.cost.system.fault_beside, 0);
}

// As captures were before the end told it.
TEST(MetadataTest, WithoutAStartNothingLiesBehindTheWindow) {
  CaptureMetadata metadata = TestMetadata();
  metadata.processes[0].target.probes_on_ns = 950;
  ASSERT_TRUE(metadata.Merge(R"([{"type":"end","duration_ns":500}])").ok());
  RecordMaker maker;
  maker.Begin(1, 1000, 1, 0);
  maker.End(1, 1100, 1, 0);
  const auto timeline = Build(maker, metadata);
  EXPECT_EQ(timeline->span_count(), 1u);
  EXPECT_EQ(timeline->ledger().outside_window, 0u);
  EXPECT_EQ(timeline->info().window.start_ns, 950) << "when the probes were on";
}

TEST(MetadataTest, AWallTimeThatIsNotKnownIsSaid) {
  CaptureMetadata metadata = TestMetadata();
  metadata.info.window.monotonic_to_unix_ns = 0;
  RecordMaker maker;
  maker.Begin(1, 1000, 1, 0);
  const auto timeline = Build(maker, metadata);
  ASSERT_EQ(timeline->info().unsupported.size(), 1u);
  EXPECT_EQ(timeline->info().unsupported.front().feature, "wall time");
}

TEST(MetadataTest, DamagedBlocksAreLosses) {
  RecordMaker maker;
  maker.Begin(1, 1000, 1, 0);
  VectorSource source;
  source.Add(maker.bytes());
  source.Add(maker.bytes(), /*gap_before=*/true);
  const auto timeline = Build(TestMetadata(), std::move(source));
  EXPECT_EQ(timeline->ledger().gaps, 1u);
  EXPECT_TRUE(timeline->ledger().AnyLoss());
}

TEST(MetadataTest, DeepNestingIsDropped) {
  CaptureMetadata metadata;
  const std::string deep = std::string(100'000, '[') + std::string(100'000, ']');
  EXPECT_TRUE(
      metadata.Merge("[" + deep + R"(,{"type":"thread","pid":1,"tid":2,"name":"n"}])").ok());
  ASSERT_EQ(metadata.threads.size(), 1u);
}

}  // namespace
}  // namespace proftrace
