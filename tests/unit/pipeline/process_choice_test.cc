#include <gmock/gmock.h>

#include "tests/unit/pipeline/timeline.h"
#include "userspace/base/exit_status.h"

namespace proftrace {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr uint32_t kSecondPid = 200;

// Two processes, of ranks 0 and 1, and a worker of the second.
CaptureMetadata TwoRanks() {
  CaptureMetadata metadata = TestMetadata();
  metadata.processes[0].target.rank = 0;
  for (const uint32_t pid : {kSecondPid, kSecondPid + 1}) {
    ProcessEntry process = metadata.processes[0];
    process.target.pid = Pid{pid};
    process.target.rank = 1;
    metadata.processes.push_back(process);
    GpuAgent agent;
    agent.pid = Pid{pid};
    metadata.info.gpu_agents.push_back(agent);
  }
  return metadata;
}

absl::StatusOr<std::unique_ptr<Timeline>> Choose(const ProcessChoice& choice,
                                                 const CaptureMetadata& metadata = TwoRanks()) {
  RecordMaker first;
  RecordMaker second(kSecondPid);
  RecordMaker worker(kSecondPid + 1);
  first.Begin(7, 1000, 1, 1);
  first.End(7, 1100, 1, 1);
  second.Begin(8, 1010, 2, 1);
  second.End(8, 1090, 2, 1);
  worker.Begin(9, 1020, 3, 1);
  worker.End(9, 1080, 3, 1);
  VectorSource source;
  source.Add(first.bytes());
  source.Add(second.bytes());
  source.Add(worker.bytes());
  return BuildTimeline(metadata, &source, "", nullptr, choice);
}

std::vector<std::string> PathsOf(const ProcessChoice& choice) {
  const auto timeline = Choose(choice);
  EXPECT_TRUE(timeline.ok()) << timeline.status();
  EXPECT_TRUE((*timeline)->ledger().ConservationHolds());
  return Paths(**timeline);
}

ProcessChoice OfPid(uint32_t pid) { return {pid, std::nullopt}; }
ProcessChoice OfRank(int rank) { return {std::nullopt, rank}; }

TEST(ProcessChoiceTest, OthersLeaveNoRow) {
  EXPECT_THAT(PathsOf({}), ElementsAre("aten::a", "aten::b", "aten::c"));
  EXPECT_THAT(PathsOf(OfPid(RecordMaker::kPid)), ElementsAre("aten::a"));
  EXPECT_THAT(PathsOf(OfPid(kSecondPid)), ElementsAre("aten::b"));
}

TEST(ProcessChoiceTest, ARankHasItsWorkers) {
  EXPECT_THAT(PathsOf(OfRank(1)), ElementsAre("aten::b", "aten::c"));
}

TEST(ProcessChoiceTest, OthersAreNoTargetsAndHaveNoAgents) {
  const auto timeline = Choose(OfPid(kSecondPid));
  ASSERT_TRUE(timeline.ok());
  const RecordingInfo& info = (*timeline)->info();
  ASSERT_EQ(info.targets.size(), 1u);
  EXPECT_EQ(info.targets[0].pid, Pid{kSecondPid});
  ASSERT_EQ(info.gpu_agents.size(), 1u);
  EXPECT_EQ(info.gpu_agents[0].pid, Pid{kSecondPid});
}

TEST(ProcessChoiceTest, WhatWasNotRecordedIsAnErrorThatSaysWhatWas) {
  const auto of_pid = Choose(OfPid(5));
  EXPECT_EQ(ExitCodeOf(of_pid.status()), ExitCode::kUsage);
  EXPECT_THAT(std::string(of_pid.status().message()),
              HasSubstr("PID 100 (rank 0), 200 (rank 1), 201 (rank 1)"));
  const auto of_rank = Choose(OfRank(2));
  EXPECT_EQ(ExitCodeOf(of_rank.status()), ExitCode::kUsage);
  EXPECT_THAT(std::string(of_rank.status().message()), HasSubstr("ranks 0, 1"));
  EXPECT_THAT(std::string(Choose(OfRank(2), TestMetadata()).status().message()),
              HasSubstr("no rank is known"));
}

// A code object has one number for all processes, and is told of by the first that runs it.
TEST(ProcessChoiceTest, WhatAnotherProcessToldForAllStays) {
  RecordMaker first;
  first.PythonCode(7, 900, 1, 10, "/job/train.py", "step");
  RecordMaker second(kSecondPid);
  second.PythonStack(8, 1000, 0, 1, {RecordMaker::PythonFrameWord(1, 0, false)});
  second.Begin(8, 1010, 2, 1);
  second.End(8, 1090, 2, 1);
  VectorSource source;
  source.Add(first.bytes());
  source.Add(second.bytes());
  CaptureMetadata metadata = TwoRanks();
  for (ProcessEntry& process : metadata.processes) process.target.stacks_recorded = true;
  const auto timeline = BuildTimeline(metadata, &source, "", nullptr, OfPid(kSecondPid));
  ASSERT_TRUE(timeline.ok()) << timeline.status();
  const StackId stack = (*timeline)->stack_of(SpanId{0});
  ASSERT_NE(stack, kNoStack);
  const PythonFrame& frame = (*timeline)->python_frame(stack);
  EXPECT_EQ((*timeline)->python_codes()[frame.code].name, "step");
}

}  // namespace
}  // namespace proftrace
