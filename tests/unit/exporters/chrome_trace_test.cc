#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "exporters/formats.h"
#include "exporters/text/summary_json.h"
#include "exporters/traces/chrome_trace.h"
#include "tests/support/python_program.h"
#include "tests/support/timeline_maker.h"
#include "userspace/aggregate/aggregates.h"

namespace proftrace {
namespace {

using Json = nlohmann::ordered_json;

class ChromeTraceTest : public testing::Test {
 protected:
  // The parsed trace; text_ keeps the bytes.
  Json Export() {
    timeline_ = maker_.Finish();
    StringSink sink;
    const PythonRows python(*timeline_, StepRows(), "");
    EXPECT_TRUE(ExportChromeTrace(*timeline_, sink, StepRows(), std::nullopt, {}, python).ok());
    text_ = sink.text();
    return Json::parse(text_);
  }

  static std::vector<Json> WithPhase(const Json& trace, const std::string& phase) {
    std::vector<Json> events;
    for (const Json& event : trace["traceEvents"]) {
      if (event["ph"] == phase && event.value("cat", "") != "Trace") events.push_back(event);
    }
    return events;
  }

  // Microseconds with three decimals, as nanoseconds.
  static int64_t Ns(const Json& number) { return std::llround(number.get<double>() * 1000); }

  TimelineMaker maker_;
  ThreadIndex thread_ = maker_.AddThread(4711, 4712, "python3");
  std::unique_ptr<Timeline> timeline_;
  std::string text_;
};

TEST_F(ChromeTraceTest, DrawsAnArrowFromTheForwardToTheBackward) {
  const SpanId forward = maker_.Add(thread_, maker_.AddOperator("aten::mul"), 100, 200);
  const ThreadIndex engine = maker_.AddThread(4711, 4713, "pt_autograd_0");
  const SpanId backward = maker_.Add(engine, maker_.AddOperator("MulBackward0"), 300, 400);
  ASSERT_TRUE(maker_.SetSequence(forward, {.number_plus_1 = 8}).ok());
  ASSERT_TRUE(maker_
                  .SetSequence(backward, {.number_plus_1 = 8,
                                          .forward_tid = 4712,
                                          .forward_number = 2,
                                          .forward_plus_1 = 1,
                                          .has_arrow = true})
                  .ok());
  const Json trace = Export();
  const std::vector<Json> rows = WithPhase(trace, "X");
  ASSERT_EQ(rows.size(), 2u);
  EXPECT_EQ(rows[0]["args"]["Sequence number"], 7);
  EXPECT_EQ(rows[0]["args"]["Fwd thread id"], 0);
  EXPECT_EQ(rows[1]["args"]["Sequence number"], 7);
  EXPECT_EQ(rows[1]["args"]["Fwd thread id"], 2);
  const std::vector<Json> starts = WithPhase(trace, "s");
  const std::vector<Json> finishes = WithPhase(trace, "f");
  ASSERT_EQ(starts.size(), 1u);
  ASSERT_EQ(finishes.size(), 1u);
  EXPECT_EQ(starts[0]["cat"], "fwdbwd");
  EXPECT_EQ(starts[0]["id"], finishes[0]["id"]);
  EXPECT_EQ(starts[0]["tid"], 4712);
  EXPECT_EQ(starts[0]["ts"], rows[0]["ts"]);
  EXPECT_EQ(finishes[0]["tid"], 4713);
  EXPECT_EQ(finishes[0]["ts"], rows[1]["ts"]);
  EXPECT_EQ(finishes[0]["bp"], "e");
}

TEST_F(ChromeTraceTest, HasKinetosTopLevelInItsOrder) {
  maker_.info().targets[0].rank = 3;
  maker_.info().targets[0].world_size = 8;
  maker_.info().metadata = {
      {"run", "42"}, {"traceEvents", "mine"}, {"a\xff", "first"}, {"a\xfe", "second"}};
  const Json trace = Export();
  std::vector<std::string> keys;
  for (const auto& [key, value] : trace.items()) keys.push_back(key);
  EXPECT_EQ(keys, (std::vector<std::string>{"schemaVersion", "deviceProperties", "record_shapes",
                                            "profile_memory", "with_stack", "with_flops",
                                            "with_modules", "distributedInfo", "host_name", "run",
                                            "a\uFFFD", "proftrace", "displayTimeUnit",
                                            "baseTimeNanoseconds", "traceEvents", "traceName"}));
  EXPECT_EQ(trace["schemaVersion"], 1);
  EXPECT_EQ(trace["distributedInfo"]["rank"], 3);
  EXPECT_EQ(trace["proftrace"]["metadata"]["traceEvents"], "mine");
  EXPECT_EQ(trace["a\uFFFD"], "first") << "keys that are one key in JSON";
  EXPECT_EQ(trace["proftrace"]["metadata"]["a\uFFFD"], "second");
  EXPECT_EQ(trace["proftrace"]["ledger"]["begins"], 0);
  EXPECT_EQ(trace["proftrace"]["cost"]["probe_hits"], 1000);

  // As HTA looks for the rank: by line, before the events.
  std::istringstream lines(text_);
  std::smatch match;
  std::string rank;
  for (std::string line;
       std::getline(lines, line) && line.find("traceEvents") == std::string::npos;) {
    if (std::regex_search(line, match, std::regex("\"rank\":\\s+(\\d+)"))) rank = match[1];
  }
  EXPECT_EQ(rank, "3");
}

TEST_F(ChromeTraceTest, WithoutARankOrWithTwoThereIsNoDistributedInfo) {
  maker_.AddThread(5000, 5000, "python3");
  maker_.info().targets[0].rank = 0;
  maker_.info().targets[1].rank = 1;
  EXPECT_FALSE(Export().contains("distributedInfo"));
}

TEST_F(ChromeTraceTest, OfOneRankItHasThatRanksProcessesOnly) {
  const ThreadIndex other = maker_.AddThread(5000, 5000, "python3");
  maker_.info().targets[0].rank = 0;
  maker_.info().targets[1].rank = 1;
  maker_.info().targets[1].process_groups = {{"0", "default_pg", "gloo", 1, 2}};
  const int64_t start = maker_.info().window.start_ns + 1;
  maker_.Add(thread_, maker_.AddOperator("aten::add", "Tensor"), start, start + 10);
  maker_.Add(other, maker_.AddOperator("aten::mul", "Tensor"), start + 1, start + 5);
  const std::unique_ptr<Timeline> timeline = maker_.Finish();
  EXPECT_EQ(SeveralRanks(*timeline), (std::vector<int>{0, 1}));
  StringSink sink;
  ASSERT_TRUE(ExportChromeTrace(*timeline, sink, StepRows(), 1).ok());
  const Json trace = Json::parse(sink.text());
  EXPECT_EQ(trace["distributedInfo"]["rank"], 1);
  EXPECT_EQ(trace["distributedInfo"]["pg_config"][0]["ranks"], (Json{0, 1}));
  for (const Json& event : trace["traceEvents"]) {
    if (event["pid"].is_number()) EXPECT_EQ(event["pid"], 5000) << event;
  }
  const std::vector<Json> events = WithPhase(trace, "X");
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0]["name"], "aten::mul");
}

std::vector<std::string> NamesOf(const std::vector<FormatFile>& files) {
  std::vector<std::string> names;
  for (const FormatFile& file : files) {
    names.push_back(file.name + (file.rank ? " of " + std::to_string(*file.rank) : ""));
  }
  return names;
}

TEST_F(ChromeTraceTest, EachRankHasAFileOfItsOwn) {
  using Names = std::vector<std::string>;
  const Format& chrome = **FindFormat("chrome");
  const Format& tensorboard = **FindFormat("tensorboard");
  const Format& csv = **FindFormat("csv");
  maker_.AddThread(5000, 5000, "python3");
  maker_.AddThread(5001, 5001, "python3");
  maker_.info().targets[0].rank = 0;
  maker_.info().targets[1].rank = 1;  // a worker of the next one: it has no groups
  maker_.info().targets[2].rank = 1;
  maker_.info().targets[2].process_groups = {{"0", "default_pg", "gloo", 1, 2}};
  const std::unique_ptr<Timeline> timeline = maker_.Finish();
  EXPECT_EQ(NamesOf(FilesOf(chrome, *timeline)),
            (Names{"trace.json.gz", "trace_rank0.json.gz of 0", "trace_rank1.json.gz of 1"}));
  EXPECT_EQ(NamesOf(FilesOf(tensorboard, *timeline)),
            (Names{"testhost_4711.1790000005000000000.pt.trace.json.gz of 0",
                   "testhost_5001.1790000005000000000.pt.trace.json.gz of 1"}));
  EXPECT_EQ(NamesOf(FilesOf(csv, *timeline)), (Names{"key_averages.csv"}));
  EXPECT_EQ(NamesOf(FilesOf(chrome, *timeline, StackWeight::kSelfCpuTime, 1)),
            (Names{"trace_rank1.json.gz"}));
  EXPECT_EQ(NamesOf(FilesOf(tensorboard, *timeline, StackWeight::kSelfCpuTime, 1)),
            (Names{"testhost_5001.1790000005000000000.pt.trace.json.gz"}));
}

TEST_F(ChromeTraceTest, MetadataOfJsonIsAsItWasGiven) {
  const std::string value = R"({"lr": 1e-3, "steps": [1,  2]})";
  maker_.info().metadata = {{"run", "7"}};
  maker_.info().metadata_json = {
      {"settings", value}, {"run", "8"}, {"damaged", "{"}, {"number", "5"}};
  const Json trace = Export();
  EXPECT_NE(text_.find("\"settings\": " + value + ",\n"), std::string::npos);
  EXPECT_EQ(trace["run"], "7");
  EXPECT_EQ(trace["number"], 5);
  EXPECT_EQ(trace["damaged"], "{");
  EXPECT_EQ(trace["proftrace"]["metadata"]["run"], 8);
  StringSink sink;
  ASSERT_TRUE(ExportSummary(*timeline_, Aggregate(*timeline_, {}), sink).ok());
  EXPECT_EQ(Json::parse(sink.text())["metadata"]["settings"]["steps"], (Json{1, 2}));
}

TEST_F(ChromeTraceTest, TimesAreExactAndRelativeToTheBase) {
  const int64_t start = maker_.info().window.start_ns + 1;
  maker_.Add(thread_, maker_.AddOperator("aten::add", "Tensor"), start, start + 1'002'003);
  const Json trace = Export();
  const std::vector<Json> events = WithPhase(trace, "X");
  ASSERT_EQ(events.size(), 1u);
  const int64_t base = trace["baseTimeNanoseconds"];
  EXPECT_EQ(base % 86'400'000'000'000, 0);
  EXPECT_EQ(base + Ns(events[0]["ts"]), timeline_->ToUnixNs(start));
  EXPECT_NE(text_.find("\"dur\": 1002.003,"), std::string::npos);
  EXPECT_TRUE(std::regex_search(text_, std::regex("\"ts\": \\d+\\.\\d{3},")));
  EXPECT_EQ(events[0]["cat"], "cpu_op");
  EXPECT_EQ(events[0]["pid"], 4711);
  EXPECT_EQ(events[0]["tid"], 4712);
  EXPECT_EQ(events[0]["args"], (Json{{"External id", 1}, {"Ev Idx", 0}}));
}

TEST_F(ChromeTraceTest, NamesAreExact) {
  const std::string nasty =
      "q\" b\\ \n\t\r \x01 </script> \xF0\x9F\x94\xA5 ; " + std::string(5000, 'y');
  maker_.Add(thread_, maker_.AddAnnotation(nasty), 0, 1);
  maker_.Add(thread_, maker_.AddOperator(std::string("\0\xff", 2)), 2, 3);
  const std::vector<Json> events = WithPhase(Export(), "X");
  EXPECT_EQ(events[0]["name"], nasty);
  EXPECT_EQ(events[0]["cat"], "user_annotation");
  EXPECT_EQ(events[1]["name"], "\uFFFD\uFFFD");
  for (const Json& event : events) EXPECT_FALSE(event.dump().empty());
}

TEST_F(ChromeTraceTest, EndsThatWereNotSeenAreMarked) {
  maker_.Add(thread_, maker_.AddOperator("a"), 0, 10, SpanEnd::kTruncated);
  maker_.Add(thread_, maker_.AddOperator("b"), 20, 30, SpanEnd::kLost);
  const std::vector<Json> events = WithPhase(Export(), "X");
  EXPECT_EQ(events[0]["args"]["end"], "truncated");
  EXPECT_EQ(events[1]["args"]["end"], "lost");
}

TEST_F(ChromeTraceTest, RowsThatCannotNestAreAsyncPairs) {
  const LabelId label = maker_.AddAnnotation("a");
  const SpanId outer = maker_.Begin(thread_, label, 0);
  maker_.Begin(thread_, label, 50);  // outlives `outer`
  maker_.Begin(thread_, label, 60);  // within it, and so outlives `outer` too
  maker_.EndOuter(thread_, outer, 100);
  maker_.End(thread_, 140);
  maker_.End(thread_, 150);
  maker_.MarkAsync(maker_.Add(thread_, label, 200, 300));
  const Json trace = Export();
  EXPECT_EQ(WithPhase(trace, "X").size(), 1u);
  const std::vector<Json> begins = WithPhase(trace, "b");
  const std::vector<Json> ends = WithPhase(trace, "e");
  ASSERT_EQ(begins.size(), 3u);
  ASSERT_EQ(ends.size(), 3u);
  for (size_t i = 0; i < begins.size(); ++i) {
    EXPECT_EQ(begins[i]["id"], ends[i]["id"]);
    EXPECT_EQ(begins[i]["cat"], ends[i]["cat"]);
    EXPECT_EQ(begins[i]["name"], ends[i]["name"]);
  }
  EXPECT_NE(begins[0]["id"], begins[1]["id"]);
}

TEST_F(ChromeTraceTest, ProcessesAndThreadsHaveNames) {
  maker_.AddThread(5000, 5001, "worker \"1\"");
  const Json trace = Export();
  std::map<std::string, std::vector<Json>> metadata;
  for (const Json& event : WithPhase(trace, "M")) metadata[event["name"]].push_back(event);
  ASSERT_EQ(metadata["process_name"].size(), 2u);
  EXPECT_EQ(metadata["process_name"][0]["args"]["name"], "python3");
  EXPECT_EQ(metadata["process_labels"][1]["args"]["labels"], "CPU");
  EXPECT_EQ(metadata["process_sort_index"][1]["args"]["sort_index"], 5000);
  ASSERT_EQ(metadata["thread_name"].size(), 2u);
  EXPECT_EQ(metadata["thread_name"][1]["args"]["name"], "thread 5001 (worker \"1\")");
  EXPECT_EQ(metadata["thread_sort_index"][0]["tid"], 4712);
}

TEST_F(ChromeTraceTest, HasKinetosOwnRows) {
  const Json trace = Export();
  std::vector<std::string> names;
  for (const Json& event : trace["traceEvents"]) names.push_back(event["name"]);
  for (const char* name :
       {"PyTorch Profiler (0)", "Iteration Start: PyTorch Profiler", "Record Window End"}) {
    EXPECT_NE(std::find(names.begin(), names.end(), name), names.end()) << name;
  }
}

TEST_F(ChromeTraceTest, CallsOfPythonAreRowsAroundWhatTheyRun) {
  PythonModule linear;
  linear.class_name = "Linear";
  linear.number = 3;
  const uint32_t module = maker_.AddModule(linear);
  const uint32_t call = maker_.AddCode("torch/nn/modules/module.py", "_wrapped_call_impl", 1773);
  const StackId main = maker_.AddFrame(kNoStack, maker_.AddCode("my \"job\".py", "<module>", 1), 7);
  const StackId layer = maker_.AddFrame(main, call, 2, module);
  const SpanId op = maker_.Add(thread_, maker_.AddOperator("aten::linear"), 1000, 2000);
  ASSERT_TRUE(maker_.SetStack(op, layer).ok());
  for (const SpanId parent : {op, kNoSpan}) {
    MemoryEvent event;
    event.time_ns = 1500;
    event.thread = thread_;
    event.parent = parent;
    ASSERT_TRUE(maker_.AddMemoryEvent(event).ok());
  }
  const Json trace = Export();
  EXPECT_EQ(trace["with_stack"], 1);
  EXPECT_EQ(trace["with_modules"], 1);
  const std::vector<Json> rows = WithPhase(trace, "X");
  ASSERT_EQ(rows.size(), 3u);
  EXPECT_EQ(rows[0]["cat"], "python_function");
  EXPECT_EQ(rows[0]["name"], "my \"job\".py(1): <module>");
  EXPECT_EQ(rows[0]["args"],
            Json::parse(R"({"Python parent id": null, "Python id": 1, "Ev Idx": 3})"));
  EXPECT_EQ(rows[1]["name"], "nn.Module: Linear_3");
  EXPECT_EQ(rows[1]["args"], Json::parse(R"({"Python parent id": 1, "Python id": 2,
                                             "Python module id": 3, "Ev Idx": 4})"));
  EXPECT_EQ(rows[2]["name"], "aten::linear");
  const std::string frames = "nn.Module: Linear_3;my \"job\".py(1): <module>;";
  EXPECT_EQ(rows[2]["args"]["Call stack"], frames);
  const std::vector<Json> memory = WithPhase(trace, "i");
  ASSERT_GE(memory.size(), 2u);
  EXPECT_EQ(memory[0]["args"]["Call stack"], frames);
  EXPECT_FALSE(memory[1]["args"].contains("Call stack")) << "more of Python may run there";
  for (const Json& row : rows) {
    EXPECT_EQ(row["ts"], rows[2]["ts"]);
    EXPECT_EQ(row["dur"], rows[2]["dur"]);
    EXPECT_EQ(row["tid"], 4712);
  }
}

TEST(ChromeTraceNestingTest, RowsOfPythonNestInOtherRows) {
  const std::unique_ptr<Timeline> timeline = MakePythonTimeline(1, 5'000);
  const Aggregates aggregates = Aggregate(*timeline, {.step_rows = true});
  StringSink sink;
  absl::Status status = ExportChromeTrace(*timeline, sink, aggregates.step_rows, std::nullopt, {},
                                          aggregates.python_rows);
  ASSERT_TRUE(status.ok());
  const Json trace = Json::parse(sink.text());
  size_t rows = 0;
  std::vector<std::pair<int64_t, Json>> open;  // ends and their rows
  for (const Json& event : trace["traceEvents"]) {
    if (event["ph"] != "X" || event["cat"] == "Trace") continue;
    const int64_t start = std::llround(event["ts"].get<double>() * 1000);
    const int64_t end = start + std::llround(event["dur"].get<double>() * 1000);
    while (!open.empty() && open.back().first <= start) open.pop_back();
    ASSERT_TRUE(open.empty() || end <= open.back().first) << event.dump();
    if (event["cat"] == "python_function") {
      ++rows;
      const auto parent = std::find_if(open.rbegin(), open.rend(), [](const auto& around) {
        return around.second["cat"] == "python_function";
      });
      EXPECT_EQ(event["args"]["Python parent id"],
                parent == open.rend() ? Json() : parent->second["args"]["Python id"]);
    }
    open.emplace_back(end, event);
  }
  EXPECT_EQ(rows, aggregates.python_rows.size());
  EXPECT_GT(rows, 1'000u);
  // Where steps cut annotations: those that cannot be drawn nested are the same without Python.
  StringSink without;
  ASSERT_TRUE(ExportChromeTrace(*timeline, without, aggregates.step_rows).ok());
  const auto count_async = [](const std::string& text) {
    size_t count = 0;
    for (size_t at = 0; (at = text.find("{\"ph\": \"b\"", at)) != std::string::npos; ++at) ++count;
    return count;
  };
  EXPECT_EQ(count_async(sink.text()), count_async(without.text()));
}

TEST(ChromeTraceNestingTest, EveryTrackNestsInABigTrace) {
  const std::unique_ptr<Timeline> timeline = MakeTrainingTimeline(20'000, 2);
  StringSink sink;
  ASSERT_TRUE(ExportChromeTrace(*timeline, sink).ok());
  const Json trace = Json::parse(sink.text());
  std::map<int64_t, std::vector<int64_t>> open;  // by tid: ends
  size_t rows = 0;
  for (const Json& event : trace["traceEvents"]) {
    if (event["ph"] != "X" || event["cat"] == "Trace") continue;
    ++rows;
    const int64_t start = std::llround(event["ts"].get<double>() * 1000);
    const int64_t end = start + std::llround(event["dur"].get<double>() * 1000);
    std::vector<int64_t>& ends = open[event["tid"]];
    while (!ends.empty() && ends.back() <= start) ends.pop_back();
    ASSERT_TRUE(ends.empty() || end <= ends.back()) << event.dump();
    ends.push_back(end);
  }
  EXPECT_EQ(rows, timeline->span_count());
}

}  // namespace
}  // namespace proftrace
