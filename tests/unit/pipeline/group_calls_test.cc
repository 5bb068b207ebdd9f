// The numbers of gloo's collectives: records in, keyword values of their rows out.
#include <gmock/gmock.h>

#include "tests/unit/pipeline/timeline.h"

namespace proftrace {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr uint64_t kGroup = 0x7f0010;
constexpr uint32_t kWorker = kTid + 1;

// Makes a work with that address, and has a worker of gloo execute it.
void Work(RecordMaker& maker, int64_t ns, uint64_t work) {
  maker.Guard(abi::PT_WORK_TITLE, kTid, ns, 5, work, 0, 7, "gloo:all_reduce");
  maker.Guard(abi::PT_WORK_BEGIN, kWorker, ns + 1, 1, work, 0, 0, "");
  maker.GuardEnd(kWorker, ns + 2, 1, work);
}

ProcessGroup Group(const std::string& name) {
  return {name, "rows", "gloo", 0, 2, "", {4, 6}, kGroup};
}

CaptureMetadata WithGroups(const std::vector<std::vector<ProcessGroup>>& readings) {
  MetadataWriter writer;
  for (const std::vector<ProcessGroup>& groups : readings) {
    writer.AddProcessGroups(Pid{RecordMaker::kPid}, groups, std::nullopt);
  }
  CaptureMetadata metadata = TestMetadata();
  EXPECT_TRUE(metadata.Merge(writer.TakeJson().front()).ok());
  return metadata;
}

std::vector<std::string> Keywords(const Timeline& timeline, uint32_t span) {
  std::vector<std::string> texts;
  const OperatorInputs* inputs = timeline.inputs_of(SpanId{span});
  if (inputs == nullptr) return texts;
  for (const KeywordValue& keyword : inputs->keywords) {
    std::string text = keyword.name + "=";
    if (const auto* number = std::get_if<int64_t>(&keyword.value)) text += std::to_string(*number);
    if (const auto* name = std::get_if<std::string>(&keyword.value)) text += *name;
    if (const auto* flag = std::get_if<bool>(&keyword.value)) text += *flag ? "true" : "false";
    texts.push_back(text);
  }
  return texts;
}

TEST(GroupCallsTest, AWorkHasTheNumberThatItsGroupTookForIt) {
  RecordMaker maker;
  maker.GroupCall(kTid, 9, kGroup, 41);
  Work(maker, 10, 0x500);
  maker.GroupCall(kTid, 19, 0x999, 1);  // of a group that was not found
  Work(maker, 20, 0x600);
  Work(maker, 30, 0x700);                     // nobody took a number
  maker.GroupCall(kTid + 5, 39, kGroup, 42);  // another thread's
  Work(maker, 40, 0x800);
  const auto timeline = Build(maker, WithGroups({{Group("3")}}));
  ASSERT_EQ(timeline->span_count(), 4u);
  EXPECT_THAT(Keywords(*timeline, 0), ElementsAre("Seq=41", "Is P2P=false", "Process Group Name=3",
                                                  "Process Group Description=rows", "Group size=2",
                                                  "Process Group Ranks=[4, 6]"));
  EXPECT_THAT(Keywords(*timeline, 1), ElementsAre("Seq=1", "Is P2P=false"));
  EXPECT_THAT(Keywords(*timeline, 2), IsEmpty());
  EXPECT_THAT(Keywords(*timeline, 3), IsEmpty());
}

TEST(GroupCallsTest, AfterALossNoNumberIsOfAnEarlierCall) {
  for (const bool is_anywhere : {false, true}) {
    RecordMaker maker;
    maker.GroupCall(kTid, 9, kGroup, 41);
    if (is_anywhere) {
      maker.LossAnywhere(kTid + 9, 10, 3);
    } else {
      maker.Loss(kTid, 10, 3);
    }
    Work(maker, 20, 0x500);
    const auto timeline = Build(maker, WithGroups({{Group("3")}}));
    EXPECT_THAT(Keywords(*timeline, 0), IsEmpty()) << is_anywhere;
    EXPECT_EQ(timeline->losses().size(), is_anywhere ? 0u : 1u);
  }
}

// A message is a row where it is called, and takes no number.
TEST(GroupCallsTest, AMessageHasItsGroupAndNoNumber) {
  RecordMaker maker;
  maker.GroupCall(kTid, 9, kGroup, 41);
  Work(maker, 10, 0x500);
  maker.GroupCall(kTid, 19, kGroup, 0);
  maker.Guard(abi::PT_GUARD_BEGIN, kTid, 20, 5, 0x600, 0, 7, "gloo:send");
  maker.GuardEnd(kTid, 21, 5, 0x600);
  maker.Guard(abi::PT_GUARD_BEGIN, kTid, 30, 5, 0x600, 0, 7, "gloo:send");  // of no group
  maker.GuardEnd(kTid, 31, 5, 0x600);
  maker.GroupCall(kTid, 39, kGroup, 42);
  Work(maker, 40, 0x700);
  maker.GroupCall(kTid, 49, kGroup, 43);  // a number that no work takes
  maker.Guard(abi::PT_GUARD_BEGIN, kTid, 50, 5, 0x600, 0, 7, "gloo:recv");
  maker.GuardEnd(kTid, 51, 5, 0x600);
  const auto timeline = Build(maker, WithGroups({{Group("3")}}));
  ASSERT_EQ(timeline->span_count(), 5u);
  EXPECT_THAT(Keywords(*timeline, 4), IsEmpty());
  EXPECT_THAT(Keywords(*timeline, 1),
              ElementsAre("Process Group Name=3", "Process Group Description=rows", "Group size=2",
                          "Process Group Ranks=[4, 6]"));
  EXPECT_THAT(Keywords(*timeline, 2), IsEmpty());
  EXPECT_EQ(Keywords(*timeline, 3).size(), 6u);
}

// Whatever thread executes a work: it began in the operator that made it.
TEST(GroupCallsTest, AWorkBeganInTheOperatorThatMadeIt) {
  RecordMaker maker;
  maker.Guard(abi::PT_GUARD_BEGIN, kTid, 5, 1, 0x900, 0, 0, "c10d::allreduce_");
  Work(maker, 10, 0x500);
  maker.GuardEnd(kTid, 20, 1, 0x900);
  Work(maker, 30, 0x500);  // at the same address, and outside of operators
  const auto timeline = Build(maker);
  ASSERT_EQ(timeline->span_count(), 3u);
  EXPECT_EQ(timeline->began_in(SpanId{1}), SpanId{0});
  EXPECT_EQ(timeline->span(SpanId{1}).parent, kNoSpan);
  EXPECT_EQ(timeline->began_in(SpanId{2}), kNoSpan);
}

TEST(GroupCallsTest, AGroupThatTookThePlaceOfAnotherIsNotNamed) {
  // Two readings that differ.
  RecordMaker maker;
  maker.GroupCall(kTid, 9, kGroup, 41);
  Work(maker, 10, 0x500);
  const auto timeline = Build(maker, WithGroups({{Group("3")}, {Group("4")}}));
  EXPECT_THAT(Keywords(*timeline, 0), ElementsAre("Seq=41", "Is P2P=false"));
  // A count that begins again.
  RecordMaker again;
  for (const auto& [ns, number] : {std::pair(9, 41), {19, 1}, {29, 2}}) {
    again.GroupCall(kTid, ns, kGroup, static_cast<uint64_t>(number));
    Work(again, ns + 1, static_cast<uint64_t>(0x100 * ns));
  }
  const auto other = Build(again, WithGroups({{Group("3")}}));
  EXPECT_EQ(Keywords(*other, 0).size(), 6u);
  EXPECT_THAT(Keywords(*other, 1), ElementsAre("Seq=1", "Is P2P=false"));
  EXPECT_THAT(Keywords(*other, 2), ElementsAre("Seq=2", "Is P2P=false"));
}

}  // namespace
}  // namespace proftrace
