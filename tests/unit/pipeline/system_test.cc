// System activity: records in, what the Timeline says of each event and of the spans around it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "bpf/abi/system_records.h"
#include "tests/support/memory_capture.h"
#include "tests/support/system_record_maker.h"
#include "tests/unit/pipeline/timeline.h"
#include "userspace/aggregate/data_waits.h"
#include "userspace/aggregate/time_breakdown.h"
#include "userspace/decode/system_decoder.h"
#include "userspace/wire/capture_part.h"
#include "userspace/wire/flight_keeper.h"
#include "userspace/wire/told_once.h"

namespace proftrace {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr uint16_t kRead = 0;  // x86-64
constexpr uint16_t kPoll = 7;
constexpr uint16_t kOpenat = 257;
constexpr uint16_t kFutex = 202;
constexpr uint16_t kRecvmmsg = 299;
constexpr uint16_t kSymlink = 88;
constexpr uint16_t kOpenat2 = 437;

CaptureMetadata SystemMetadata(int64_t start_ns = 0, int64_t end_ns = 1'000'000) {
  CaptureMetadata metadata = TestMetadata();
  metadata.info.system = SystemActivities::FromText("cpu,syscalls,sched,faults");
  metadata.info.window.start_ns = start_ns;
  metadata.info.window.duration_ns = end_ns - start_ns;
  metadata.has_end = true;
  return metadata;
}

SpanSystem SystemOf(const Timeline& timeline, uint32_t span) {
  return timeline.columns().system.at(SpanId{span});
}

std::string Names(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text.append(name).push_back('\0');
  return text;
}

TEST(SystemTest, EventsLieInSpansAndInEachOther) {
  SystemRecordMaker job;
  job.Begin(kTid, 1000, 1, 1);
  job.Begin(kTid, 2000, 2, 2);
  // Each comes when it is over: the innermost first.
  job.OffCpu(kTid, 3100, 3500, 100, kRead);
  job.Fault(kTid, 3600, 3700);
  job.SystemCall(kTid, 3000, 4000, kRead, 77);
  job.End(kTid, 5000, 2, 2);
  job.SystemCall(kTid, 5500, 5600, kRead, -ENOENT);
  job.End(kTid, 6000, 1, 1);
  job.SystemCall(kTid, 7000, 7100);
  const auto timeline = Build(job, SystemMetadata());
  ASSERT_EQ(timeline->system_event_count(), 5u);
  const SystemEvent& call = timeline->system_event(0);
  EXPECT_EQ(call.kind, SystemKind::kCall);
  EXPECT_EQ(call.call.result, 77);
  EXPECT_EQ(call.span, SpanId{1});
  EXPECT_EQ(call.around, kNoSystemEvent);
  const SystemEvent& off = timeline->system_event(1);
  EXPECT_EQ(off.around, 0u);
  EXPECT_EQ(off.depth, 1);
  EXPECT_EQ(off.off_cpu.reason, WaitReason::kIo);
  EXPECT_EQ(timeline->system_event(2).kind, SystemKind::kFault);
  EXPECT_EQ(timeline->system_event(2).around, 0u);
  EXPECT_EQ(timeline->system_event(3).span, SpanId{0});
  EXPECT_EQ(timeline->system_event(3).call.result, -ENOENT);
  EXPECT_EQ(timeline->system_event(4).span, kNoSpan);

  EXPECT_EQ(SystemOf(*timeline, 0).off_cpu_ns, 400);
  EXPECT_EQ(SystemOf(*timeline, 0).self_off_cpu_ns, 0);
  EXPECT_EQ(SystemOf(*timeline, 0).calls, 2u);
  EXPECT_EQ(SystemOf(*timeline, 0).self_calls, 1u);
  EXPECT_EQ(SystemOf(*timeline, 1).self_off_cpu_ns, 400);
  EXPECT_EQ(SystemOf(*timeline, 1).run_queue_ns, 100);
  EXPECT_EQ(SystemOf(*timeline, 1).self_faults, 1u);
  // Times of spans are as without.
  EXPECT_EQ(timeline->span(SpanId{1}).self_ns, 3000);
}

TEST(SystemTest, WhatOverhangsIsClippedToTheSpan) {
  SystemRecordMaker job;
  job.Begin(kTid, 1000, 1, 1);
  job.Begin(kTid, 2000, 2, 2);
  job.OffCpu(kTid, 2900, 3200, 0);  // the record of the end had its time already
  job.End(kTid, 3000, 2, 2);
  job.End(kTid, 4000, 1, 1);
  const auto timeline = Build(job, SystemMetadata());
  EXPECT_EQ(SystemOf(*timeline, 1).off_cpu_ns, 100);
  EXPECT_EQ(SystemOf(*timeline, 0).off_cpu_ns, 300);
  EXPECT_EQ(SystemOf(*timeline, 0).self_off_cpu_ns, 200);
}

TEST(SystemTest, TheWindowCutsEvents) {
  SystemRecordMaker job;
  job.SystemCall(kTid, 100, 200);     // before
  job.SystemCall(kTid, 500, 1500);    // over the begin
  job.OffCpu(kTid, 1900, 2500, 550);  // over the end: 50 of its queue are in
  job.SystemCall(kTid, 2100, 2200);   // behind
  const auto timeline = Build(job, SystemMetadata(1000, 2000));
  ASSERT_EQ(timeline->system_event_count(), 2u);
  EXPECT_EQ(timeline->system_event(0).start_ns, 1000);
  EXPECT_EQ(timeline->system_event(0).duration_ns, 500);
  EXPECT_TRUE(timeline->system_event(0).open_at_begin);
  EXPECT_EQ(timeline->system_event(1).end_ns(), 2000);
  EXPECT_EQ(timeline->system_event(1).end, SpanEnd::kTruncated);
  EXPECT_EQ(timeline->system_event(1).off_cpu.run_queue_ns, 50);
  EXPECT_EQ(timeline->ledger().outside_window, 2u);
}

TEST(SystemTest, SpansThatMayHaveLostSomethingSayNothing) {
  SystemRecordMaker job;
  for (int64_t at = 1000; at <= 4000; at += 1000) {
    job.Begin(kTid, at, 1, 1);
    job.End(kTid, at + 500, 1, 1);
  }
  job.SystemCall(kTid, 1100, 1200);
  job.SystemCall(kTid, 3100, 3200, kRead, 0, /*lost=*/2);  // between 1200 and 3200
  const auto timeline = Build(job, SystemMetadata());
  std::vector<uint32_t> unknown;
  for (uint32_t i = 0; i < 4; ++i) unknown.push_back(SystemOf(*timeline, i).is_unknown);
  EXPECT_THAT(unknown, ElementsAre(1, 1, 1, 0));
}

TEST(SystemTest, ACallThatItsThreadDidNotComeBackFrom) {
  SystemRecordMaker job;
  job.SystemCall(kTid, 1000, 2000, kRead, -512);  // a handler ran, and it goes on
  job.SystemCall(kTid, 2100, 3000, kRead, -512);
  job.ThreadExit(kTid, 3100, false);
  job.SystemCall(kTid + 1, 1000, 2000, kRead, -512);  // this one lives
  const auto timeline = Build(job, SystemMetadata());
  ASSERT_EQ(timeline->system_event_count(), 3u);
  int truncated = 0;
  for (uint32_t i = 0; i < 3; ++i) {
    const SystemEvent& event = timeline->system_event(i);
    truncated += event.end == SpanEnd::kTruncated;
    if (event.end == SpanEnd::kTruncated) {
      EXPECT_EQ(event.start_ns, 2100);
    }
  }
  EXPECT_EQ(truncated, 1);
}

TEST(SystemTest, AClockIsNoWaker) {
  SystemRecordMaker job;
  job.OffCpu(kTid, 1100, 1900, 0, kPoll, 9);
  job.SystemCall(kTid, 1000, 2000, kPoll, 0);  // its time was over
  job.OffCpu(kTid, 3100, 3900, 0, kPoll, 9);
  job.SystemCall(kTid, 3000, 4000, kPoll, 1);
  job.OffCpu(kTid, 5100, 5900, 0, kFutex, 9);
  job.SystemCall(kTid, 5000, 6000, kFutex, -ETIMEDOUT);
  const auto timeline = Build(job, SystemMetadata());
  std::vector<uint32_t> wakers;
  for (uint32_t i = 0; i < timeline->system_event_count(); ++i) {
    const SystemEvent& event = timeline->system_event(i);
    if (event.kind == SystemKind::kOffCpu) wakers.push_back(Raw(event.off_cpu.waker_tid));
  }
  EXPECT_THAT(wakers, ElementsAre(0, 9, 0));
}

TEST(SystemTest, PathsStartAtTheirDirectories) {
  SystemRecordMaker job;
  job.File(1, abi::PT_SYSTEM_FILE_DIRECTORY, Names({"data", "home"}));
  job.File(2, abi::PT_SYSTEM_FILE_REGULAR, Names({"x", "data", "home"}));
  abi::pt_system_call_record record = job.CallRecord(kTid, 1000, 2000, kOpenat, -ENOENT);
  const auto add_path = [&](const std::string& path, uint32_t directory) {
    record.flags = abi::PT_SYSTEM_HAS_PATH;
    const uint32_t ids[2] = {directory, 0};
    std::memcpy(record.tail, ids, sizeof(ids));
    std::memcpy(record.tail + 8, path.c_str(), path.size() + 1);
    record.path_bytes = static_cast<uint16_t>(path.size() + 1);
    job.AddBytes(&record, PT_SYSTEM_CALL_HEAD_BYTES + (8 + path.size() + 8) / 8 * 8);
    record.head.time_ns += 1;
  };
  add_path("x/y", 1);
  add_path("./z", 1);
  add_path("/etc/passwd", 1);
  add_path("unknown", 99);
  const auto timeline = Build(job, SystemMetadata());
  std::vector<std::string> paths;
  for (uint32_t i = 0; i < timeline->system_event_count(); ++i) {
    paths.push_back(timeline->system_tables().Paths(timeline->system_event(i).call.paths)->first);
  }
  EXPECT_THAT(paths, ElementsAre("/home/data/x/y", "/home/data/z", "/etc/passwd", "unknown"));
}

TEST(SystemTest, TimesThatDifferTakeNoRoomAmongThePaths) {
  SystemRecordMaker job;
  abi::pt_system_call_record record = job.CallRecord(kTid, 1000, 2000, kFutex, -ETIMEDOUT);
  record.flags = abi::PT_SYSTEM_HAS_TIME;
  for (uint64_t deadline = 1; deadline <= 3; ++deadline) {
    const uint64_t time[] = {deadline, 7};
    std::memcpy(record.tail, time, sizeof(time));
    job.AddBytes(&record, PT_SYSTEM_CALL_HEAD_BYTES + sizeof(time));
    record.head.time_ns += 1;
  }
  const auto timeline = Build(job, SystemMetadata());
  ASSERT_EQ(timeline->system_event_count(), 3u);
  std::vector<int64_t> times;
  for (uint32_t i = 0; i < 3; ++i) times.push_back(timeline->system_event(i).call.time_ns);
  EXPECT_THAT(times, ElementsAre(1'000'000'007, 2'000'000'007, 3'000'000'007));
  EXPECT_EQ(timeline->system_tables().paths.size(), 1u);
}

TEST(SystemTest, PathsThatThereIsNoRoomForAreAGroup) {
  SystemRecordMaker job;
  Ledger ledger;
  SystemDecoder decoder("", &ledger, {.entries = 2, .groups = 1});
  for (const char* path : {"/a", "/b", "/1", "/a", "/2", "/c", "/d"}) {
    abi::pt_system_call_record record = job.CallRecord(kTid, 1000, 2000, kOpenat, -ENOENT);
    record.flags = abi::PT_SYSTEM_HAS_PATH;
    record.path_bytes = 3;
    std::memcpy(record.tail + 8, path, record.path_bytes);
    EXPECT_TRUE(decoder.OnRecord(
        std::as_bytes(std::span(&record, 1)).first(PT_SYSTEM_CALL_HEAD_BYTES + 16)));
  }
  const SystemDecoder::Tables tables = decoder.TakeTables();
  ASSERT_EQ(tables.paths.size(), 5u);
  std::vector<std::string> paths;
  for (uint32_t i = 0; i < 7; ++i) {
    paths.push_back(tables.paths[Raw(tables.events->at(i).call.paths)].first);
  }
  EXPECT_THAT(paths, ElementsAre("/a", "/b", "/*", "/a", "/*", kOtherNames, kOtherNames));
  EXPECT_EQ(tables.other_paths, 4u);
  EXPECT_EQ(ledger.inputs_unread, 0u);
}

TEST(SystemTest, FilesThatThereIsNoRoomForAreAGroup) {
  SystemRecordMaker job;
  Ledger ledger;
  SystemDecoder decoder("", &ledger, {.entries = 1, .groups = 1});
  const char* files[] = {"kept", "x1", "x2", "y", "z", "kept"};
  for (uint32_t id = 1; id <= std::size(files); ++id) {
    job.File(id == 6 ? 1 : id, abi::PT_SYSTEM_FILE_REGULAR, files[id - 1] + std::string(1, '\0'));
    abi::pt_system_call_record call = job.CallRecord(kTid, 1000 * id, 1000 * id + 1, 0, 1);
    call.head.sp = id == 6 ? 1 : id;
    job.AddBytes(&call, PT_SYSTEM_CALL_HEAD_BYTES);
  }
  ForEachRecord(job.bytes(), [&decoder](const abi::pt_record&, std::span<const std::byte> record) {
    EXPECT_TRUE(decoder.OnRecord(record));
  });
  const SystemDecoder::Tables tables = decoder.TakeTables();
  std::vector<std::string> names;
  for (uint32_t i = 0; i < std::size(files); ++i) {
    names.push_back(tables.files[Raw(tables.events->at(i).file)].name);
  }
  EXPECT_THAT(names, ElementsAre("/kept", "/x*", "/x*", kOtherNames, kOtherNames, "/kept"));
  EXPECT_EQ(tables.other_files, 4u);
}

TEST(SystemTest, StructuresLieBehindThePaths) {
  SystemRecordMaker job;
  abi::pt_system_call_record record = job.CallRecord(kTid, 1000, 2000, kOpenat2, 3);
  const char path[] = "/x";
  std::memcpy(record.tail + 8, path, sizeof(path));
  record.path_bytes = sizeof(path);
  const uint64_t how[] = {5, 6, 7};
  std::memcpy(record.tail + 16, how, sizeof(how));
  record.flags = abi::PT_SYSTEM_HAS_PATH | abi::PT_SYSTEM_HAS_STRUCTURE;
  job.AddBytes(&record, PT_SYSTEM_CALL_HEAD_BYTES + 40);
  record.head.time_ns += 1;
  job.AddBytes(&record, PT_SYSTEM_CALL_HEAD_BYTES + 32);  // a field is missing
  record.head.time_ns += 1;
  record.flags = abi::PT_SYSTEM_HAS_PATH;  // of an earlier version
  job.AddBytes(&record, PT_SYSTEM_CALL_HEAD_BYTES + 16);
  const auto timeline = Build(job, SystemMetadata());
  ASSERT_EQ(timeline->system_event_count(), 3u);
  const auto paths = [&](uint32_t event) {
    return timeline->system_tables().Paths(timeline->system_event(event).call.paths);
  };
  EXPECT_THAT(paths(0)->fields, ElementsAre(5, 6, 7));
  for (const uint32_t event : {0, 1, 2}) EXPECT_EQ(paths(event)->first, "/x");
  EXPECT_THAT(paths(1)->fields, IsEmpty());
  EXPECT_THAT(paths(2)->fields, IsEmpty());
}

// A relative text is not taken for a path.
TEST(SystemTest, TheTargetOfALinkStaysAsItIs) {
  SystemRecordMaker job;
  job.File(1, abi::PT_SYSTEM_FILE_DIRECTORY, Names({"home"}));
  abi::pt_system_call_record record = job.CallRecord(kTid, 1000, 2000, kSymlink, 0);
  const uint32_t directories[] = {1, 0};
  const std::string text = Names({"link", "target"});
  std::memcpy(record.tail, directories, sizeof(directories));
  std::memcpy(record.tail + 8, text.data(), text.size());
  record.path_bytes = static_cast<uint16_t>(text.size());
  record.flags = abi::PT_SYSTEM_HAS_PATH | abi::PT_SYSTEM_HAS_SECOND_PATH;
  job.AddBytes(&record, PT_SYSTEM_CALL_HEAD_BYTES + 24);
  const auto timeline = Build(job, SystemMetadata());
  ASSERT_EQ(timeline->system_event_count(), 1u);
  const SystemPaths* paths = timeline->system_tables().Paths(timeline->system_event(0).call.paths);
  EXPECT_EQ(paths->first, "/home/link");
  EXPECT_EQ(paths->second, "target");
}

TEST(SystemTest, TheFileThatBytesAreMovedToIsTheSecondPlace) {
  SystemRecordMaker job;
  job.File(1, abi::PT_SYSTEM_FILE_REGULAR, Names({"out", "home"}));
  abi::pt_system_call_record record = job.CallRecord(kTid, 1000, 2000, kRead, 500);
  const uint32_t files[] = {0, 1};
  std::memcpy(record.tail, files, sizeof(files));
  record.path_bytes = 2;
  record.flags = abi::PT_SYSTEM_HAS_SECOND_PATH;
  job.AddBytes(&record, PT_SYSTEM_CALL_HEAD_BYTES + 16);
  const auto timeline = Build(job, SystemMetadata());
  ASSERT_EQ(timeline->system_event_count(), 1u);
  const SystemPaths* paths = timeline->system_tables().Paths(timeline->system_event(0).call.paths);
  EXPECT_EQ(paths->first, "");
  EXPECT_EQ(paths->second, "/home/out");
}

TEST(SystemTest, ImpossibleRecordsAreMalformed) {
  SystemRecordMaker job;
  abi::pt_system_call_record call = job.CallRecord(kTid, 1000, 2000, kRead, 0);
  call.arguments = 6;  // there is no room for them
  job.AddBytes(&call, PT_SYSTEM_CALL_HEAD_BYTES);
  call.arguments = 0;
  call.abi = 9;
  job.AddBytes(&call, PT_SYSTEM_CALL_HEAD_BYTES);
  job.OffCpu(kTid, 1000, 1100, 200);  // longer in the queue than off the CPU
  abi::pt_fault_record fault{};
  fault.head = job.Head(abi::PT_FAULT, kTid, 1000, 0, 0);
  fault.area = 99;
  job.AddBytes(&fault, sizeof(fault));
  fault.area = 0;
  fault.duration_ns = ~uint64_t{0};
  job.AddBytes(&fault, sizeof(fault));
  job.File(0, abi::PT_SYSTEM_FILE_REGULAR, "");
  const auto timeline = Build(job, SystemMetadata());
  EXPECT_EQ(timeline->ledger().malformed, 6u);
  EXPECT_EQ(timeline->system_event_count(), 0u);
}

// A thread that waits since before the part has its wait in it.
TEST(SystemTest, APartOfARecordingHasWhatReachesIntoIt) {
  SystemRecordMaker job;
  job.File(1, abi::PT_SYSTEM_FILE_REGULAR, Names({"x"}));
  job.OffCpu(kTid, 1000, 1900);  // over before
  job.OffCpu(kTid, 1950, 2500);
  job.SystemCall(kTid, 2900, 3100);
  job.SystemCall(kTid, 3000, 3200);  // behind
  MemoryCapture file;
  const auto writer = file.Writer();
  ASSERT_TRUE(writer->AppendRecords(job.bytes()).ok());
  ASSERT_TRUE(writer->Finish().ok());
  MemoryCapture part_file;
  CapturePart part;
  part.start_ns = 2000;
  part.end_ns = 3000;
  const auto part_writer = part_file.Writer();
  CaptureWriter* const writers[] = {part_writer.get()};
  ASSERT_TRUE(CopyCaptureParts({&part, 1}, file.Reader().get(), writers).ok());
  const auto reader = part_file.Reader();
  CaptureMetadata metadata = SystemMetadata(part.start_ns, part.end_ns);
  const auto timeline = BuildTimeline(metadata, reader.get(), "");
  ASSERT_TRUE(timeline.ok()) << timeline.status();
  ASSERT_EQ((*timeline)->system_event_count(), 2u);
  EXPECT_EQ((*timeline)->system_event(0).start_ns, 2000);
  EXPECT_EQ((*timeline)->system_event(0).duration_ns, 500);
  EXPECT_EQ((*timeline)->system_event(1).end_ns(), 3000);
  EXPECT_EQ((*timeline)->system_tables().files.size(), 2u);
}

TEST(SystemTest, PartsAreCutOutByOneReading) {
  SystemRecordMaker job;
  job.File(1, abi::PT_SYSTEM_FILE_REGULAR, Names({"x"}));
  job.SystemCall(kTid, 1500, 1600);  // between none of them
  job.OffCpu(kTid, 1950, 5500);      // reaches into all three
  job.SystemCall(kTid, 2900, 3100);  // into the second, which begins where the first ends
  job.SystemCall(kTid, 4500, 4600);
  job.SystemCall(kTid, 5100, 5200);
  MemoryCapture file;
  const auto writer = file.Writer();
  ASSERT_TRUE(writer->AppendRecords(job.bytes()).ok());
  ASSERT_TRUE(writer->Finish().ok());
  MemoryCapture part_files[3];
  std::vector<std::unique_ptr<CaptureWriter>> owners;
  std::vector<CaptureWriter*> writers;
  std::vector<CapturePart> parts(3);
  const std::pair<int64_t, int64_t> times[] = {{2000, 3000}, {3000, 4000}, {5000, 6000}};
  for (size_t i = 0; i < 3; ++i) {
    std::tie(parts[i].start_ns, parts[i].end_ns) = times[i];
    owners.push_back(part_files[i].Writer());
    writers.push_back(owners.back().get());
  }
  ASSERT_TRUE(CopyCaptureParts(parts, file.Reader().get(), writers).ok());
  for (size_t i = 0; i < 3; ++i) {
    const auto reader = part_files[i].Reader();
    const auto timeline =
        BuildTimeline(SystemMetadata(parts[i].start_ns, parts[i].end_ns), reader.get(), "");
    ASSERT_TRUE(timeline.ok()) << timeline.status();
    EXPECT_EQ((*timeline)->system_event_count(), 2u) << i;
    EXPECT_EQ((*timeline)->system_event(0).start_ns, parts[i].start_ns);
    EXPECT_EQ((*timeline)->system_tables().files.size(), 2u);
  }
}

TEST(SystemTest, NamesOfFilesOutliveTheBlocksOfAFlightRecorder) {
  constexpr int64_t kSecond = 1'000'000'000;
  int64_t now_ns = kSecond;
  FlightKeeper keeper(FlightLimits{10 * kSecond, 64u << 20}, [&now_ns] { return now_ns; });
  SystemRecordMaker first;
  first.File(7, abi::PT_SYSTEM_FILE_REGULAR, Names({"x"}));
  first.ThreadExit(kTid, kSecond, true);  // another process goes on to use it
  ASSERT_TRUE(keeper.AppendRecords(first.bytes()).ok());
  now_ns = 100 * kSecond;
  SystemRecordMaker later;
  abi::pt_system_call_record call = later.CallRecord(kTid + 1, 99 * kSecond, now_ns, kRead, 1);
  call.head.sp = 7;
  later.AddBytes(&call, PT_SYSTEM_CALL_HEAD_BYTES);
  ASSERT_TRUE(keeper.AppendRecords(later.bytes()).ok());
  MemoryCapture file;
  ASSERT_TRUE(keeper.Take().WriteTo({}, file.Writer().get()).ok());
  const auto reader = file.Reader();
  const auto timeline = BuildTimeline(SystemMetadata(90 * kSecond, now_ns), reader.get(), "");
  ASSERT_TRUE(timeline.ok()) << timeline.status();
  ASSERT_EQ((*timeline)->system_event_count(), 1u);
  const SystemFile* used = (*timeline)->system_tables().File((*timeline)->system_event(0).file);
  ASSERT_NE(used, nullptr);
  EXPECT_EQ(used->name, "/x");
}

// Whatever the bytes say.
TEST(SystemTest, RandomRecords) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    SystemRecordMaker job;
    for (int i = 0; i < 50; ++i) {
      std::vector<uint8_t> bytes(24 + random() % 30 * 8);
      for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(random());
      const abi::pt_record head =
          job.Head(static_cast<uint8_t>(abi::PT_SYSTEM_CALL + random() % 5), random() % 3,
                   static_cast<int64_t>(random() % 100000), static_cast<uint16_t>(random()),
                   static_cast<uint32_t>(random() % 4));
      std::memcpy(bytes.data(), &head, sizeof(head));
      job.AddBytes(bytes.data(), bytes.size());
    }
    const auto timeline = Build(job, SystemMetadata());
    for (uint32_t i = 0; i < timeline->system_event_count(); ++i) {
      const SystemEvent& event = timeline->system_event(i);
      EXPECT_GE(event.duration_ns, 0);
      if (event.around != kNoSystemEvent) {
        EXPECT_LT(event.around, i);
      }
    }
  }
}

TEST(TimeBreakdownTest, EachMomentCountsOnce) {
  SystemRecordMaker job;
  constexpr uint32_t kMain = RecordMaker::kPid;
  job.Fault(kMain, 100, 200);
  job.OffCpu(kMain, 1100, 1500, 100, kRead);
  job.SystemCall(kMain, 1000, 2000, kRead, 5);
  job.OffCpu(kMain, 3100, 3800, 0, kFutex);
  job.SystemCall(kMain, 3000, 4000, kFutex, 0);
  job.OffCpu(kMain, 5000, 5300, 300, -1, 0, 0, /*state=*/0);
  abi::pt_off_cpu_record idle{};
  idle.head = job.Head(abi::PT_OFF_CPU, kMain, 6000, 0, 0);
  idle.duration_ns = 250;
  idle.state = 1;
  idle.call = kFutex;
  idle.off_flags = abi::PT_OFF_CPU_EVENT;
  job.AddBytes(&idle, sizeof(idle));
  const auto timeline = Build(job, SystemMetadata(0, 10'000));
  const std::optional<TimeBreakdown> time = BreakTimeDown(*timeline, FindSteps(*timeline));
  ASSERT_TRUE(time.has_value());
  const auto used = [&](TimeUse use) { return time->uses[static_cast<size_t>(use)]; };
  EXPECT_EQ(used(TimeUse::kFaults), 100);
  EXPECT_EQ(used(TimeUse::kIo), 900);  // the read, without its time in the queue
  EXPECT_EQ(used(TimeUse::kLock), 700);
  EXPECT_EQ(used(TimeUse::kEvent), 250);
  EXPECT_EQ(used(TimeUse::kRunQueue), 400);
  EXPECT_EQ(used(TimeUse::kOther), 300);  // on the CPU in futex()
  EXPECT_EQ(used(TimeUse::kCompute), 10'000 - 100 - 1000 - 1000 - 300 - 250);
  EXPECT_EQ(time->total_ns, 10'000);
}

TEST(DataWaitsTest, TheWorkerIsFollowedThroughTheThreadThatPins) {
  constexpr uint32_t kMain = RecordMaker::kPid;
  constexpr uint32_t kPinner = 101, kWorker = 200, kFeeder = 201;
  SystemRecordMaker job;
  job.AnnotationBegin(kMain, 1000, "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__");
  job.AnnotationEnd(kMain, 9000, 0);
  job.OffCpu(kMain, 1500, 8000, 0, kFutex, kPinner);
  job.OffCpu(kPinner, 500, 7000, 0, kPoll, kFeeder, kWorker);
  class Worker : public RecordMaker {
   public:
    Worker() : RecordMaker(kWorker) {}
    void Call(int64_t begin_ns, int64_t end_ns, uint16_t number) {
      abi::pt_system_call_record record{};
      record.head = Head(abi::PT_SYSTEM_CALL, kWorker, begin_ns, number, 0);
      record.duration_ns = static_cast<uint64_t>(end_ns - begin_ns);
      record.result = 4096;
      AddBytes(&record, PT_SYSTEM_CALL_HEAD_BYTES);
    }
  } worker;
  worker.Call(200, 300, kRead);
  worker.Call(2000, 6000, kRead);
  worker.Call(6100, 6200, kRead);
  worker.Call(6300, 6400, kRecvmmsg);  // its result is messages, not bytes
  job.bytes().insert(job.bytes().end(), worker.bytes().begin(), worker.bytes().end());
  const auto timeline = Build(job, SystemMetadata(0, 20'000));
  const std::vector<DataWait> waits = FindDataWaits(*timeline, FindSteps(*timeline));
  ASSERT_EQ(waits.size(), 1u);
  EXPECT_EQ(waits[0].blocked_ns, 6500);
  EXPECT_EQ(Raw(waits[0].worker), kWorker);
  EXPECT_EQ(Raw(waits[0].waker), kFeeder);
  EXPECT_EQ(waits[0].worker_io_ns, 4200);
  EXPECT_EQ(waits[0].worker_bytes, 8192);
  ASSERT_NE(waits[0].longest_call, kNoSystemEvent);
  EXPECT_EQ(timeline->system_event(waits[0].longest_call).start_ns, 2000);
  // All reads are one entry, of which the longest stands for them.
  ASSERT_EQ(waits[0].worker_calls.size(), 2u);
  EXPECT_EQ(timeline->system_event(waits[0].worker_calls[0].call).start_ns, 2000);
  EXPECT_EQ(waits[0].worker_calls[0].ns, 4100);
  EXPECT_EQ(waits[0].worker_calls[1].ns, 100);
}

TEST(SystemTest, TimesOffTheCpuThatOverlapAreNoMoreThanAll) {
  SystemRecordMaker job;
  job.Begin(kTid, 1000, 1, 1);
  job.OffCpu(kTid, 1100, 1900, 500);
  job.OffCpu(kTid, 1100, 1900, 500);
  job.OffCpu(kTid, 1150, 1850, 500);
  job.End(kTid, 2000, 1, 1);
  const auto timeline = Build(job, SystemMetadata());
  const SpanSystem system = SystemOf(*timeline, 0);
  EXPECT_EQ(system.off_cpu_ns, 800) << "each moment once";
  EXPECT_LE(system.self_off_cpu_ns, system.off_cpu_ns);
  EXPECT_LE(system.self_run_queue_ns, system.run_queue_ns);
}

// A stack of any height: what each event adds to all rows around it is summed up once.
TEST(SystemTest, RowsThatNeverEndHaveWhatLiesInThem) {
  constexpr int64_t kLeaks = 20'000;
  SystemRecordMaker job;
  int64_t ns = 1000;
  for (int64_t i = 0; i < kLeaks; ++i) {
    job.AnnotationBegin(kTid, ns, "batch");
    job.Begin(kTid, ns + 10, 1, 1);
    job.OffCpu(kTid, ns + 20, ns + 60, 10);
    job.SystemCall(kTid, ns + 15, ns + 65);
    job.End(kTid, ns + 70, 1, 1);
    ns += 100;
  }
  const auto timeline = Build(job, SystemMetadata());
  const SpanSystem outermost = SystemOf(*timeline, 0);
  EXPECT_EQ(outermost.off_cpu_ns, 40 * kLeaks);
  EXPECT_EQ(outermost.run_queue_ns, 10 * kLeaks);
  EXPECT_EQ(outermost.calls, kLeaks);
  EXPECT_EQ(outermost.self_calls, 0u);
  EXPECT_EQ(outermost.self_off_cpu_ns, 0);
  const SpanSystem last = SystemOf(*timeline, 2 * kLeaks - 1);
  EXPECT_EQ(last.self_off_cpu_ns, 40);
  EXPECT_EQ(last.off_cpu_ns, 40);
}

}  // namespace
}  // namespace proftrace
