// Time off the CPU: what a thread waited for, by what is recorded of it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "bpf/abi/system_records.h"
#include "tests/support/memory_capture.h"
#include "tests/support/system_record_maker.h"
#include "tests/unit/pipeline/timeline.h"

namespace proftrace {
namespace {

using testing::ElementsAre;

constexpr uint16_t kPollCall = 7;  // x86-64
constexpr uint16_t kMsgrcvCall = 70;
constexpr uint16_t kFutexCall = 202;

CaptureMetadata WaitsMetadata() {
  CaptureMetadata metadata = TestMetadata();
  metadata.info.system = SystemActivities::FromText("cpu,syscalls,sched,faults");
  metadata.info.window.start_ns = 0;
  metadata.info.window.duration_ns = 1'000'000;
  metadata.has_end = true;
  return metadata;
}

std::vector<WaitReason> WaitReasons(const Timeline& timeline) {
  std::vector<WaitReason> reasons;
  for (uint32_t i = 0; i < timeline.system_event_count(); ++i) {
    reasons.push_back(timeline.system_event(i).off_cpu.reason);
  }
  return reasons;
}

TEST(SystemTest, AStoppedThreadWaitsForASignalWhateverItWasIn) {
  SystemRecordMaker job;
  abi::pt_off_cpu_record record{};
  record.head = job.Head(abi::PT_OFF_CPU, kTid, 1000, 0, 0);
  record.duration_ns = 500;
  record.call = kFutexCall;
  record.off_flags = abi::PT_OFF_CPU_FAULT;
  for (const uint32_t state : {1, 4, 8}) {
    record.state = state;
    job.AddBytes(&record, sizeof(record));
    record.head.time_ns += 1000;
  }
  const auto timeline = Build(job, WaitsMetadata());
  EXPECT_THAT(WaitReasons(*timeline),
              ElementsAre(WaitReason::kFault, WaitReason::kStopped, WaitReason::kStopped));
}

TEST(SystemTest, APollOfNoFileIsASleep) {
  SystemRecordMaker job;
  abi::pt_off_cpu_record record{};
  record.head = job.Head(abi::PT_OFF_CPU, kTid, 1000, 0, 0);
  record.duration_ns = 500;
  record.state = 1;
  for (const auto& [call, flags] : {std::pair{kPollCall, 0},
                                    {kPollCall, abi::PT_OFF_CPU_NO_FILE},
                                    {kFutexCall, abi::PT_OFF_CPU_NO_FILE}}) {
    record.call = call;
    record.off_flags = static_cast<abi::pt_u8>(flags);
    job.AddBytes(&record, sizeof(record));
    record.head.time_ns += 1000;
  }
  const auto timeline = Build(job, WaitsMetadata());
  EXPECT_THAT(WaitReasons(*timeline),
              ElementsAre(WaitReason::kPoll, WaitReason::kSleep, WaitReason::kLock));
}

TEST(SystemTest, AWaitForWorkIsNoLock) {
  SystemRecordMaker job;
  abi::pt_off_cpu_record record{};
  record.head = job.Head(abi::PT_OFF_CPU, kTid, 1000, 0, 0);
  record.duration_ns = 500;
  record.state = 1;
  for (const auto& [call, flags] : {std::pair<int, int>{kFutexCall, 0},
                                    {kFutexCall, abi::PT_OFF_CPU_LOCK},
                                    {kFutexCall, abi::PT_OFF_CPU_EVENT},
                                    {kPollCall, abi::PT_OFF_CPU_EVENT},
                                    {kMsgrcvCall, 0}}) {
    record.call = call;
    record.off_flags = static_cast<abi::pt_u8>(flags);
    job.AddBytes(&record, sizeof(record));
    record.head.time_ns += 1000;
  }
  const auto timeline = Build(job, WaitsMetadata());
  // The first one is of a capture that does not tell.
  EXPECT_THAT(WaitReasons(*timeline),
              ElementsAre(WaitReason::kLock, WaitReason::kLock, WaitReason::kEvent,
                          WaitReason::kPoll, WaitReason::kEvent));
}

TEST(SystemTest, TheInterpretersLockIsToldFromOthers) {
  SystemRecordMaker job;
  abi::pt_off_cpu_record record{};
  record.head = job.Head(abi::PT_OFF_CPU, kTid, 1000, 0, 0);
  record.duration_ns = 500;
  record.call = kFutexCall;
  record.off_flags = abi::PT_OFF_CPU_LOCK;
  struct Case {
    uint32_t state;
    int lock;
  };
  // The last ones: it was put aside, and a number that is none.
  for (const auto& [state, lock] : {Case{1, abi::PT_AWAITED_ANY}, Case{1, abi::PT_AWAITED_GIL},
                                    Case{0, abi::PT_AWAITED_GIL}, Case{1, 200}}) {
    record.state = state;
    record.lock = static_cast<abi::pt_u8>(lock);
    job.AddBytes(&record, sizeof(record));
    record.head.time_ns += 1000;
  }
  const auto timeline = Build(job, WaitsMetadata());
  EXPECT_THAT(WaitReasons(*timeline), ElementsAre(WaitReason::kLock, WaitReason::kGil,
                                                  WaitReason::kPreempted, WaitReason::kLock));
}

}  // namespace
}  // namespace proftrace
