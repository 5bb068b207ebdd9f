// I/O by file, system calls by name, and who waited for whom.
#include <gtest/gtest.h>
#include <linux/io_uring.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/system_events.h"
#include "tests/support/timeline_maker.h"
#include "userspace/aggregate/aggregates.h"
#include "userspace/aggregate/call_times.h"
#include "userspace/aggregate/file_io.h"
#include "userspace/aggregate/io_roles.h"
#include "userspace/aggregate/stack_weights.h"
#include "userspace/aggregate/wait_sums.h"

namespace proftrace {
namespace {

class SystemSumsTest : public testing::Test {
 protected:
  uint32_t AddIo(const char* name, SystemFileId file, int64_t start_ns, int64_t end_ns,
                 int64_t result, const std::vector<uint64_t>& arguments = {}) {
    SystemEvent event = MakeCall(thread_, name, start_ns, end_ns, result, arguments);
    event.file = file;
    return maker_.AddSystemEvent(event);
  }

  TimelineMaker maker_;
  ThreadIndex thread_ = maker_.AddThread(10, 11, "main");
};

TEST_F(SystemSumsTest, BytesOfAFileAreThoseThatTheKernelReturned) {
  const SystemFileId data = maker_.AddSystemFile(SystemFileKind::kRegular, "/data");
  // The same file under another number, say of another process.
  const SystemFileId again = maker_.AddSystemFile(SystemFileKind::kRegular, "/data");
  AddIo("openat", data, 0, 10, 3);
  AddIo("read", data, 20, 50, 100, {3, 0, 4096});
  AddIo("pread64", again, 60, 160, 28, {3, 0, 4096, 0});
  AddIo("write", data, 200, 205, 7, {3, 0, 7});
  AddIo("read", data, 210, 215, -EAGAIN, {3, 0, 4096});
  AddIo("fstat", data, 220, 221, 0);
  SystemEvent open = MakeCall(thread_, "openat", 230, 240, -ENOENT);
  open.call.paths = maker_.AddSystemPaths({.first = "/none", .second = "", .address = ""});
  maker_.AddSystemEvent(open);
  maker_.AddSystemEvent(MakeCall(thread_, "getpid", 250, 260, 10));
  const std::vector<FileIo> files = SumFileIo(*maker_.Finish());
  ASSERT_EQ(files.size(), 2u);
  EXPECT_EQ(files[0].name, "/data");
  EXPECT_EQ(files[0].kind, SystemFileKind::kRegular);
  EXPECT_EQ(files[0].opens, 1u);
  EXPECT_EQ(files[0].reads, 3u);
  EXPECT_EQ(files[0].writes, 1u);
  EXPECT_EQ(files[0].calls, 6u);
  EXPECT_EQ(files[0].errors, 1u);
  EXPECT_EQ(files[0].bytes_read, 128);
  EXPECT_EQ(files[0].bytes_written, 7);
  EXPECT_EQ(files[0].time_ns, 10 + 30 + 100 + 5 + 5 + 1);
  EXPECT_EQ(files[0].longest_ns, 100);
  EXPECT_EQ(files[1].name, "/none");
  EXPECT_EQ(files[1].opens, 0u);
  EXPECT_EQ(files[1].errors, 1u);
}

TEST_F(SystemSumsTest, BytesOfSeveralMessagesAreToldBesideTheirNumber) {
  const SystemFileId socket = maker_.AddSystemFile(SystemFileKind::kSocket, "socket:[1]");
  SystemEvent send = MakeCall(thread_, "sendmmsg", 0, 10, 2, {3, 0x1000, 2, 0});
  send.file = socket;
  maker_.AddSystemEvent(send);  // they could not be read
  SystemPaths told;
  told.fields = {300};
  send.call.paths = maker_.AddSystemPaths(told);
  maker_.AddSystemEvent(send);
  send.call.result = -EAGAIN;
  maker_.AddSystemEvent(send);
  const std::vector<FileIo> files = SumFileIo(*maker_.Finish());
  ASSERT_EQ(files.size(), 1u);
  EXPECT_EQ(files[0].writes, 3u);
  EXPECT_EQ(files[0].bytes_written, 300);
}

TEST_F(SystemSumsTest, WhatIsMovedCountsForBothFiles) {
  const SystemFileId in = maker_.AddSystemFile(SystemFileKind::kRegular, "/in");
  AddIo("sendfile", in, 0, 10, 500, {7, 3, 0, 500});
  const std::vector<FileIo> files = SumFileIo(*maker_.Finish());
  ASSERT_EQ(files.size(), 2u);
  EXPECT_EQ(files[0].name, "/in");
  EXPECT_EQ(files[0].bytes_read, 500);
  EXPECT_EQ(files[0].bytes_written, 0);
  EXPECT_EQ(files[1].name, "fd 7 of PID 10");
  EXPECT_EQ(files[1].bytes_written, 500);
  EXPECT_EQ(files[1].time_ns, 0);
}

TEST_F(SystemSumsTest, AFileThatBytesAreMovedToHasItsName) {
  const SystemFileId in = maker_.AddSystemFile(SystemFileKind::kRegular, "/in");
  maker_.AddSystemFile(SystemFileKind::kRegular, "/out");
  SystemEvent move = MakeCall(thread_, "sendfile", 0, 10, 500);
  move.file = in;
  move.call.paths = maker_.AddSystemPaths({.first = "", .second = "/out", .address = ""});
  maker_.AddSystemEvent(move);
  const std::vector<FileIo> files = SumFileIo(*maker_.Finish());
  ASSERT_EQ(files.size(), 2u);
  EXPECT_EQ(files[1].name, "/out");
  EXPECT_EQ(files[1].bytes_written, 500);
}

TEST_F(SystemSumsTest, AFileHasItsWaitsItsFaultsAndItsRequests) {
  const SystemFileId file = maker_.AddSystemFile(SystemFileKind::kRegular, "/map");
  const uint32_t call = AddIo("read", file, 0, 100, 1, {3, 0, 1});
  SystemEvent fault = MakeFault(thread_, true, 10, 60);
  fault.file = file;
  fault.around = call;
  const uint32_t in_call = maker_.AddSystemEvent(fault);
  SystemEvent wait = MakeOffCpu(thread_, WaitReason::kFault, 20, 50);
  wait.around = in_call;
  maker_.AddSystemEvent(wait);
  SystemEvent minor = MakeFault(thread_, false, 110, 120);
  minor.file = file;
  maker_.AddSystemEvent(minor);
  SystemEvent request = MakeRequest(thread_, IORING_OP_WRITEV, 130, 430, 64);
  request.file = file;
  maker_.AddSystemEvent(request);
  const std::vector<FileIo> files = SumFileIo(*maker_.Finish());
  ASSERT_EQ(files.size(), 1u);
  EXPECT_EQ(files[0].page_ins, 1u);
  EXPECT_EQ(files[0].page_in_ns, 50);
  EXPECT_EQ(files[0].off_cpu_ns, 30);
  EXPECT_EQ(files[0].writes, 1u);
  EXPECT_EQ(files[0].bytes_written, 64);
  EXPECT_EQ(files[0].time_ns, 100 + 300);
}

TEST_F(SystemSumsTest, CallsHaveTheirPercentilesErrorsAndWaits) {
  for (int i = 1; i <= 200; ++i) AddIo("read", kNoSystemFile, i * 1000, i * 1000 + i, 2);
  SystemEvent failed = MakeCall(thread_, "futex", 300'000, 300'050, -ETIMEDOUT);
  const uint32_t call = maker_.AddSystemEvent(failed);
  SystemEvent wait = MakeOffCpu(thread_, WaitReason::kLock, 300'005, 300'045);
  wait.around = call;
  maker_.AddSystemEvent(wait);
  SystemEvent open = MakeCall(thread_, "futex", 400'000, 400'300, 0);
  open.end = SpanEnd::kTruncated;
  maker_.AddSystemEvent(open);
  maker_.AddSystemEvent(MakeRequest(thread_, IORING_OP_READ, 500'000, 500'010, 9));
  const std::vector<CallTimes> calls = SumCallTimes(*maker_.Finish());
  ASSERT_EQ(calls.size(), 3u);
  EXPECT_EQ(calls[0].name, "read");
  EXPECT_EQ(calls[0].calls, 200u);
  EXPECT_EQ(calls[0].total_ns, 200 * 201 / 2);
  EXPECT_EQ(calls[0].mean_ns(), 100);
  EXPECT_EQ(calls[0].p99_ns, 198);
  EXPECT_EQ(calls[0].max_ns, 200);
  EXPECT_EQ(calls[0].bytes, 400);
  EXPECT_EQ(calls[1].name, "futex");
  EXPECT_EQ(calls[1].calls, 2u);
  EXPECT_EQ(calls[1].errors, 1u);
  EXPECT_EQ(calls[1].unfinished, 1u);
  EXPECT_EQ(calls[1].off_cpu_ns, 40);
  EXPECT_EQ(calls[1].p99_ns, 300);
  EXPECT_EQ(calls[2].name, "io_uring READ");
  EXPECT_EQ(calls[2].bytes, 9);
}

class WaitSumsTest : public testing::Test {
 protected:
  // A wait that the other thread ends at `woken_ns`.
  SystemEvent Wait(SpanId span, int64_t start_ns, int64_t woken_ns, int64_t end_ns) {
    SystemEvent event =
        MakeOffCpu(thread_, WaitReason::kLock, start_ns, end_ns, end_ns - woken_ns, "futex");
    event.span = span;
    event.off_cpu.waker_pid = Pid{10};
    event.off_cpu.waker_tid = Tid{12};
    return event;
  }

  TimelineMaker maker_;
  ThreadIndex thread_ = maker_.AddThread(10, 11, "main");
  ThreadIndex other_ = maker_.AddThread(10, 12, "other");
  LabelId wait_ = maker_.AddAnnotation("wait");
  LabelId hold_ = maker_.AddAnnotation("hold");
  LabelId release_ = maker_.AddAnnotation("release");
};

TEST_F(WaitSumsTest, AWaitNamesWhatItsWakerWasInWhenItWokeIt) {
  const SpanId waiting = maker_.Begin(thread_, wait_, 0);
  maker_.Begin(other_, hold_, 10);
  maker_.Add(other_, release_, 50, 60);
  maker_.AddSystemEvent(Wait(waiting, 20, 55, 70));  // inside of release
  maker_.AddSystemEvent(Wait(waiting, 80, 90, 90));  // behind it
  maker_.AddSystemEvent(Wait(waiting, 92, 94, 95));  // behind it
  maker_.End(other_, 95);
  maker_.AddSystemEvent(Wait(waiting, 96, 99, 100));  // outside of all
  maker_.End(thread_, 100);
  const std::unique_ptr<Timeline> timeline = maker_.Finish();
  const std::vector<WaitSum> waits = SumWaits(*timeline);
  ASSERT_EQ(waits.size(), 3u);
  for (const WaitSum& wait : waits) {
    EXPECT_EQ(PathText(*timeline, wait.place.path), "wait");
    EXPECT_EQ(wait.reason, WaitReason::kLock);
    EXPECT_EQ(SystemCallName(wait.place.abi, static_cast<uint64_t>(wait.place.call)), "futex");
    EXPECT_EQ(Raw(wait.waker_tid), 12u);
    EXPECT_TRUE(wait.waker_is_known);
  }
  EXPECT_EQ(PathText(*timeline, waits[0].waker.path), "hold/release");
  EXPECT_EQ(waits[0].blocked_ns, 35);
  EXPECT_EQ(PathText(*timeline, waits[1].waker.path), "hold");
  EXPECT_EQ(waits[1].count, 2u);
  EXPECT_EQ(waits[1].blocked_ns, 12);
  EXPECT_EQ(waits[1].longest_ns, 10);
  EXPECT_EQ(PathText(*timeline, waits[2].waker.path), "");
}

TEST_F(WaitSumsTest, TheWakerMayHaveGoneOnBeforeTheThreadCouldRun) {
  maker_.Begin(other_, hold_, 10);
  const SpanId release = maker_.Add(other_, release_, 50, 60);
  SystemEvent wake = MakeCall(other_, "futex", 54, 56, 1);
  wake.span = release;
  SystemEvent wait = Wait(kNoSpan, 20, 65, 70);
  wait.off_cpu.wake_up_ns = 10;
  maker_.AddSystemEvent(wait);
  maker_.AddSystemEvent(wake);
  // What cannot be: its wake-up took longer than the wait.
  SystemEvent whole = Wait(kNoSpan, 72, 80, 85);
  whole.off_cpu.wake_up_ns = 1000;
  maker_.AddSystemEvent(whole);
  maker_.End(other_, 95);
  const std::unique_ptr<Timeline> timeline = maker_.Finish();
  const std::vector<WaitSum> waits = SumWaits(*timeline);
  ASSERT_EQ(waits.size(), 2u);
  EXPECT_EQ(PathText(*timeline, waits[0].waker.path), "hold/release");
  EXPECT_EQ(waits[0].waker.call, SystemCallNumber("futex"));
  EXPECT_EQ(waits[0].blocked_ns, 45);  // until it could run
  EXPECT_EQ(PathText(*timeline, waits[1].waker.path), "hold");
  EXPECT_EQ(waits[1].blocked_ns, 8);
}

TEST_F(WaitSumsTest, AWakersCallIsToldWhereItLiesInItsInnermostSpan) {
  const SpanId hold = maker_.Begin(other_, hold_, 10);
  SystemEvent wake = MakeCall(other_, "futex", 20, 30, 1);
  wake.span = hold;
  const SystemEvent first = Wait(kNoSpan, 5, 25, 26);
  const SystemEvent second = Wait(kNoSpan, 27, 45, 46);  // in what the call called back
  maker_.AddSystemEvent(first);
  maker_.AddSystemEvent(wake);
  maker_.AddSystemEvent(second);
  SystemEvent long_call = MakeCall(other_, "write", 40, 60, 1);
  long_call.span = hold;
  maker_.AddSystemEvent(long_call);
  maker_.Add(other_, release_, 42, 50);
  maker_.End(other_, 70);
  const std::unique_ptr<Timeline> timeline = maker_.Finish();
  const std::vector<WaitSum> waits = SumWaits(*timeline);
  ASSERT_EQ(waits.size(), 2u);
  EXPECT_EQ(waits[0].blocked_ns, 20);
  EXPECT_EQ(waits[0].waker.call, SystemCallNumber("futex"));
  EXPECT_EQ(waits[1].blocked_ns, 18);
  EXPECT_EQ(PathText(*timeline, waits[1].waker.path), "hold/release");
  EXPECT_EQ(waits[1].waker.call, -1);
}

TEST_F(WaitSumsTest, WhoCouldGoOnWaitedForNobodyAndClocksWakeUpToo) {
  maker_.AddSystemEvent(MakeOffCpu(thread_, WaitReason::kPreempted, 0, 10, 10));
  maker_.AddSystemEvent(MakeOffCpu(other_, WaitReason::kNew, 0, 10, 10));
  maker_.AddSystemEvent(MakeOffCpu(thread_, WaitReason::kSleep, 20, 40, 5));
  SystemEvent unknown = MakeOffCpu(thread_, WaitReason::kIo, 50, 60, 0);
  unknown.off_cpu.waker_pid = Pid{99};
  unknown.off_cpu.waker_tid = Tid{99};
  unknown.end = SpanEnd::kTruncated;
  maker_.AddSystemEvent(unknown);
  const std::vector<WaitSum> waits = SumWaits(*maker_.Finish());
  ASSERT_EQ(waits.size(), 2u);
  EXPECT_EQ(waits[0].reason, WaitReason::kSleep);
  EXPECT_EQ(waits[0].blocked_ns, 15);
  EXPECT_EQ(Raw(waits[0].waker_tid), 0u);
  EXPECT_EQ(Raw(waits[1].waker_tid), 99u);
  EXPECT_FALSE(waits[1].waker_is_known);
  EXPECT_EQ(waits[1].unfinished, 1u);
}

TEST_F(WaitSumsTest, TimeOffTheCpuStandsBelowItsSpanAndItsCall) {
  const SpanId waiting = maker_.Begin(thread_, wait_, 0);
  maker_.AddSystemEvent(Wait(waiting, 20, 55, 70));
  SystemEvent preempted = MakeOffCpu(thread_, WaitReason::kPreempted, 75, 79, 4, "futex");
  preempted.span = waiting;
  maker_.AddSystemEvent(preempted);
  maker_.AddSystemEvent(MakeOffCpu(other_, WaitReason::kSignal, 80, 100, 1));
  maker_.End(thread_, 100);
  const std::unique_ptr<Timeline> timeline = maker_.Finish();
  FoldedStacks stacks;
  SpanCounts counts;
  BuildFoldedStacks(*timeline, &stacks, &counts);
  std::map<std::string, std::pair<int64_t, int64_t>> sums;
  const StackValues* off = stacks.Find(StackWeight::kOffCpu);
  const StackValues* queue = stacks.Find(StackWeight::kRunQueue);
  ASSERT_TRUE(off != nullptr && queue != nullptr);
  for (uint32_t node = 1; node < stacks.nodes.size(); ++node) {
    if (off->self[node] == 0) continue;
    std::string text;
    for (const uint32_t part : PathOf(stacks, node)) {
      text = stacks.frames[stacks.nodes[part].frame].name + (text.empty() ? "" : ";" + text);
    }
    sums[text] = {off->self[node], queue->self[node]};
  }
  EXPECT_EQ(sums, (std::map<std::string, std::pair<int64_t, int64_t>>{
                      {"wait;futex_[k]", {50, 15}},
                      {"wait;[preempted]", {4, 4}},
                      {std::string(kNoSpanFrame) + ";[signal]", {20, 1}}}));
  EXPECT_EQ(off->total, 74);
  // They are no rows, and take no time of the CPU.
  EXPECT_EQ(stacks.Find(StackWeight::kCount)->total, 1);
  EXPECT_EQ(stacks.Find(StackWeight::kSelfCpuTime)->total, 100);
}

TEST(OffCpuWeightTest, IsMissingWhereItWasNotRecorded) {
  TimelineMaker maker;
  FoldedStacks stacks;
  SpanCounts counts;
  BuildFoldedStacks(*maker.Finish(), &stacks, &counts);
  const absl::Status status = RecordedValues(stacks, StackWeight::kOffCpu).status();
  EXPECT_NE(status.message().find("--activities sched"), std::string::npos);
}

}  // namespace
}  // namespace proftrace
