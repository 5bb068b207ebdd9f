// A recording in Perfetto's own format: what its packets say, in the order of their times.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "exporters/formats.h"
#include "exporters/traces/perfetto_trace.h"
#include "tests/support/protobuf_reader.h"
#include "tests/support/system_events.h"
#include "tests/support/timeline_maker.h"
#include "userspace/aggregate/aggregates.h"

namespace proftrace {
namespace {

constexpr int64_t kStartNs = 1'000'000;

class PerfettoTest : public testing::Test {
 protected:
  PerfettoTest() {
    maker_.info().window.start_ns = kStartNs;
    maker_.info().window.duration_ns = 100'000;
  }

  // What happens on tracks, by a name of the track: "+name", "-", "!instant" or "=value", each with
  // its time from the beginning of the window.
  void Export() {
    timeline_ = maker_.Finish();
    const Aggregates aggregates = Aggregate(*timeline_, {});
    StringSink sink;
    ASSERT_TRUE(
        ExportPerfettoTrace(*timeline_, aggregates.step_rows, aggregates.python_rows, sink).ok());
    std::vector<std::pair<uint64_t, ProtobufFields>> packets;
    for (const std::string& bytes : ReadProtobuf(sink.text()).Texts(1)) {
      const ProtobufFields packet = ReadProtobuf(bytes);
      if (packet.numbers.count(8) != 0) {
        packets.emplace_back(packet.Number(8), packet);
        EXPECT_EQ(packet.Number(13), 2u) << "it needs the names that were told before";
      }
      for (const std::string& track : packet.Texts(60)) Describe(ReadProtobuf(track));
      for (const std::string& snapshot : packet.Texts(6)) {
        EXPECT_EQ(ReadProtobuf(snapshot).Number(2), 3u);  // CLOCK_MONOTONIC
      }
      for (const std::string& names : packet.Texts(12)) {
        for (const std::string& name : ReadProtobuf(names).Texts(2)) {
          const ProtobufFields entry = ReadProtobuf(name);
          names_[entry.Number(1)] = entry.Texts(2).at(0);
        }
      }
    }
    std::stable_sort(packets.begin(), packets.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    for (const auto& [time, packet] : packets) {
      const std::string at = " " + std::to_string(static_cast<int64_t>(time) - kStartNs);
      for (const std::string& event : packet.Texts(11)) Add(ReadProtobuf(event), at);
      for (const std::string& bytes : packet.Texts(117)) {
        const ProtobufFields state = ReadProtobuf(bytes);
        states_[state.Number(3)].push_back(std::to_string(state.Number(4)) + at + " cpu " +
                                           std::to_string(state.NumberOrNone(1)));
      }
    }
  }

  void Describe(const ProtobufFields& track) {
    std::string& name = tracks_[track.Number(1)];
    EXPECT_TRUE(name.empty()) << "described twice";
    for (const std::string& text : track.Texts(2)) name = text;
    for (const std::string& process : track.Texts(3)) {
      name = "process " + std::to_string(ReadProtobuf(process).Number(1));
    }
    for (const std::string& thread : track.Texts(4)) {
      name = "thread " + std::to_string(ReadProtobuf(thread).Number(2));
    }
    if (track.numbers.count(5) != 0) {
      name = tracks_.at(track.Number(5)) + " / " + name;
    }
  }

  void Add(const ProtobufFields& event, const std::string& at) {
    const std::string& track = tracks_.at(event.Number(11));
    const uint64_t type = event.Number(9);
    std::string text = "-";
    if (type == 4) text = "=" + std::to_string(event.Number(30));
    if (type == 1 || type == 3) text = (type == 1 ? "+" : "!") + names_.at(event.Number(10));
    rows_[track].push_back(text + at);
    for (auto [it, end] = event.numbers.equal_range(47); it != end; ++it) {
      EXPECT_TRUE(arrows_.emplace(it->second, track + text).second);
    }
    for (auto [it, end] = event.numbers.equal_range(48); it != end; ++it) {
      ASSERT_EQ(arrows_.count(it->second), 1u) << "an arrow that ends before it begins";
      arrows_[it->second] += " -> " + track + text;
    }
  }

  std::vector<std::string> Arrows() const {
    std::vector<std::string> arrows;
    for (const auto& [id, arrow] : arrows_) arrows.push_back(arrow);
    return arrows;
  }

  using Texts = std::vector<std::string>;

  TimelineMaker maker_;
  ThreadIndex thread_ = maker_.AddThread(10, 11, "python3");
  std::unique_ptr<Timeline> timeline_;
  std::map<uint64_t, std::string> tracks_;
  std::map<uint64_t, std::string> names_;
  std::map<std::string, Texts> rows_;
  std::map<uint64_t, Texts> states_;  // by tid
  std::map<uint64_t, std::string> arrows_;
};

TEST_F(PerfettoTest, RowsNestAndWhatDoesNotHasATrackOfItsOwn) {
  const LabelId add = maker_.AddOperator("aten::add");
  const SpanId outer = maker_.Begin(thread_, maker_.AddAnnotation("outer"), kStartNs + 10);
  maker_.Add(thread_, add, kStartNs + 20, kStartNs + 30);
  maker_.Add(thread_, add, kStartNs + 30, kStartNs + 40);
  maker_.Begin(thread_, maker_.AddOperator("late"), kStartNs + 50);
  maker_.EndOuter(thread_, outer, kStartNs + 60);
  maker_.End(thread_, kStartNs + 70);
  maker_.MarkAsync(maker_.Add(thread_, maker_.AddOperator("async"), kStartNs + 80, kStartNs + 90));
  Export();
  EXPECT_EQ(rows_["thread 11"],
            (Texts{"+outer 10", "+aten::add 20", "- 30", "+aten::add 30", "- 40", "- 60"}));
  EXPECT_EQ(rows_["thread 11 / late"], (Texts{"+late 50", "- 70"}));
  EXPECT_EQ(rows_["thread 11 / async"], (Texts{"+async 80", "- 90"}));
}

TEST_F(PerfettoTest, AThreadHasStatesAndItsWakerAnArrow) {
  const ThreadIndex other = maker_.AddThread(10, 12, "python3");
  SystemEvent call = MakeCall(thread_, "futex", kStartNs + 100, kStartNs + 900, 0, {0});
  maker_.AddSystemEvent(call);
  SystemEvent wait =
      MakeOffCpu(thread_, WaitReason::kLock, kStartNs + 200, kStartNs + 800, 150, "futex");
  wait.off_cpu.waker_pid = Pid{10};
  wait.off_cpu.waker_tid = Tid{12};
  wait.off_cpu.from_cpu = 1;
  wait.off_cpu.to_cpu = 3;
  maker_.AddSystemEvent(wait);
  maker_.AddSystemEvent(MakeCall(other, "futex", kStartNs + 600, kStartNs + 700, 1, {0}));
  maker_.AddSystemEvent(
      MakeOffCpu(thread_, WaitReason::kPreempted, kStartNs + 1000, kStartNs + 1100, 100));
  maker_.ledger() = {};
  Export();
  EXPECT_EQ(states_[11], (Texts{"3 0 cpu 1", "4 200 cpu 1", "2 650 cpu 1", "3 800 cpu 3",
                                "2 1000 cpu 0", "3 1100 cpu 0"}));
  EXPECT_EQ(rows_["thread 11"], (Texts{"+futex 100", "+lock 200", "+run queue 650", "- 800",
                                       "- 800", "- 900", "+preempted 1000", "- 1100"}));
  EXPECT_EQ(rows_["thread 12"], (Texts{"+futex 600", "!wakes 650", "- 700"}));
  EXPECT_EQ(Arrows(), (Texts{"thread 12!wakes -> thread 11+run queue"}));
}

TEST_F(PerfettoTest, AThreadThatEndedRunsNoMore) {
  maker_.AddSystemEvent(
      MakeOffCpu(thread_, WaitReason::kPreempted, kStartNs + 100, kStartNs + 200, 100));
  SystemEvent exit = MakeCall(thread_, "exit", kStartNs + 300, kStartNs + 400, 0, {0});
  exit.end = SpanEnd::kTruncated;
  maker_.AddSystemEvent(exit);
  Export();
  EXPECT_EQ(states_[11].back(), "7 400 cpu 0");
}

TEST_F(PerfettoTest, WithoutAllRecordsThereAreNoStates) {
  maker_.AddSystemEvent(
      MakeOffCpu(thread_, WaitReason::kPreempted, kStartNs + 100, kStartNs + 200, 100));
  maker_.ledger().system_lost = 1;
  Export();
  EXPECT_TRUE(states_.empty());
  EXPECT_EQ(rows_["thread 11"].size(), 2u);
}

TEST_F(PerfettoTest, ArrowsGoToTheBackwardPassAndToKernels) {
  const SpanId forward =
      maker_.Add(thread_, maker_.AddOperator("aten::mm"), kStartNs + 10, kStartNs + 20);
  const SpanId backward =
      maker_.Add(thread_, maker_.AddOperator("MmBackward0"), kStartNs + 30, kStartNs + 40);
  SpanSequence sequence;
  sequence.number_plus_1 = 1;
  sequence.forward_plus_1 = Raw(forward) + 1;
  sequence.has_arrow = true;
  ASSERT_TRUE(maker_.SetSequence(backward, sequence).ok());
  ASSERT_TRUE(maker_.AddKernel(backward, "too early", kStartNs + 5, 3, backward).ok());
  ASSERT_TRUE(maker_.AddKernel(backward, "gemm", kStartNs + 50, 30, backward).ok());
  Export();
  EXPECT_EQ(Arrows(), (Texts{"thread 11+aten::mm -> thread 11+MmBackward0",
                             "thread 11+MmBackward0 -> process 0 / CUPTI+gemm"}));
  EXPECT_EQ(rows_["process 0 / CUPTI"], (Texts{"+too early 5", "- 8", "+gemm 50", "- 80"}));
}

TEST_F(PerfettoTest, MemoryIsACounter) {
  MemoryEvent event;
  event.thread = thread_;
  event.time_ns = kStartNs + 10;
  event.bytes = event.total_allocated = 64;
  event.device_index = -1;
  event.total_known = true;
  ASSERT_TRUE(maker_.AddMemoryEvent(event).ok());
  event.time_ns += 10;
  event.total_known = false;
  ASSERT_TRUE(maker_.AddMemoryEvent(event).ok());
  Export();
  EXPECT_EQ(rows_["process 10 / CPU memory allocated"], Texts{"=64 10"});
}

}  // namespace
}  // namespace proftrace
