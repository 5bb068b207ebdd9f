#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/pipeline/timeline.h"
#include "userspace/decode/decoder.h"
#include "userspace/model/name_limits.h"

namespace proftrace {
namespace {

using ::testing::ElementsAre;

TEST(DecoderTest, BoxedOperatorIsNamedByItsAddress) {
  RecordMaker maker;
  maker.Boxed(1, 10, 5, 0, 0x1000);
  maker.End(1, 20, 5, 0);
  const auto timeline = Build(maker);
  ASSERT_EQ(timeline->span_count(), 1u);
  const Label& label = timeline->label(timeline->span(SpanId{0}).label);
  EXPECT_EQ(label.name, "my::op");
  EXPECT_EQ(label.overload_name, "out");
}

TEST(DecoderTest, ManyImagesKeepTheirOperatorsApart) {
  CaptureMetadata metadata = TestMetadata();
  for (const uint32_t image : {1u, 129u}) {
    metadata.images[image].operators[0x9000] =
        OperatorEntry{0x9000, "my::image_" + std::to_string(image), ""};
  }
  ProcessEntry other = metadata.processes.front();
  other.image = 129;
  other.target.probes_on_ns = 2000;
  metadata.processes.push_back(other);
  RecordMaker maker;
  maker.Boxed(1, 1000, 5, 0, 0x9000);
  maker.End(1, 1100, 5, 0);
  maker.Boxed(1, 2000, 5, 0, 0x9000);
  maker.End(1, 2100, 5, 0);
  EXPECT_EQ(Paths(*Build(maker, metadata)),
            (std::vector<std::string>{"my::image_1", "my::image_129"}));
}

TEST(DecoderTest, UnknownOperatorIsCountedNotGuessed) {
  RecordMaker maker;
  maker.Boxed(1, 10, 5, 0, 0x9999);
  maker.End(1, 20, 5, 0);
  const auto timeline = Build(maker);
  EXPECT_EQ(timeline->ledger().unnamed, 1u);
  EXPECT_EQ(NameOf(*timeline, 0), "<unnamed>");
}

TEST(DecoderTest, CallsAreNamedByTheirSymbolOrByTheirSite) {
  CaptureMetadata metadata = TestMetadata();
  metadata.images[1].symbol_names[700] = "aten::relu";
  RecordMaker maker;
  int64_t ns = 0;
  const auto add = [&](uint16_t site, uint32_t symbol, Scope scope) {
    maker.Named(1, ns += 10, site, 0, symbol, static_cast<uint32_t>(scope));
    maker.End(1, ns += 10, site, 0);
  };
  add(5, 700, Scope::kStaticRuntimeOp);
  add(1, 0, Scope::kStaticRuntimeModel);
  add(5, 701, Scope::kStaticRuntimeOp);  // was not told
  const auto timeline = Build(maker, metadata);
  ASSERT_EQ(timeline->span_count(), 3u);
  EXPECT_EQ(NameOf(*timeline, 0), "aten::relu");
  EXPECT_EQ(timeline->label(timeline->span(SpanId{0}).label).scope, Scope::kStaticRuntimeOp);
  EXPECT_EQ(NameOf(*timeline, 1), metadata.plans.at(1).sites[1].name);
  EXPECT_EQ(timeline->label(timeline->span(SpanId{1}).label).scope, Scope::kStaticRuntimeModel);
  EXPECT_EQ(NameOf(*timeline, 2), "<unnamed>");
  EXPECT_EQ(timeline->ledger().unnamed, 1u);
}

TEST(DecoderTest, NodesAreNamedByClassOrPythonType) {
  RecordMaker maker;
  int64_t ns = 0;
  const auto add = [&](uint64_t vtable, uint64_t type, const std::string& name) {
    maker.Node(1, ns += 10, 6, 0, vtable, type, name);
    maker.End(1, ns += 10, 6, 0);
  };
  add(0xa0, 0, "");
  add(0xb0, 0x77, "");
  add(0xb0, 0x78, "OtherBackward");
  add(0xc0, 0x1234, "");  // not a PyNode: what was read as a type means nothing
  const auto timeline = Build(maker);
  const std::string prefix = "autograd::engine::evaluate_function: ";
  EXPECT_THAT(Paths(*timeline),
              ElementsAre(prefix + "AddBackward0", prefix + "MyFunctionBackward",
                          prefix + "OtherBackward", prefix + "torch::autograd::AccumulateGrad"));
}

TEST(DecoderTest, LongNamesComeInParts) {
  RecordMaker maker;
  std::vector<std::string> names;
  int64_t ns = 0;
  for (const size_t length : {0, 1, 247, 248, 249, 2247, 2248, 2249, 4096}) {
    names.push_back(std::string(length, 'x'));
    maker.AnnotationBegin(1, ns += 10, names.back());
    maker.AnnotationEnd(1, ns += 10, 0);
  }
  const auto timeline = Build(maker);
  EXPECT_EQ(Paths(*timeline), names);
  EXPECT_EQ(timeline->ledger().names_cut, 0u);
}

TEST(DecoderTest, NamesAreCutAtTheLimitAndMarked) {
  RecordMaker maker;
  maker.AnnotationBegin(1, 10, std::string(5000, 'y'));
  maker.AnnotationEnd(1, 20, 0);
  const auto timeline = Build(maker);
  EXPECT_EQ(NameOf(*timeline, 0), std::string(4096, 'y') + "…");
  EXPECT_EQ(timeline->ledger().names_cut, 1u);
}

TEST(DecoderTest, NameWhoseRestWasLostIsCut) {
  RecordMaker maker;
  maker.AnnotationBegin(1, 10, std::string(3000, 'z'));
  maker.bytes().resize(sizeof(abi::pt_text_record));
  maker.Begin(1, 15, 1, 0);
  maker.End(1, 16, 1, 0);
  maker.AnnotationEnd(1, 20, 0);
  const auto timeline = Build(maker);
  EXPECT_EQ(NameOf(*timeline, 0), std::string(248, 'z') + "…");
  EXPECT_EQ(PathOf(*timeline, 1), std::string(248, 'z') + "…>aten::a");
}

TEST(DecoderTest, UnknownKindsAreSkippedBySize) {
  RecordMaker maker;
  struct Future {
    abi::pt_record head;
    uint64_t more[5];
  } future{};
  future.head = RecordMaker::Head(200, 1, 5, 0, 0);
  maker.Add(future);
  maker.Begin(1, 10, 1, 0);
  maker.End(1, 20, 1, 0);
  const auto timeline = Build(maker);
  EXPECT_EQ(timeline->ledger().unknown, 1u);
  EXPECT_EQ(timeline->ledger().decoded, 2u);
  EXPECT_EQ(timeline->span_count(), 1u);
}

TEST(DecoderTest, MalformedRecordsAreCountedAndSkipped) {
  RecordMaker maker;
  maker.Add(RecordMaker::Head(abi::PT_BOXED_BEGIN, 1, 5, 5, 0));  // too short for its kind
  maker.Begin(1, 10, 1, 0);
  maker.End(1, 20, 1, 0);
  abi::pt_record broken = RecordMaker::Head(abi::PT_SPAN_BEGIN, 1, 30, 1, 0);
  maker.Add(broken);
  maker.bytes()[maker.bytes().size() - 1] = std::byte{1};  // a size smaller than a head
  maker.Begin(1, 40, 1, 0);                                // unreachable behind it
  const auto timeline = Build(maker);
  EXPECT_EQ(timeline->ledger().malformed, 2u);
  EXPECT_EQ(timeline->span_count(), 1u);
}

TEST(DecoderTest, SiteOutsideThePlanIsUnnamed) {
  RecordMaker maker;
  maker.Begin(1, 10, 999, 0);
  maker.End(1, 20, 999, 0);
  const auto timeline = Build(maker);
  EXPECT_EQ(timeline->ledger().unnamed, 1u);
}

TEST(DecoderTest, ProcessOfNoTableIsUnnamed) {
  CaptureMetadata metadata = TestMetadata();
  metadata.processes.clear();
  RecordMaker maker;
  maker.Begin(1, 10, 1, 0);
  maker.End(1, 20, 1, 0);
  const auto timeline = Build(maker, metadata);
  EXPECT_EQ(timeline->ledger().unnamed, 1u);
}

TEST(DecoderTest, ExecGivesThePidAnotherPlan) {
  CaptureMetadata metadata = TestMetadata();
  metadata.plans[2].sites.resize(2);
  metadata.plans[2].sites[1].name = "aten::other";
  ProcessEntry after = metadata.processes[0];
  after.plan = 2;
  after.target.probes_on_ns = 100;
  metadata.processes.push_back(after);
  RecordMaker maker;
  maker.Begin(1, 10, 1, 0);
  maker.End(1, 20, 1, 0);
  maker.Exec(1, 50);
  maker.Begin(1, 110, 1, 0);
  maker.End(1, 120, 1, 0);
  const auto timeline = Build(maker, metadata);
  EXPECT_THAT(Paths(*timeline), ElementsAre("aten::a", "aten::other"));
}

TEST(DecoderTest, AnOperatorWithoutANameIsUnnamed) {
  CaptureMetadata metadata = TestMetadata();
  MetadataWriter writer;
  for (const char* name : {"mine::first", ""}) {
    writer.AddOperators(metadata.processes.front().image, {OperatorEntry{0x4440, name, "", ""}});
  }
  ASSERT_TRUE(metadata.Merge(writer.TakeJson().front()).ok());
  RecordMaker maker;
  maker.Boxed(1, 10, 1, 0, 0x4440);
  maker.End(1, 20, 1, 0);
  const auto timeline = Build(maker, metadata);
  ASSERT_EQ(timeline->span_count(), 1u);
  EXPECT_EQ(NameOf(*timeline, 0), "<unnamed>");
  EXPECT_EQ(timeline->ledger().unnamed, 1u);
}

// Annotations with a number in each name.
TEST(DecoderTest, LabelsBeyondTheLimitAreOneForEachGroup) {
  constexpr uint32_t kNames = 270'000;
  const CaptureMetadata metadata = TestMetadata();
  Ledger ledger;
  Decoder decoder(metadata, &ledger);
  std::vector<Event> events;
  for (uint32_t i = 0; i < kNames; ++i) {
    RecordMaker maker;
    maker.AnnotationBegin(1, i, "step " + std::to_string(i));
    decoder.Decode(maker.bytes(), &events);
  }
  decoder.Flush(&events);
  EXPECT_LE(decoder.labels().size(), 2 * kMostNames + 100);
  ASSERT_EQ(events.size(), kNames);
  EXPECT_EQ(decoder.labels()[events[5].label].name, "step 5");
  EXPECT_EQ(decoder.labels()[events.back().label].name, "step *");
  EXPECT_EQ(decoder.labels()[events.back().label].category, Category::kUserAnnotation);
}

}  // namespace
}  // namespace proftrace
