#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "exporters/formats.h"
#include "exporters/memory/memory_timeline.h"
#include "exporters/memory/memory_viz.h"
#include "exporters/tables/csv.h"
#include "exporters/text/table.h"
#include "exporters/traces/chrome_trace.h"
#include "tests/support/timeline_maker.h"
#include "userspace/base/exit_status.h"

namespace proftrace {
namespace {

using nlohmann::json;

// aten::outer allocates 2 KB in aten::inner and frees 1 KB itself; 512 B are freed in no span.
std::unique_ptr<Timeline> MakeTimeline(bool with_memory = true, bool totals_known = true) {
  TimelineMaker maker;
  const ThreadIndex thread = maker.AddThread(10, 11, "python");
  const SpanId outer = maker.Begin(thread, maker.AddOperator("aten::outer"), 1'000'000);
  const SpanId inner = maker.Begin(thread, maker.AddOperator("aten::inner"), 1'010'000);
  maker.End(thread, 1'020'000);
  maker.End(thread, 1'050'000);
  if (with_memory) {
    maker.info().targets.at(0).memory_recorded = true;
    EXPECT_TRUE(maker.SetMemory(outer, {1024, -1024, 0, 0}).ok());
    EXPECT_TRUE(maker.SetMemory(inner, {2048, 2048, 0, 0}).ok());
    MemoryEvent event;
    event.thread = thread;
    event.device_index = -1;
    event.total_known = totals_known;
    const auto add = [&](int64_t ns, int64_t bytes, int64_t total, SpanId parent) {
      event.time_ns = ns;
      event.bytes = bytes;
      event.total_allocated = total;
      event.parent = parent;
      event.address = 0xabc000;
      EXPECT_TRUE(maker.AddMemoryEvent(event).ok());
    };
    add(1'015'000, 2048, 2048, inner);
    add(1'030'000, -1024, 1024, outer);
    add(1'060'000, -512, 512, kNoSpan);
    event.kind = MemoryEventKind::kOutOfMemory;
    add(1'070'000, 1 << 20, 512, kNoSpan);
  }
  return maker.Finish();
}

template <typename Exporter>
std::string Text(Exporter&& exporter) {
  StringSink sink;
  EXPECT_TRUE(exporter(sink).ok());
  return sink.text();
}

bool Has(const std::string& text, const std::string& part) {
  return text.find(part) != std::string::npos;
}

TEST(MemoryOutputsTest, TheTableHasTorchsColumnsAndRows) {
  const auto timeline = MakeTimeline();
  const KeyAverages averages = BuildKeyAverages(*timeline, {});
  TableOptions options;
  options.sort_by = "self_cpu_memory_usage";
  const auto table = FormatTable(averages, options);
  ASSERT_TRUE(table.ok()) << table.status();
  EXPECT_TRUE(Has(*table, "CPU time avg       CPU Mem  Self CPU Mem    # of Calls")) << *table;
  EXPECT_TRUE(Has(*table, "1.00 KB      -1.00 KB             1")) << *table;
  EXPECT_TRUE(Has(*table, "2.00 KB       2.00 KB             1")) << *table;
  EXPECT_TRUE(Has(*table, " -512 B        -512 B             1")) << *table;
  EXPECT_TRUE(Has(*table, "[OutOfMemory]")) << *table;
  EXPECT_LT(table->find("aten::inner"), table->find("[memory]")) << "sorted by self memory";
  EXPECT_LT(table->find("[memory]"), table->find("aten::outer"));
  EXPECT_FALSE(Has(*table, "CUDA")) << "no device memory, no columns";
}

TEST(MemoryOutputsTest, WithoutMemoryThereAreNoColumnsAndCellsAreEmpty) {
  const auto timeline = MakeTimeline(/*with_memory=*/false);
  const KeyAverages averages = BuildKeyAverages(*timeline, {});
  EXPECT_FALSE(Has(*FormatTable(averages, {}), "Mem"));
  EXPECT_TRUE(Has(Text([&](ByteSink& sink) { return ExportKeyAveragesCsv(averages, sink); }),
                  ",,,,,,,,,,,,CPU,"));
  StringSink sink;
  EXPECT_FALSE(ExportMemoryTimeline(*timeline, "", sink).ok());
  EXPECT_FALSE(ExportMemoryTimelineHtml(*timeline, "", sink).ok());
  EXPECT_FALSE(ExportMemoryViz(*timeline, sink).ok());
}

TEST(MemoryOutputsTest, KeyAveragesCsvHasTheBytes) {
  const auto timeline = MakeTimeline();
  const KeyAverages averages = BuildKeyAverages(*timeline, {});
  const std::string text =
      Text([&](ByteSink& sink) { return ExportKeyAveragesCsv(averages, sink); });
  EXPECT_TRUE(Has(text, ",-1024,1024,0,0,,,,CPU,")) << text;
  EXPECT_EQ(TotalAverage(averages).memory.self_cpu_bytes, 512) << "all that was counted";
}

TEST(MemoryOutputsTest, TheTraceHasKinetosInstants) {
  const auto timeline = MakeTimeline();
  const json trace =
      json::parse(Text([&](ByteSink& sink) { return ExportChromeTrace(*timeline, sink); }));
  EXPECT_EQ(trace["profile_memory"], 1);
  std::vector<json> instants;
  for (const json& event : trace["traceEvents"]) {
    if (event.value("cat", "") == "cpu_instant_event") instants.push_back(event);
  }
  ASSERT_EQ(instants.size(), 4u);
  EXPECT_EQ(instants[0]["name"], "[memory]");
  EXPECT_EQ(instants[0]["ph"], "i");
  EXPECT_EQ(instants[0]["s"], "t");
  EXPECT_EQ(instants[0]["tid"], 11);
  const json expected = {{"Total Reserved", 0}, {"Total Allocated", 2048}, {"Bytes", 2048},
                         {"Device Id", -1},     {"Device Type", 0},        {"Addr", 0xabc000},
                         {"Ev Idx", 2}};
  EXPECT_EQ(instants[0]["args"], expected);
  EXPECT_EQ(instants[3]["name"], "[OutOfMemory]");
}

TEST(MemoryOutputsTest, AnEventHasItsOwnStackOrTheOneOfItsRow) {
  TimelineMaker maker;
  const ThreadIndex thread = maker.AddThread(10, 11, "python");
  maker.info().targets.at(0).memory_recorded = true;
  const StackId step = maker.AddFrame(kNoStack, maker.AddCode("train.py", "step", 7));
  const StackId backward = maker.AddFrame(step, maker.AddCode("my.py", "backward", 20));
  const SpanId node = maker.Begin(thread, maker.AddOperator("MyFunctionBackward"), 1'000'000);
  ASSERT_TRUE(maker.SetStack(node, step).ok());
  maker.End(thread, 1'050'000);
  MemoryEvent event;
  event.thread = thread;
  event.device_index = -1;
  event.parent = node;
  event.time_ns = 1'010'000;
  event.bytes = 64;
  event.stack = backward;
  ASSERT_TRUE(maker.AddMemoryEvent(event).ok());
  event.time_ns = 1'020'000;
  event.bytes = -64;
  event.stack = kNoStack;
  ASSERT_TRUE(maker.AddMemoryEvent(event).ok());
  const auto timeline = maker.Finish();
  const json trace =
      json::parse(Text([&](ByteSink& sink) { return ExportChromeTrace(*timeline, sink); }));
  std::vector<std::string> stacks;
  for (const json& row : trace["traceEvents"]) {
    if (row.value("cat", "") == "cpu_instant_event") stacks.push_back(row["args"]["Call stack"]);
  }
  EXPECT_THAT(stacks,
              testing::ElementsAre("my.py(20): backward;train.py(7): step;", "train.py(7): step;"));
  const std::string pickle = Text([&](ByteSink& sink) { return ExportMemoryViz(*timeline, sink); });
  EXPECT_TRUE(Has(pickle, "MyFunctionBackward"));
  EXPECT_TRUE(Has(pickle, "my.py"));
}

TEST(MemoryOutputsTest, AnUnknownTotalIsNotShown) {
  const auto timeline = MakeTimeline(true, /*totals_known=*/false);
  const std::string trace =
      Text([&](ByteSink& sink) { return ExportChromeTrace(*timeline, sink); });
  EXPECT_FALSE(Has(trace, "Total Allocated"));
  EXPECT_TRUE(Has(Text([&](ByteSink& sink) {
                    return ExportEventsCsv(*timeline, FindSteps(*timeline), StepRows(), sink);
                  }),
                  "\"\"total_allocated\"\": null"));
}

TEST(MemoryOutputsTest, TheTimelineIsTorchsListOfTimesAndSizes) {
  const auto timeline = MakeTimeline();
  const json lists =
      json::parse(Text([&](ByteSink& sink) { return ExportMemoryTimeline(*timeline, "", sink); }));
  ASSERT_EQ(lists.size(), 2u);
  ASSERT_EQ(lists[0].size(), 3u);
  EXPECT_EQ(lists[0][1].get<int64_t>() - lists[0][0].get<int64_t>(), 15);
  EXPECT_EQ(lists[1], json::parse("[[0,0,0,0,0,0,0,0,2048],[0,0,0,0,0,0,0,0,1024],"
                                  "[0,0,0,0,0,0,0,0,512]]"));
  EXPECT_TRUE(
      Has(Text([&](ByteSink& sink) { return ExportMemoryTimelineHtml(*timeline, "", sink); }),
          "const sizes = [2048,1024,512];"));
}

// Two processes: on the CPU and on two GPUs, which had 4096 and 0 bytes before.
class MemoryCurvesTest : public testing::Test {
 protected:
  MemoryCurvesTest() {
    const ThreadIndex first = maker_.AddThread(20, 20, "python");
    const ThreadIndex second = maker_.AddThread(10, 10, "python");
    maker_.info().targets.at(0).memory_recorded = true;
    Add(1'000'000, first, 0, -1, 100, 100);
    Add(1'010'000, second, 0, -1, 7, 7, /*total_known=*/false);
    Add(1'020'000, first, 1, 1, 64, 64);
    Add(1'030'000, first, 1, 0, 1024, 5120);
    Add(1'040'000, second, 1, 0, 512, 512);
    Add(1'050'000, first, 0, -1, 50, 150);
    Add(1'060'000, first, 1, 0, -2048, 3072);
    timeline_ = maker_.Finish();
  }

  void Add(int64_t ns, ThreadIndex thread, uint8_t type, int8_t index, int64_t bytes, int64_t total,
           bool total_known = true) {
    MemoryEvent event;
    event.time_ns = ns;
    event.thread = thread;
    event.device_type = type;
    event.device_index = index;
    event.bytes = bytes;
    event.total_allocated = total;
    event.total_known = total_known;
    EXPECT_TRUE(maker_.AddMemoryEvent(event).ok());
  }

  // The bytes of each point of the list.
  std::vector<int64_t> Sizes(const std::string& device) {
    std::vector<int64_t> sizes;
    const json lists = json::parse(
        Text([&](ByteSink& sink) { return ExportMemoryTimeline(*timeline_, device, sink); }));
    EXPECT_EQ(lists[0].size(), lists[1].size());
    for (const json& point : lists[1]) sizes.push_back(point.back());
    return sizes;
  }

  TimelineMaker maker_;
  std::unique_ptr<Timeline> timeline_;
};

TEST_F(MemoryCurvesTest, ADeviceBeginsWithWhatWasThere) {
  EXPECT_EQ(Sizes("cuda:0"), (std::vector<int64_t>{4096, 5120, 3072}));
  EXPECT_EQ(Sizes("cuda:1"), (std::vector<int64_t>{64}));
}

TEST_F(MemoryCurvesTest, AnotherProcessIsNotAddedAndItsLossEndsNothing) {
  EXPECT_EQ(Sizes("cpu"), (std::vector<int64_t>{100, 150}));
}

TEST_F(MemoryCurvesTest, TheFirstGpuIsTakenAndTheOthersAreNamed) {
  EXPECT_EQ(Sizes(""), Sizes("cuda:0"));
  EXPECT_EQ(MemoryTimelineNote(*timeline_, ""),
            "cuda:0 of PID 20; left out: cpu of PID 20, cuda:1 of PID 20, cpu of PID 10, cuda:0 of "
            "PID 10 (--device and --pid choose)");
  const std::string page =
      Text([&](ByteSink& sink) { return ExportMemoryTimelineHtml(*timeline_, "cuda:1", sink); });
  EXPECT_TRUE(Has(page, "const device = \"cuda:1 of PID 20\";"));
  EXPECT_TRUE(Has(page, "const others = \"cpu of PID 20, cuda:0 of PID 20, "));
  EXPECT_EQ(MemoryTimelineNote(*MakeTimeline(), ""), "cpu of PID 10");
}

TEST_F(MemoryCurvesTest, ADeviceThatIsNotThereIsAnErrorThatSaysWhichAre) {
  StringSink sink;
  const absl::Status status = ExportMemoryTimeline(*timeline_, "cuda:7", sink);
  EXPECT_EQ(ExitCodeOf(status), ExitCode::kUsage);
  EXPECT_TRUE(Has(std::string(status.message()), "cpu of PID 20, cuda:0 of PID 20")) << status;
}

// torch/profiler/_memory_profiler.py, export_memory_timeline_raw().
TEST_F(MemoryCurvesTest, TheRawFormIsTorchsListOfEvents) {
  const json events = json::parse(
      Text([&](ByteSink& sink) { return ExportMemoryTimelineRaw(*timeline_, "cuda:0", sink); }));
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[0], (json{-1, 1, 4096, 7}));
  EXPECT_EQ(events[1], (json{timeline_->ToUnixNs(1'030'000), 2, 1024, 7}));
  EXPECT_EQ(events[2], (json{timeline_->ToUnixNs(1'060'000), 4, -2048, 7}));
}

TEST(MemoryOutputsTest, OneNameGivesTheTimelinesBothFiles) {
  const auto formats = ParseFormatList("memory-timeline,memory-viz");
  ASSERT_TRUE(formats.ok());
  ASSERT_EQ(formats->size(), 3u);
  EXPECT_EQ((*formats)[0]->file_name, "memory_timeline.json");
  EXPECT_EQ((*formats)[1]->file_name, "memory_timeline.html");
}

}  // namespace
}  // namespace proftrace
