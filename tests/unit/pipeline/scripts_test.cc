// Where in TorchScript's graphs rows are: Module Hierarchy.
#include <gtest/gtest.h>

#include <string>

#include "tests/unit/pipeline/timeline.h"

namespace proftrace {
namespace {

CaptureMetadata Metadata() {
  CaptureMetadata metadata = TestMetadata();
  const Pid pid{RecordMaker::kPid};
  metadata.scripts[{pid, 1, 0x100, 0x10}] = {"(Net)::forward.", ""};
  metadata.scripts[{pid, 1, 0x100, 0x20}] = {"(Net)::forward.fc(Linear)::forward.", ""};
  metadata.scripts[{pid, 1, 0x100, 0x30}] = {"(Net)::forward.", "inner"};
  metadata.scripts[{pid, 1, 0x200, 0x10}] = {"(Halving)::turn.", ""};
  return metadata;
}

std::string TextOf(const Timeline& timeline, uint32_t span) {
  const ScriptId script = timeline.script_of(SpanId{span});
  return script == kNoScript ? "" : timeline.scripts()[Raw(script)];
}

TEST(ScriptTest, ARowIsAtThePlaceThatWasToldOfRightBeforeIt) {
  RecordMaker maker;
  maker.Script(kTid, 9, {{0x100, 0x20}});
  maker.Begin(kTid, 10, 1, 0);
  maker.Script(kTid, 11, {{0x100, 0x20}});
  maker.Begin(kTid, 12, 2, 1);
  maker.End(kTid, 13, 2, 1);
  maker.End(kTid, 14, 1, 0);
  maker.Begin(kTid, 20, 3, 0);
  maker.End(kTid, 30, 3, 0);
  const auto timeline = Build(maker, Metadata());
  EXPECT_EQ(TextOf(*timeline, 0), "TOP(Net)::forward.fc(Linear)::forward.");
  EXPECT_EQ(TextOf(*timeline, 1), "TOP(Net)::forward.fc(Linear)::forward.");
  EXPECT_EQ(TextOf(*timeline, 2), "");
}

TEST(ScriptTest, AFrameSaysWhichInstanceTheNextOneIsOf) {
  RecordMaker maker;
  maker.Script(kTid, 9, {{0x100, 0x30}, {0x200, 0x10}});
  maker.Begin(kTid, 10, 1, 0);
  maker.End(kTid, 14, 1, 0);
  const auto timeline = Build(maker, Metadata());
  EXPECT_EQ(TextOf(*timeline, 0), "TOP(Net)::forward.inner(Halving)::turn.");
}

TEST(ScriptTest, APlaceOfAnotherThreadOrProcessIsNone) {
  RecordMaker maker;
  maker.Script(2, 8, {{0x100, 0x10}});
  maker.Script(kTid, 9, {{0x999, 0x10}});  // nobody has read its names
  maker.Begin(kTid, 10, 1, 0);
  maker.End(kTid, 14, 1, 0);
  const auto timeline = Build(maker, Metadata());
  EXPECT_EQ(TextOf(*timeline, 0), "");
}

TEST(ScriptTest, ALossBetweenLeavesTheRowWithout) {
  RecordMaker maker;
  maker.Script(kTid, 9, {{0x100, 0x10}});
  maker.Loss(kTid, 10, 1);
  maker.Begin(kTid, 11, 1, 0);
  maker.End(kTid, 14, 1, 0);
  const auto timeline = Build(maker, Metadata());
  EXPECT_EQ(TextOf(*timeline, 0), "");
}

TEST(ScriptTest, RowsOfTheBackwardPassHaveNone) {
  RecordMaker maker;
  maker.Script(kTid, 9, {{0x100, 0x10}});
  maker.Node(kTid, 10, 7, 0, 0xa0, 0, "");
  maker.Begin(kTid, 11, 1, 1);
  maker.End(kTid, 12, 1, 1);
  maker.End(kTid, 14, 7, 0);
  const auto timeline = Build(maker, Metadata());
  EXPECT_EQ(TextOf(*timeline, 0), "");
  EXPECT_EQ(TextOf(*timeline, 1), "");
}

TEST(ScriptTest, ARecordThatIsShorterThanItSaysIsMalformed) {
  RecordMaker maker;
  maker.Script(kTid, 9, {{0x100, 0x10}}, 2);
  maker.Script(kTid, 9, {{0x100, 0x10}}, 0xffffffff);
  maker.Begin(kTid, 10, 1, 0);
  maker.End(kTid, 14, 1, 0);
  const auto timeline = Build(maker, Metadata());
  EXPECT_EQ(TextOf(*timeline, 0), "");
  EXPECT_EQ(timeline->ledger().malformed, 2u);
}

TEST(ScriptTest, AFrameListThatCouldNotBeReadIsNone) {
  RecordMaker maker;
  maker.Script(kTid, 9, {});
  maker.Begin(kTid, 10, 1, 0);
  maker.End(kTid, 14, 1, 0);
  const auto timeline = Build(maker, Metadata());
  EXPECT_EQ(TextOf(*timeline, 0), "");
  EXPECT_EQ(timeline->ledger().malformed, 0u);
}

}  // namespace
}  // namespace proftrace
