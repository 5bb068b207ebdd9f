// The folded file, the flame graph's data and the summary.
#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>
#include <string>

#include "exporters/stacks/flamegraph_html.h"
#include "exporters/stacks/folded.h"
#include "exporters/text/summary_json.h"
#include "tests/support/python_program.h"
#include "tests/support/timeline_maker.h"
#include "userspace/aggregate/aggregates.h"

namespace proftrace {
namespace {

class StacksTest : public testing::Test {
 protected:
  std::string Folded(StackWeight weight = StackWeight::kSelfCpuTime) {
    Build();
    StringSink sink;
    EXPECT_TRUE(ExportFolded(aggregates_.stacks, weight, sink).ok());
    return sink.text();
  }

  std::string Page() {
    Build();
    StringSink sink;
    const RecordingWords words = WordsOf(*timeline_, aggregates_);
    EXPECT_TRUE(ExportFlamegraph(words, aggregates_.stacks, StackWeight::kSelfCpuTime, sink).ok());
    return sink.text();
  }

  void Build() {
    timeline_ = maker_.Finish();
    aggregates_ = Aggregate(*timeline_, {});
  }

  TimelineMaker maker_;
  ThreadIndex thread_ = maker_.AddThread(4711, 4711, "python3");
  std::unique_ptr<Timeline> timeline_;
  Aggregates aggregates_;
};

TEST_F(StacksTest, FoldedLinesHaveSelfTimeFromTheRoot) {
  maker_.Begin(thread_, maker_.AddAnnotation("step"), 0);
  maker_.Add(thread_, maker_.AddOperator("aten::mul"), 10'000, 13'000);
  maker_.Add(thread_, maker_.AddOperator("aten::add"), 20'000, 25'000);
  maker_.End(thread_, 100'000);
  EXPECT_EQ(Folded(), "step 92\nstep;aten::add 5\nstep;aten::mul 3\n");
}

TEST_F(StacksTest, FoldedCountsAreThoseOfSpans) {
  for (const int64_t start_ns : {0, 100}) {
    maker_.Begin(thread_, maker_.AddAnnotation("step"), start_ns);
    maker_.Add(thread_, maker_.AddOperator("aten::mul"), start_ns + 10, start_ns + 13);
    maker_.End(thread_, start_ns + 50);
  }
  EXPECT_EQ(Folded(StackWeight::kCount), "step 2\nstep;aten::mul 2\n");
}

TEST_F(StacksTest, FoldedWeightsAddUpAfterRounding) {
  for (int i = 0; i < 10; ++i) {
    maker_.Add(thread_, maker_.AddOperator("op" + std::to_string(i)), i * 10'000,
               i * 10'000 + 400 + i);
  }
  std::istringstream lines(Folded());  // 4.045 us altogether
  int64_t total = 0;
  for (std::string line; std::getline(lines, line);)
    total += std::stoll(line.substr(line.rfind(' ') + 1));
  EXPECT_EQ(total, 4);
}

TEST_F(StacksTest, FoldedFramesCannotBreakTheGrammar) {
  maker_.Add(thread_,
             maker_.AddAnnotation("a;b\nc\xE2\x80\xA8"
                                  "d"),
             0, 1'000);
  maker_.Add(thread_, maker_.AddAnnotation(""), 2'000, 3'000);
  EXPECT_EQ(Folded(), "[unnamed] 1\na:b c d 1\n");
}

TEST_F(StacksTest, NumbersAtTheEndOfAFrameAreNoWeights) {
  int64_t start_ns = 0;
  for (const char* name : {"epoch 3", "lr 0.5", "v 1.", "12", "top-1 of 5x", "a .5", "b 1.x"}) {
    maker_.Add(thread_, maker_.AddAnnotation(name), start_ns, start_ns + 1'000);
    start_ns += 2'000;
  }
  EXPECT_EQ(Folded(), "12 1\na .5 1\nb 1.x 1\nepoch_3 1\nlr_0.5 1\ntop-1 of 5x 1\nv_1. 1\n");
}

TEST_F(StacksTest, PythonsFramesAreBelowWhatTheyRun) {
  PythonModule linear;
  linear.class_name = "Linear";
  const uint32_t module = maker_.AddModule(linear);
  const uint32_t main = maker_.AddCode("my train.py", "main", 1);
  const uint32_t call = maker_.AddCode("torch/nn/modules/module.py", "_wrapped_call_impl", 1773);
  const uint32_t enter = maker_.AddCode("torch/autograd/profiler.py", "__enter__", 854);
  const uint32_t hook = maker_.AddCode("hook.py", "hook", 5);
  const auto begin = [this](LabelId label, StackId stack, int64_t start_ns) {
    const SpanId span = maker_.Begin(thread_, label, start_ns);
    EXPECT_TRUE(maker_.SetStack(span, stack).ok());
    return span;
  };
  const auto at_line = [&](uint32_t line) { return maker_.AddFrame(kNoStack, main, line); };
  const StackId layer = maker_.AddFrame(at_line(3), call, 2, module);
  begin(maker_.AddAnnotation("forward"), maker_.AddFrame(at_line(2), enter), 0);
  begin(maker_.AddOperator("aten::linear"), layer, 10'000);
  begin(maker_.AddOperator("aten::t"), layer, 11'000);
  maker_.End(thread_, 12'000);
  maker_.Add(thread_, maker_.AddOperator("aten::unknown"), 12'000, 13'000);  // without a stack
  begin(maker_.AddOperator("aten::mul"), maker_.AddFrame(layer, hook), 13'000);
  maker_.End(thread_, 15'000);
  maker_.End(thread_, 20'000);
  maker_.End(thread_, 30'000);
  const SpanSequence sequence = {.number_plus_1 = 1, .forward_number = 1};
  const SpanId engine = begin(maker_.AddOperator("evaluate"), at_line(4), 40'000);
  ASSERT_TRUE(maker_.SetSequence(engine, sequence).ok());
  Label node_label;
  node_label.name = "LinearBackward0";
  node_label.scope = Scope::kBackwardFunction;
  const SpanId node = begin(maker_.AddLabel(node_label), layer, 42'000);
  ASSERT_TRUE(maker_.SetSequence(node, sequence).ok());
  begin(maker_.AddOperator("aten::mm"), layer, 44'000);
  maker_.End(thread_, 45'000);
  maker_.End(thread_, 46'000);
  maker_.End(thread_, 50'000);
  const std::string main_frame = "my train.py(1): main";
  const std::string in_forward = main_frame + ";forward;nn.Module: Linear_0;aten::linear";
  EXPECT_EQ(Folded(), main_frame + ";evaluate 6\n" + main_frame + ";forward 20\n" + in_forward +
                          " 6\n" + in_forward + ";aten::t 1\n" + in_forward + ";aten::unknown 1\n" +
                          in_forward + ";hook.py(5): hook;aten::mul 2\n" + main_frame +
                          ";nn.Module: Linear_0;LinearBackward0 3\n" + main_frame +
                          ";nn.Module: Linear_0;LinearBackward0;aten::mm 1\n");
  EXPECT_EQ(aggregates_.span_counts.of(SpanKind::kOperator), 7u);
  EXPECT_EQ(aggregates_.span_counts.of(SpanKind::kAnnotation), 1u);
}

TEST_F(StacksTest, NoTimeIsLostBetweenPythonsFrames) {
  timeline_ = MakePythonTimeline(3, 5'000);
  aggregates_ = Aggregate(*timeline_, {});
  int64_t total_ns = 0;
  for (uint32_t i = 0; i < timeline_->span_count(); ++i) {
    total_ns += timeline_->span(SpanId{i}).self_ns;
  }
  EXPECT_EQ(aggregates_.stacks.Find(StackWeight::kSelfCpuTime)->total, total_ns);
  for (uint32_t i = 1; i < aggregates_.stacks.nodes.size(); ++i) {
    EXPECT_LT(aggregates_.stacks.nodes[i].parent, i);
  }
}

TEST_F(StacksTest, FoldedIsEmptyWithoutSpans) { EXPECT_EQ(Folded(), ""); }

TEST_F(StacksTest, VeryDeepStacksAreWritten) {
  const LabelId label = maker_.AddOperator("f");
  for (int i = 0; i < 20'000; ++i) maker_.Begin(thread_, label, i);
  for (int i = 0; i < 20'000; ++i) maker_.End(thread_, 30'000 + i);
  const std::string text = Folded();
  EXPECT_NE(text.find("f;f;f"), std::string::npos);
}

TEST_F(StacksTest, PageKeepsItsDataInsideTheScriptElement) {
  maker_.info().trace_name = "</title><!-- \"x\"";
  maker_.Add(thread_, maker_.AddAnnotation("</script><script>alert(1)</script> \xF0\x9F\x94\xA5"),
             0, 1'000);
  maker_.Add(thread_, maker_.AddOperator(std::string("\0\xff;", 3)), 2'000, 5'000);
  maker_.Add(thread_, maker_.AddOperator("aten::lost"), 6'000, 7'000, SpanEnd::kTruncated);
  const std::string page = Page();
  const std::string start = "<script id=\"data\" type=\"application/json\">";
  const size_t from = page.find(start);
  ASSERT_NE(from, std::string::npos);
  const size_t to = page.find("</script>", from);
  const std::string data = page.substr(from + start.size(), to - from - start.size());
  EXPECT_EQ(data.find('<'), std::string::npos);
  const nlohmann::json json = nlohmann::json::parse(data);
  EXPECT_EQ(json["title"], "</title><!-- \"x\"");
  EXPECT_EQ(json["frames"][0], "</script><script>alert(1)</script> \xF0\x9F\x94\xA5");
  EXPECT_EQ(json["frames"][1], "\uFFFD\uFFFD;");
  EXPECT_EQ(json["kinds"], nlohmann::json::parse("[2,0,0]"));
  EXPECT_EQ(json["nodes"], nlohmann::json::parse("[0,0,1,0,1,1,0,2,0]"));
  ASSERT_EQ(json["weights"].size(), 2u);
  EXPECT_EQ(json["weights"][0]["name"], "self_cpu_time_total");
  EXPECT_EQ(json["weights"][1]["unit"], "count");
  EXPECT_EQ(json["values"], nlohmann::json::parse("[[1000,3000,0],[1,1,0]]"));
  EXPECT_EQ(json["first"], 0);
  EXPECT_EQ(json["steps"], nullptr);
  EXPECT_FALSE(json.contains("before"));
  EXPECT_EQ(json["incomplete"], 1);
}

TEST_F(StacksTest, PageNeedsNoNetwork) {
  const std::string page = Page();
  for (const char* forbidden :
       {"http:", "https:", "src=", "@import", "url(", "fetch(", "@DATA@", "@SCRIPT@"}) {
    EXPECT_EQ(page.find(forbidden), std::string::npos) << forbidden;
  }
}

TEST_F(StacksTest, PageHasTheElementsThatItsScriptAsksFor) {
  const std::string page = Page();
  const std::regex used(R"(\$\('([a-z_]+)'\))");
  int count = 0;
  for (std::sregex_iterator it(page.begin(), page.end(), used), end; it != end; ++it, ++count) {
    EXPECT_NE(page.find("id=\"" + (*it)[1].str() + "\""), std::string::npos) << (*it)[1];
  }
  EXPECT_GT(count, 20);
}

TEST_F(StacksTest, SummaryHasTheContractsFields) {
  maker_.Add(thread_, maker_.AddOperator("aten::add"), 0, 10);
  maker_.Add(thread_, maker_.AddAnnotation("step"), 20, 30);
  maker_.info().arguments = {"-p", "1\xff"};
  maker_.info().targets[0].rank = 2;
  Build();
  StringSink sink;
  ASSERT_TRUE(ExportSummary(*timeline_, aggregates_, sink).ok());
  const nlohmann::json json = nlohmann::json::parse(sink.text());
  for (const char* key : {"schema_version", "proftrace", "host", "target", "window", "events",
                          "ledger", "cost", "steps", "unsupported"}) {
    EXPECT_TRUE(json.contains(key)) << key;
  }
  EXPECT_EQ(json["proftrace"]["arguments"][1], "1\uFFFD");
  EXPECT_EQ(json["target"][0]["rank"], 2);
  EXPECT_EQ(json["target"][0]["torch_version"], nullptr);
  EXPECT_EQ(json["events"]["operators"], 1);
  EXPECT_EQ(json["events"]["annotations"], 1);
  EXPECT_EQ(json["events"]["autograd"], 0);
  EXPECT_FALSE(json["events"].contains("python"));  // stacks were not recorded
  EXPECT_EQ(json["ledger"]["records"], 4);
  EXPECT_EQ(json["steps"]["how"], "not detected");
  EXPECT_EQ(json["window"]["start_unix_ns"],
            timeline_->ToUnixNs(timeline_->info().window.start_ns));
}

}  // namespace
}  // namespace proftrace
