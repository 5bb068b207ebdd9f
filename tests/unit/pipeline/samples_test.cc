// Samples: records in, what the Timeline says of each.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "bpf/abi/sample_records.h"
#include "tests/support/sample_record_maker.h"
#include "tests/unit/pipeline/timeline.h"
#include "userspace/aggregate/sample_text.h"
#include "userspace/aggregate/wait_sums.h"
#include "userspace/decode/sample_decoder.h"
#include "userspace/model/name_limits.h"

namespace proftrace {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr uint64_t kPeriodNs = SampleRecordMaker::kPeriodNs;

class SampledJob : public SampleRecordMaker {
 public:
  void Operator(uint32_t tid, int64_t begin_ns, int64_t end_ns, uint16_t site = 1) {
    Begin(tid, begin_ns, site, site);
    End(tid, end_ns, site, site);
  }
};

std::vector<std::string> FramesOf(const Timeline& timeline, const Sample& sample) {
  std::vector<std::string> frames;
  for (uint32_t at = sample.frame; at != 0; at = timeline.sample_frames()[at].parent) {
    const SampleFrame& frame = timeline.sample_frames()[at];
    const SampleFunction& function = timeline.sample_function(frame);
    frames.insert(frames.begin(),
                  function.file + ":" + std::to_string(frame.line) + ":" + function.name);
  }
  return frames;
}

CaptureMetadata SamplesMetadata() {
  CaptureMetadata metadata = TestMetadata();
  metadata.processes[0].target.python_paths = {"/job/"};
  return metadata;
}

TEST(SamplesTest, FramesAndTheOperatorAround) {
  SampledJob job;
  job.Function(1, abi::PT_SAMPLE_FRAME_PYTHON, "main", "/job/train.py", 3);
  job.Function(2, abi::PT_SAMPLE_FRAME_NATIVE, "at::mm", "/lib/libtorch_cpu.so");
  job.Frame(1, 0, 1, 12);
  job.Frame(2, 1, 2);
  job.Operator(kTid, 1000, 5000);
  job.Sample(kTid, 500, 1);
  job.Sample(kTid, 3000, 2);
  job.Sample(kTid, 5000, 1);
  const auto timeline = Build(job, SamplesMetadata());
  ASSERT_EQ(timeline->samples().size(), 3u);
  const std::vector<Sample>& samples = timeline->samples();
  EXPECT_THAT(FramesOf(*timeline, samples[0]), ElementsAre("train.py:12:main"));
  EXPECT_THAT(FramesOf(*timeline, samples[1]),
              ElementsAre("train.py:12:main", "/lib/libtorch_cpu.so:0:at::mm"));
  EXPECT_EQ(samples[0].span, kNoSpan);
  EXPECT_EQ(samples[1].span, SpanId{0});
  EXPECT_EQ(samples[2].span, kNoSpan);  // it ended then
  for (const Sample& sample : samples) EXPECT_EQ(Raw(timeline->thread(sample.thread).tid), kTid);
}

TEST(SamplesTest, TheInnermostOneThatIsStillOpen) {
  SampledJob job;
  job.Begin(kTid, 1000, 1, 1);
  job.Begin(kTid, 2000, 2, 2);
  job.End(kTid, 3000, 2, 2);
  job.Sample(kTid, 2500, 0);  // comes before the end does, as samples may
  job.Sample(kTid, 3500, 0);
  job.End(kTid, 4000, 1, 1);
  const auto timeline = Build(job, SamplesMetadata());
  ASSERT_EQ(timeline->samples().size(), 2u);
  EXPECT_EQ(NameOf(*timeline, Raw(timeline->samples()[0].span)), NameOf(*timeline, 1));
  EXPECT_EQ(timeline->samples()[1].span, SpanId{0});
  EXPECT_THAT(FramesOf(*timeline, timeline->samples()[0]), IsEmpty());
}

TEST(SamplesTest, AThreadWithoutOperatorsIsThereAsWell) {
  SampledJob job;
  job.Operator(kTid, 1000, 2000);
  job.Sample(kTid + 1, 1500, 0, 40, abi::PT_SAMPLE_SLEEPING, 202);
  const auto timeline = Build(job, SamplesMetadata());
  ASSERT_EQ(timeline->samples().size(), 1u);
  const Sample& sample = timeline->samples()[0];
  EXPECT_EQ(Raw(timeline->thread(sample.thread).tid), kTid + 1);
  EXPECT_EQ(sample.span, kNoSpan);
  EXPECT_EQ(sample.count, 40u);
  EXPECT_EQ(sample.state, SampleState::kSleeping);
  EXPECT_EQ(sample.call, 202);
}

TEST(SamplesTest, LooksAfterTheWindowDoNotCount) {
  SampledJob job;
  CaptureMetadata metadata = SamplesMetadata();
  metadata.has_end = true;
  metadata.info.window.start_ns = 1000;
  metadata.info.window.duration_ns = 10'000;
  job.Sample(kTid, 500, 0);
  job.Sample(kTid, 6000, 0, 100, abi::PT_SAMPLE_SLEEPING);  // at 6000, 7000 ... 11000
  job.Sample(kTid, 12'000, 0);
  const auto timeline = Build(job, metadata);
  ASSERT_EQ(timeline->samples().size(), 1u);
  EXPECT_EQ(timeline->samples()[0].count, 6u);
}

TEST(SamplesTest, WhatALostBlockHadLeavesAGap) {
  SampledJob job;
  job.Function(1, abi::PT_SAMPLE_FRAME_PYTHON, "main", "/job/train.py");
  job.Frame(1, 0, 1, 12);
  job.Frame(2, 1, 9);  // of a function that never came: left out
  job.Frame(3, 2, 1, 13);
  job.Frame(5, 4, 1, 14);  // its parent never came
  job.Sample(kTid, 1000, 3);
  job.Sample(kTid, 2000, 5);
  job.Sample(kTid, 3000, 77);
  const auto timeline = Build(job, SamplesMetadata());
  ASSERT_EQ(timeline->samples().size(), 3u);
  EXPECT_THAT(FramesOf(*timeline, timeline->samples()[0]),
              ElementsAre("train.py:12:main", "train.py:13:main"));
  EXPECT_THAT(FramesOf(*timeline, timeline->samples()[1]), ElementsAre("train.py:14:main"));
  EXPECT_THAT(FramesOf(*timeline, timeline->samples()[2]), IsEmpty());
}

TEST(SamplesTest, ImpossibleRecordsAreCounted) {
  SampledJob job;
  job.Sample(kTid, 1000, 0, 0);     // no look at all
  job.Sample(kTid, 1000, 0, 1, 9);  // no such state
  job.Frame(0, 0, 1);               // no such number
  abi::pt_sample_function_record record{};
  record.head = job.Head(abi::PT_SAMPLE_FUNCTION, kTid, 1, 0, 0);
  record.name_bytes = 4000;  // longer than the record
  job.AddBytes(&record, PT_SAMPLE_FUNCTION_HEAD_BYTES + 8);
  const auto timeline = Build(job, SamplesMetadata());
  EXPECT_EQ(timeline->ledger().malformed, 4u);
  EXPECT_THAT(timeline->samples(), IsEmpty());
}

TEST(WakersTest, AWaitHasTheStackOfTheWakingThatEndedIt) {
  constexpr uint32_t kOther = 8;
  constexpr uint32_t kThird = 9;
  SampledJob job;
  job.Function(1, abi::PT_SAMPLE_FRAME_NATIVE, "main", "/job");
  job.Function(2, abi::PT_SAMPLE_FRAME_NATIVE, "notify", "/lib/libc.so");
  job.Frame(1, 0, 1);
  job.Frame(2, 1, 2);
  // Samples come by a way of their own: before or after the waits.
  job.Waker(kOther, 900, kTid, 1);  // it did not sleep yet
  job.Waker(kOther, 1850, kTid, 1);
  job.Waker(kOther, 1890, kTid, 2);
  job.Waker(kThird, 1895, kTid, 1);    // the kernel tells of another waker
  job.Waker(kOther, 3500, kThird, 2);  // it woke another thread
  job.OffCpu(kTid, 1000, 2000, 100, -1, kOther);
  job.OffCpu(kTid, 3000, 4000, 100, -1, kOther);
  job.OffCpu(kTid, 5000, 6000, 100);
  job.Waker(kOther, 5900, kTid, 2);  // an interrupt woke it
  const auto timeline = Build(job, SamplesMetadata());
  ASSERT_EQ(timeline->system_event_count(), 3u);
  const uint32_t frame = timeline->system_event(0).off_cpu.waker_frame;
  EXPECT_THAT(SampleStackTexts(*timeline, frame, 9), ElementsAre("notify", "main"));
  EXPECT_THAT(SampleStackTexts(*timeline, frame, 1), ElementsAre("notify"));
  EXPECT_EQ(timeline->system_event(1).off_cpu.waker_frame, 0u);
  EXPECT_EQ(timeline->system_event(2).off_cpu.waker_frame, 0u);
  EXPECT_THAT(timeline->samples(), IsEmpty());
  const std::vector<WaitSum> waits = SumWaits(*timeline);
  ASSERT_EQ(waits.size(), 3u);
  EXPECT_EQ(waits[0].waker_frame + waits[1].waker_frame + waits[2].waker_frame, frame);
}

TEST(WakersTest, AWakingOfNobodyIsMalformed) {
  SampledJob job;
  job.Waker(kTid, 1000, 0, 0);
  EXPECT_EQ(Build(job, SamplesMetadata())->ledger().malformed, 1u);
}

void FeedSamples(SampleRecordMaker& job, SampleDecoder* decoder) {
  const std::span<const std::byte> bytes(job.bytes());
  for (size_t at = 0; at < bytes.size();) {
    abi::pt_record head;
    std::memcpy(&head, bytes.data() + at, sizeof(head));
    EXPECT_TRUE(decoder->OnRecord(bytes.subspan(at, size_t{head.words} * 8)));
    at += size_t{head.words} * 8;
  }
  job.bytes().clear();
}

TEST(SamplesTest, FunctionsBeyondTheLimitAreOneThatIsTold) {
  constexpr uint32_t kFunctions = 150'000;
  SampleDecoder decoder;
  SampleRecordMaker job;
  for (uint32_t id = 1; id <= kFunctions; ++id) {
    job.Function(id, abi::PT_SAMPLE_FRAME_PYTHON, "f" + std::to_string(id), "a.py", 1);
    job.Frame(id, 0, id, 1);
    FeedSamples(job, &decoder);
  }
  // Called by each other, too.
  job.Frame(kFunctions + 1, kFunctions, kFunctions - 1, 1);
  for (const uint32_t frame : {5u, kFunctions, kFunctions + 1}) job.Sample(kTid, 10, frame);
  FeedSamples(job, &decoder);
  const SampleDecoder::Tables tables =
      decoder.TakeTables([](Pid) { return std::vector<std::string>(); });
  EXPECT_EQ(tables.functions.size(), kMostNames + 1);
  EXPECT_EQ(tables.other_functions, kFunctions - kMostNames);
  const auto name = [&](size_t sample) {
    return tables.functions[tables.frames[tables.samples[sample].sample.frame].function].name;
  };
  EXPECT_EQ(name(0), "f5");
  EXPECT_EQ(name(1), kOtherNames);
  EXPECT_EQ(tables.samples[1].sample.frame, tables.samples[2].sample.frame);
}

TEST(SamplesTest, FramesBeyondTheLimitAreOne) {
  SampleDecoder decoder;
  SampleRecordMaker job;
  job.Function(1, abi::PT_SAMPLE_FRAME_PYTHON, "f", "a.py", 1);
  constexpr uint32_t kFrames = kMostPaths + 1000;
  for (uint32_t id = 1; id <= kFrames; ++id) {
    job.Frame(id, id - 1, 1, 1);
    if (id % 1000 == 0) FeedSamples(job, &decoder);
  }
  job.Sample(kTid, 10, kFrames);
  FeedSamples(job, &decoder);
  const SampleDecoder::Tables tables =
      decoder.TakeTables([](Pid) { return std::vector<std::string>(); });
  EXPECT_LE(tables.frames.size(), kMostPaths + 1);
  EXPECT_GE(tables.other_frames, 1000u);
  const SampleFrame& frame = tables.frames[tables.samples[0].sample.frame];
  EXPECT_EQ(tables.functions[frame.function].name, kOtherNames);
}

}  // namespace
}  // namespace proftrace
