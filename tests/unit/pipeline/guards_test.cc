// Rows that are told by an object of their own: at::RecordFunction, TorchScript's frames.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tests/unit/pipeline/timeline.h"

namespace proftrace {
namespace {

using ::testing::ElementsAre;

constexpr uint8_t kGuard = abi::PT_GUARD_BEGIN;
constexpr uint8_t kFrame = abi::PT_FRAME_BEGIN;

TEST(GuardTest, ARowLastsAsLongAsItsObject) {
  RecordMaker maker;
  maker.Begin(1, 10, 1, 0);
  maker.Guard(kGuard, 1, 20, 1, 0x500, 0, 0, "Doubled");
  maker.Begin(1, 30, 2, 2);
  maker.End(1, 40, 2, 2);
  maker.GuardEnd(1, 50, 1, 0x500);
  maker.Begin(1, 60, 3, 2);
  maker.End(1, 70, 3, 2);
  maker.End(1, 80, 1, 0);
  const auto timeline = Build(maker);
  EXPECT_THAT(Paths(*timeline), ElementsAre("aten::a", "aten::a>Doubled", "aten::a>Doubled>aten::b",
                                            "aten::a>aten::c"));
  EXPECT_EQ(timeline->span(SpanId{1}).duration_ns, 30);
  EXPECT_EQ(timeline->span(SpanId{1}).end, SpanEnd::kReturn);
  EXPECT_EQ(timeline->ledger().unmatched_end, 0u);
}

// As torch's profiler shows `with mode: with record_function("mine"): …`: the annotation begins and
// ends where the mode's code calls these operators again.
TEST(GuardTest, AnAnnotationThatAPythonModeHandsOnIsOne) {
  RecordMaker maker;
  maker.Boxed(1, 10, 5, 3, 0x2000);
  maker.AnnotationBegin(1, 11, "mine");
  maker.Guard(kGuard, 1, 20, 4, 0x500, 0, 0, "PythonDispatchMode");
  maker.Begin(2, 21, 1, 0);
  maker.Boxed(1, 30, 5, 6, 0x2000);
  maker.AnnotationBegin(1, 31, "mine");
  maker.AnnotationHandle(1, 32, 0xabc);
  maker.End(1, 33, 5, 6);
  maker.GuardEnd(1, 40, 4, 0x500);
  maker.End(1, 41, 5, 3);
  maker.Begin(1, 50, 2, 3);
  maker.End(1, 60, 2, 3);
  maker.Boxed(1, 70, 5, 3, 0x3000);
  maker.AnnotationEnd(1, 71, 0xabc);
  maker.End(2, 72, 1, 0);
  maker.Guard(kGuard, 1, 80, 4, 0x500, 0, 0, "PythonDispatchMode");
  maker.Boxed(1, 90, 5, 6, 0x3000);
  maker.AnnotationEnd(1, 91, 0xabc);
  maker.End(1, 92, 5, 6);
  maker.GuardEnd(1, 100, 4, 0x500);
  maker.End(1, 101, 5, 3);
  const auto timeline = Build(maker);
  EXPECT_THAT(Paths(*timeline), ElementsAre("PythonDispatchMode", "aten::a", "mine", "mine>aten::b",
                                            "PythonDispatchMode"));
  EXPECT_EQ(timeline->span(SpanId{2}).duration_ns, 60);
  EXPECT_EQ(timeline->span(SpanId{2}).end, SpanEnd::kReturn);
  EXPECT_EQ(timeline->ledger().unmatched_end, 0u);
}

// As torch 1.13 does it: nothing but the calls themselves tells of the mode.
TEST(GuardTest, AnAnnotationThatIsHandedOnWithoutARowIsOne) {
  RecordMaker maker;
  maker.Boxed(1, 10, 5, 3, 0x2000);
  maker.AnnotationBegin(1, 11, "mine");
  maker.Begin(1, 20, 1, 5);
  maker.End(1, 21, 1, 5);
  maker.Boxed(1, 30, 5, 6, 0x2000);
  maker.AnnotationBegin(1, 31, "mine");
  maker.AnnotationHandle(1, 32, 0xabc);
  maker.End(1, 33, 5, 6);
  maker.End(1, 41, 5, 3);
  maker.Begin(1, 50, 2, 3);
  maker.End(1, 60, 2, 3);
  maker.Boxed(1, 70, 5, 3, 0x3000);
  maker.AnnotationEnd(1, 71, 0xabc);
  maker.Boxed(1, 90, 5, 6, 0x3000);
  maker.AnnotationEnd(1, 91, 0xabc);
  maker.End(1, 92, 5, 6);
  maker.End(1, 101, 5, 3);
  const auto timeline = Build(maker);
  EXPECT_THAT(Paths(*timeline), ElementsAre("aten::a", "mine", "mine>aten::b"));
  EXPECT_EQ(timeline->span(SpanId{1}).duration_ns, 60);
  EXPECT_EQ(timeline->span(SpanId{1}).end, SpanEnd::kReturn);
  EXPECT_EQ(timeline->ledger().unmatched_end, 0u);
}

TEST(GuardTest, AnnotationsInsideOfOneAnotherAreTwo) {
  RecordMaker maker;
  for (int64_t ns = 10; ns < 30; ns += 10) {
    maker.Boxed(1, ns, 5, 3, 0x2000);
    maker.AnnotationBegin(1, ns + 1, "mine");
    maker.AnnotationHandle(1, ns + 2, static_cast<uint64_t>(ns));
    maker.End(1, ns + 3, 5, 3);
  }
  const auto timeline = Build(maker);
  EXPECT_THAT(Paths(*timeline), ElementsAre("mine", "mine>mine"));
}

// With Python as the dispatcher an annotation's exit goes to a mode's code without a row.
TEST(GuardTest, AnAnnotationEndsWithTheInnermostOfItsExits) {
  RecordMaker maker;
  maker.Boxed(1, 10, 5, 3, 0x2000);
  maker.AnnotationBegin(1, 11, "mine");
  maker.AnnotationHandle(1, 12, 0xabc);
  maker.End(1, 13, 5, 3);
  maker.Boxed(1, 20, 5, 3, 0x3000);
  maker.AnnotationEnd(1, 21, 0xabc);
  maker.Begin(2, 22, 2, 0);
  maker.Begin(1, 30, 1, 5);
  maker.End(1, 40, 1, 5);
  maker.Boxed(1, 50, 5, 6, 0x3000);
  maker.AnnotationEnd(1, 51, 0xabc);
  maker.End(1, 52, 5, 6);
  maker.End(1, 60, 5, 3);
  const auto timeline = Build(maker);
  EXPECT_THAT(Paths(*timeline), ElementsAre("mine", "aten::b", "mine>aten::a"));
  EXPECT_EQ(timeline->span(SpanId{0}).duration_ns, 40);
  EXPECT_EQ(timeline->ledger().unmatched_end, 0u);
}

TEST(GuardTest, AnAnnotationWithTheHandleOfOneThatIsOverHasAnEndOfItsOwn) {
  RecordMaker maker;
  for (int64_t ns = 10; ns < 30; ns += 10) {
    maker.AnnotationBegin(1, ns, "mine");
    maker.AnnotationHandle(1, ns + 1, 0xabc);
    maker.AnnotationEnd(1, ns + 2, 0xabc);
    maker.Begin(1, ns + 3, 1, 5);  // nothing of the exit's own is recorded
  }
  const auto timeline = Build(maker);
  EXPECT_EQ(timeline->span(SpanId{0}).duration_ns, 2);
  EXPECT_EQ(timeline->ledger().unmatched_end, 0u);
}

TEST(GuardTest, ItsScopeDecidesTheCategory) {
  RecordMaker maker;
  maker.Guard(kGuard, 1, 10, 0, 0x500, 0, 7, "own scope");
  maker.GuardEnd(1, 20, 0, 0x500);
  maker.Guard(kGuard, 1, 30, 0, 0x500, 0, 2, "scripted");
  maker.GuardEnd(1, 40, 0, 0x500);
  maker.Guard(kGuard, 1, 50, 0, 0x500, 0, 0xffffffff, "wild scope");
  maker.GuardEnd(1, 60, 0, 0x500);
  const auto timeline = Build(maker);
  ASSERT_EQ(timeline->span_count(), 3u);
  EXPECT_EQ(timeline->label(timeline->span(SpanId{0}).label).category, Category::kUserAnnotation);
  EXPECT_EQ(timeline->label(timeline->span(SpanId{1}).label).category, Category::kCpuOp);
  EXPECT_EQ(timeline->label(timeline->span(SpanId{1}).label).scope, Scope::kTorchScriptFunction);
  EXPECT_EQ(timeline->label(timeline->span(SpanId{2}).label).scope, Scope::kFunction);
}

TEST(GuardTest, AnExceptionThatLeavesTheObjectTakesItsCallsAlong) {
  RecordMaker maker;
  maker.Guard(kGuard, 1, 10, 1, 0x500, 0, 0, "Refusing");
  maker.Begin(1, 20, 2, 3);
  maker.GuardEnd(1, 30, 1, 0x500, /*unwound=*/true);
  maker.Catch(1, 40, RecordMaker::Sp(0));
  maker.Begin(1, 50, 3, 4);
  maker.End(1, 60, 3, 4);
  const auto timeline = Build(maker);
  EXPECT_THAT(Paths(*timeline), ElementsAre("Refusing", "Refusing>aten::b", "aten::c"));
  EXPECT_EQ(timeline->span(SpanId{0}).end, SpanEnd::kException);
  EXPECT_EQ(timeline->span(SpanId{1}).end, SpanEnd::kException);
  EXPECT_FALSE(timeline->span(SpanId{1}).overlaps);
}

TEST(GuardTest, TwoObjectsCannotBeAtOnePlace) {
  RecordMaker maker;
  maker.Guard(kGuard, 1, 10, 1, 0x500, 0, 0, "first");
  maker.Guard(kGuard, 1, 20, 1, 0x500, 0, 0, "second");
  maker.GuardEnd(1, 30, 1, 0x500);
  const auto timeline = Build(maker);
  EXPECT_THAT(Paths(*timeline), ElementsAre("first", "second"));
  EXPECT_EQ(timeline->span(SpanId{0}).end, SpanEnd::kLost);
  EXPECT_EQ(timeline->ledger().end_lost, 1u);
}

TEST(GuardTest, AnObjectWhoseBeginWasNotRecordedEndsNothing) {
  RecordMaker maker;
  maker.Begin(1, 10, 1, 0);
  maker.GuardEnd(1, 20, 1, 0x900);
  maker.End(1, 30, 1, 0);
  const auto timeline = Build(maker);
  EXPECT_EQ(timeline->span(SpanId{0}).end, SpanEnd::kReturn);
  EXPECT_EQ(timeline->ledger().unmatched_end, 0u);
}

TEST(GuardTest, AFrameOutlivesTheInterpretersWait) {
  // Suspended on thread 1, resumed and left on thread 2.
  RecordMaker maker;
  maker.Guard(kFrame, 1, 10, 5, 0x700, 0x70, 2, "forward");
  maker.Begin(1, 20, 1, 6);
  maker.End(1, 30, 1, 6);
  maker.Begin(2, 40, 2, 0);
  maker.End(2, 45, 2, 0);
  maker.FrameEnd(2, 50, 0, 0x700, 0x70);
  maker.Begin(1, 60, 3, 1);
  maker.End(1, 70, 3, 1);
  const auto timeline = Build(maker);
  EXPECT_THAT(Paths(*timeline), ElementsAre("forward", "aten::a", "aten::b", "aten::c"));
  EXPECT_EQ(timeline->span(SpanId{0}).duration_ns, 40);
  EXPECT_TRUE(timeline->span(SpanId{0}).is_async);
}

TEST(GuardTest, AFrameThatMovedIsKnownByItsCode) {
  RecordMaker maker;
  maker.Guard(kFrame, 1, 10, 5, 0x700, 0x70, 2, "outer");
  maker.Guard(kFrame, 1, 20, 6, 0x868, 0x71, 2, "inner");  // the vector grew: outer is at 0x800
  maker.FrameEnd(1, 25, 6, 0x700, 0);                      // what outer was moved from
  maker.FrameEnd(1, 30, 5, 0x868, 0x71);
  maker.FrameEnd(1, 40, 5, 0x800, 0x70);
  const auto timeline = Build(maker);
  EXPECT_THAT(Paths(*timeline), ElementsAre("outer", "outer>inner"));
  EXPECT_EQ(timeline->span(SpanId{0}).duration_ns, 30);
  EXPECT_EQ(timeline->span(SpanId{1}).duration_ns, 10);
}

TEST(GuardTest, WhereAFrameHasMovedFromAnotherMayBegin) {
  RecordMaker maker;
  maker.Guard(kFrame, 1, 10, 5, 0x700, 0x70, 2, "outer");
  maker.Guard(kFrame, 1, 20, 5, 0x868, 0x71, 2, "inner");  // the vector grew: outer is at 0x800
  maker.Guard(kFrame, 1, 30, 6, 0x700, 0x72, 2, "of another interpreter");
  maker.FrameEnd(1, 40, 6, 0x700, 0x72);
  maker.FrameEnd(1, 50, 5, 0x868, 0x71);
  maker.Guard(kFrame, 1, 60, 6, 0x700, 0x73, 2, "and another");
  maker.FrameEnd(1, 70, 6, 0x700, 0x73);
  maker.FrameEnd(1, 80, 5, 0x800, 0x70);
  const auto timeline = Build(maker);
  EXPECT_THAT(Paths(*timeline),
              ElementsAre("outer", "outer>inner", "outer>inner>of another interpreter",
                          "outer>and another"));
  EXPECT_EQ(timeline->span(SpanId{0}).duration_ns, 70);
  EXPECT_EQ(timeline->ledger().end_lost, 0u);
}

TEST(GuardTest, AFrameThatCannotHaveMovedHasLostItsEnd) {
  RecordMaker maker;
  maker.Guard(kFrame, 1, 10, 5, 0x700, 0x70, 2, "first");
  maker.Guard(kFrame, 1, 20, 5, 0x700, 0x71, 2, "second");
  maker.FrameEnd(1, 30, 5, 0x700, 0x71);
  const auto timeline = Build(maker);
  EXPECT_THAT(Paths(*timeline), ElementsAre("first", "second"));
  EXPECT_EQ(timeline->ledger().end_lost, 1u);
}

TEST(GuardTest, AFutureEndsAnAnnotationByItsGuard) {
  RecordMaker maker;
  maker.AnnotationBegin(1, 10, "across a future");
  maker.AnnotationGuard(1, 11, 0x900);
  maker.AnnotationHandle(1, 12, 0x100);
  maker.Begin(1, 20, 1, 1);
  maker.End(1, 30, 1, 1);
  maker.GuardEnd(2, 50, 0, 0x900);
  const auto timeline = Build(maker);
  EXPECT_THAT(Paths(*timeline), ElementsAre("across a future", "aten::a"));
  EXPECT_EQ(timeline->span(SpanId{0}).duration_ns, 40);
  EXPECT_TRUE(timeline->span(SpanId{0}).is_async);
}

TEST(GuardTest, WhatOutlivesWhatItBeganInHasItsChildrenStill) {
  RecordMaker maker;
  maker.Guard(kFrame, 1, 10, 5, 0x700, 0x70, 2, "scripted");
  maker.Guard(kFrame, 1, 20, 6, 0x768, 0x71, 2, "__enter__");
  maker.AnnotationBegin(1, 30, "in a script");
  maker.AnnotationHandle(1, 31, 0x100);
  maker.FrameEnd(1, 40, 5, 0x768, 0x71);
  maker.Begin(1, 50, 1, 6);
  maker.End(1, 60, 1, 6);
  maker.AnnotationEnd(1, 70, 0x100);
  maker.FrameEnd(1, 80, 5, 0x700, 0x70);
  const auto timeline = Build(maker);
  EXPECT_THAT(Paths(*timeline),
              ElementsAre("scripted", "scripted>__enter__", "scripted>in a script",
                          "scripted>in a script>aten::a"));
  EXPECT_EQ(timeline->span(SpanId{2}).duration_ns, 40);
}

TEST(GuardTest, WhatAnotherThreadEndsHasNoPartInTheTree) {
  RecordMaker maker;
  maker.Guard(kFrame, 1, 10, 5, 0x700, 0x70, 2, "first");
  maker.Guard(kFrame, 1, 20, 5, 0x800, 0x71, 2, "waiting");
  maker.FrameEnd(1, 30, 5, 0x700, 0x70);
  maker.Guard(kFrame, 1, 40, 5, 0x900, 0x72, 2, "next");
  maker.FrameEnd(2, 50, 5, 0x800, 0x71);
  maker.Begin(1, 60, 1, 6);
  maker.End(1, 70, 1, 6);
  maker.FrameEnd(1, 80, 5, 0x900, 0x72);
  const auto timeline = Build(maker);
  EXPECT_THAT(Paths(*timeline), ElementsAre("first", "waiting", "next", "next>aten::a"));
}

TEST(GuardTest, LongNamesComeInPieces) {
  const std::string name = "## Call " + std::string(400, 'x');
  RecordMaker maker;
  maker.Guard(kGuard, 1, 10, 0, 0x500, 0, 0, name);
  abi::pt_text_more_record more{};
  more.head = RecordMaker::Head(abi::PT_TEXT_MORE, 1, 10, 0, 0);
  more.offset = PT_TEXT_BYTES;
  more.bytes = static_cast<uint32_t>(name.size()) - PT_TEXT_BYTES;
  std::memcpy(more.text, name.data() + PT_TEXT_BYTES, more.bytes);
  maker.Add(more);
  maker.GuardEnd(1, 20, 0, 0x500);
  const auto timeline = Build(maker);
  EXPECT_THAT(Paths(*timeline), ElementsAre(name));
}

std::string Characters(std::u32string_view text, uint32_t width) {
  std::string bytes;
  for (const char32_t character : text) {
    bytes.append(reinterpret_cast<const char*>(&character), width);
  }
  return bytes;
}

TEST(GuardsTest, NamesThatPythonHasNotEncodedAreItsCharacters) {
  RecordMaker maker;
  maker.Guard(kGuard, 1, 10, 0, 0x500, 0, 0, Characters(U"schön", 1), 1);
  maker.GuardEnd(1, 20, 0, 0x500);
  maker.Guard(kGuard, 1, 30, 0, 0x500, 0, 0, Characters(U"训练 7", 2), 2);
  maker.GuardEnd(1, 40, 0, 0x500);
  maker.Guard(kGuard, 1, 50, 0, 0x500, 0, 0, Characters(U"🔥x", 4), 4);
  maker.GuardEnd(1, 60, 0, 0x500);
  EXPECT_THAT(Paths(*Build(maker)), ElementsAre("schön", "训练 7", "🔥x"));
}

TEST(GuardsTest, LongNamesOfPythonsCharactersComeInPartsAndAreCutAsOthers) {
  std::u32string text(PT_NAME_BYTES + 1, U'ü');
  const std::string name = Characters(text, 1);
  RecordMaker maker;
  maker.Guard(kGuard, 1, 10, 0, 0x500, 0, 0, name, 1);
  for (size_t at = PT_TEXT_BYTES; at < PT_NAME_BYTES; at += PT_TEXT_MORE_BYTES) {
    abi::pt_text_more_record more{};
    more.head = RecordMaker::Head(abi::PT_TEXT_MORE, 1, 10, 0, 0);
    more.offset = static_cast<uint32_t>(at);
    more.bytes = static_cast<uint32_t>(std::min<size_t>(name.size() - at, PT_TEXT_MORE_BYTES));
    std::memcpy(more.text, name.data() + at, more.bytes);
    maker.Add(more);
  }
  maker.GuardEnd(1, 20, 0, 0x500);
  const auto timeline = Build(maker);
  std::string expected;
  for (size_t i = 0; i < PT_NAME_BYTES / 2; ++i) expected += "ü";
  EXPECT_THAT(Paths(*timeline), ElementsAre(expected + "…"));
  EXPECT_EQ(timeline->ledger().names_cut, 1u);
}

// torch.profiler.itt.range_push() in a loop, without a pop: what looked at all that is open, for
// each begin and each end, took minutes.
TEST(GuardsTest, AnnotationsThatNeverEndCostNothingLater) {
  constexpr int64_t kLeaks = 20'000;
  RecordMaker maker;
  int64_t ns = 10;
  for (int64_t i = 0; i < kLeaks; ++i) {
    maker.AnnotationBegin(1, ns++, "batch");
    maker.AnnotationHandle(1, ns++, PT_RANGE_HANDLE(1));
    maker.Guard(abi::PT_GUARD_BEGIN, 1, ns++, 1, 0xf00, 0, 0, "");
    maker.Begin(1, ns++, 1, 2);
    maker.End(1, ns++, 1, 2);
    maker.GuardEnd(1, ns++, 1, 0xf00);
    maker.GuardEnd(1, ns++, 1, 0x5555);    // no row's
    maker.AnnotationEnd(2, ns++, 0x6666);  // no row's
  }
  const auto timeline = Build(maker);
  EXPECT_EQ(timeline->span_count(), 3 * kLeaks);
  EXPECT_EQ(timeline->ledger().truncated, kLeaks);
  EXPECT_EQ(timeline->ledger().unmatched_end, kLeaks);
  EXPECT_EQ(timeline->span(SpanId{3 * kLeaks - 1}).parent, SpanId{3 * kLeaks - 2});
  EXPECT_LT(timeline->paths().size(), 4 * kMostPathLevels) << "paths are cut";
}

// The annotations overlap: each end lies below all others that are open.
TEST(GuardsTest, AnnotationsThatEndInTheOrderOfTheirBeginsCostNoMore) {
  constexpr uint32_t kOpen = 10'000;
  RecordMaker maker;
  int64_t ns = 10;
  for (uint32_t i = 0; i < kOpen; ++i) {
    maker.AnnotationBegin(1, ns++, "request");
    maker.AnnotationHandle(1, ns++, 1000 + i);
  }
  for (uint32_t i = 0; i < kOpen; ++i) maker.AnnotationEnd(1, ns++, 1000 + i);
  const auto timeline = Build(maker);
  EXPECT_EQ(timeline->ledger().closed, kOpen);
  EXPECT_EQ(timeline->ledger().partial_overlap, kOpen - 1);
  EXPECT_EQ(timeline->span(SpanId{kOpen / 2}).duration_ns, 2 * kOpen - kOpen / 2);
}

}  // namespace
}  // namespace proftrace
