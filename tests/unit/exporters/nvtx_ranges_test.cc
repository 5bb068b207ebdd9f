// Ranges of NVTX that CUPTI told: rows of the job's process, beside their thread.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "exporters/formats.h"
#include "exporters/traces/chrome_trace.h"
#include "exporters/traces/perfetto_trace.h"
#include "tests/support/gpu_record_maker.h"
#include "tests/support/protobuf_reader.h"
#include "tests/unit/pipeline/timeline.h"
#include "userspace/aggregate/aggregates.h"

namespace proftrace {
namespace {

using Json = nlohmann::ordered_json;

class NvtxRangesTest : public testing::Test {
 protected:
  static constexpr uint32_t kThread = 1;
  static constexpr uint32_t kOther = 2;
  static constexpr uint32_t kMark = 1;
  static constexpr uint32_t kStart = 2;
  static constexpr uint32_t kEnd = 4;

  void Range(uint32_t tid, int64_t start_ns, int64_t end_ns, const std::string& name) {
    gpu_.Marker(tid, start_ns, gpu_.Name(name), ++ranges_, kStart);
    gpu_.Marker(tid, end_ns, 0, ranges_, kEnd);
  }

  std::unique_ptr<Timeline> Recorded() {
    VectorSource source;
    source.Add(cpu_.bytes());
    VectorSource devices;
    devices.Add(gpu_.bytes());
    return *BuildTimeline(TestMetadata(), &source, "", &devices);
  }

  // The rows of each track by its name, as "name ts dur" in us from the first; arrows are none.
  std::map<std::string, std::vector<std::string>> Tracks() {
    StringSink sink;
    EXPECT_TRUE(ExportChromeTrace(*Recorded(), sink).ok());
    const Json trace = Json::parse(sink.text());
    std::map<std::pair<int64_t, int64_t>, std::string> names;
    for (const Json& event : trace["traceEvents"]) {
      if (event["name"] != "thread_name") continue;
      EXPECT_TRUE(names
                      .try_emplace({event["pid"].get<int64_t>(), event["tid"].get<int64_t>()},
                                   event["args"]["name"].get<std::string>())
                      .second)
          << event.dump();
    }
    double first_ts = -1;
    std::map<std::string, std::vector<std::string>> tracks;
    for (const Json& event : trace["traceEvents"]) {
      EXPECT_NE(event.value("cat", ""), "ac2g");
      if (event.value("cat", "") != "nvtx") continue;
      EXPECT_EQ(event["ph"], "X");
      EXPECT_EQ(event["pid"], RecordMaker::kPid);
      if (first_ts < 0) first_ts = event["ts"];
      char text[64];
      std::snprintf(text, sizeof(text), " %.1f %.3f", event["ts"].get<double>() - first_ts,
                    event["dur"].get<double>());
      tracks[names[{event["pid"], event["tid"]}]].push_back(event["name"].get<std::string>() +
                                                            text);
    }
    return tracks;
  }

  RecordMaker cpu_;
  GpuRecordMaker gpu_;
  uint32_t ranges_ = 0;
};

TEST_F(NvtxRangesTest, RangesOfAThreadNestOnATrackOfTheirOwn) {
  cpu_.Begin(kThread, 1000, 1, 1);
  Range(kThread, 1500, 9000, "step");  // ends after the operator in which it began
  Range(kThread, 2000, 3000, "load");
  Range(kThread, 3000, 3000, "nothing");
  Range(kOther, 2500, 4500, "other");
  cpu_.End(kThread, 8000, 1, 1);
  const auto tracks = Tracks();
  using Rows = std::vector<std::string>;
  ASSERT_EQ(tracks.size(), 2u);
  EXPECT_EQ(tracks.at("NVTX of thread 1"),
            (Rows{"step 0.0 7.500", "load 0.5 1.000", "nothing 1.5 0.001"}));
  EXPECT_EQ(tracks.at("NVTX of thread 2"), (Rows{"other 1.0 2.000"}));
}

TEST_F(NvtxRangesTest, PerfettosFormatHasThemToo) {
  Range(kThread, 1500, 9000, "step");
  Range(kOther, 2500, 9500, "other");
  const std::unique_ptr<Timeline> timeline = Recorded();
  const Aggregates aggregates = Aggregate(*timeline, {});
  StringSink sink;
  ASSERT_TRUE(
      ExportPerfettoTrace(*timeline, aggregates.step_rows, aggregates.python_rows, sink).ok());
  std::set<std::string> tracks;
  size_t events = 0;
  for (const std::string& bytes : ReadProtobuf(sink.text()).Texts(1)) {
    const ProtobufFields packet = ReadProtobuf(bytes);
    events += packet.Texts(11).size();
    for (const std::string& track : packet.Texts(60)) {
      for (const std::string& name : ReadProtobuf(track).Texts(2)) tracks.insert(name);
    }
  }
  EXPECT_EQ(tracks, (std::set<std::string>{"NVTX of thread 1", "NVTX of thread 2"}));
  EXPECT_EQ(events, 4u) << "begins and ends; none of them on a track of its own";
}

TEST_F(NvtxRangesTest, RangesThatCrossHaveOneTrackMoreAndMarksAreDrawn) {
  Range(kThread, 1000, 3000, "first");
  Range(kThread, 2000, 4000, "second");  // nvtxRangeStart, ended in another order
  gpu_.Marker(kThread, 5000, gpu_.Name("here"), 9, kMark);
  const auto tracks = Tracks();
  using Rows = std::vector<std::string>;
  ASSERT_EQ(tracks.size(), 2u);
  EXPECT_EQ(tracks.at("NVTX of thread 1"), (Rows{"first 0.0 2.000", "here 4.0 0.001"}));
  EXPECT_EQ(tracks.at("NVTX of thread 1 (overlap)"), (Rows{"second 1.0 2.000"}));
}

}  // namespace
}  // namespace proftrace
