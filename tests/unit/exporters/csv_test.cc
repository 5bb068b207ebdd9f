#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "exporters/sinks/escape.h"
#include "exporters/tables/csv.h"
#include "tests/support/timeline_maker.h"

namespace proftrace {
namespace {

using Row = std::map<std::string, std::string>;

// A strict reader of RFC 4180 (with line ends of either kind).
std::vector<std::vector<std::string>> ReadCsv(const std::string& text) {
  std::vector<std::vector<std::string>> rows = {{""}};
  bool quoted = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    std::string& field = rows.back().back();
    if (quoted) {
      if (c != '"') {
        field.push_back(c);
      } else if (i + 1 < text.size() && text[i + 1] == '"') {
        field.push_back('"');
        ++i;
      } else {
        quoted = false;
      }
    } else if (c == '"') {
      EXPECT_TRUE(field.empty()) << "a quote inside a bare field, byte " << i;
      quoted = true;
    } else if (c == ',') {
      rows.back().emplace_back();
    } else if (c == '\n') {
      rows.push_back({""});
    } else {
      field.push_back(c);
    }
  }
  EXPECT_FALSE(quoted);
  EXPECT_EQ(rows.back(), std::vector<std::string>{""}) << "no line end at the end";
  rows.pop_back();
  return rows;
}

std::vector<Row> ReadTable(const std::string& text) {
  const std::vector<std::vector<std::string>> lines = ReadCsv(text);
  std::vector<Row> rows;
  for (size_t i = 1; i < lines.size(); ++i) {
    EXPECT_EQ(lines[i].size(), lines[0].size()) << "line " << i;
    Row row;
    for (size_t column = 0; column < std::min(lines[i].size(), lines[0].size()); ++column) {
      row[lines[0][column]] = lines[i][column];
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

std::vector<Row> Events(TimelineMaker& maker) {
  const std::unique_ptr<Timeline> timeline = maker.Finish();
  StringSink sink;
  EXPECT_TRUE(ExportEventsCsv(*timeline, FindSteps(*timeline), {}, sink).ok());
  return ReadTable(sink.text());
}

TEST(EventsCsvTest, HasOneRowASpanAndEmptyCellsForTheRest) {
  TimelineMaker maker;
  maker.info().window.monotonic_to_unix_ns = 1'000'000;
  const ThreadIndex thread = maker.AddThread(11, 12, "a,b");
  maker.Begin(thread, maker.AddAnnotation("step"), 100);
  maker.Add(thread, maker.AddOperator("aten::add", "Tensor"), 110, 150, SpanEnd::kException);
  maker.End(thread, 200);
  const std::vector<Row> rows = Events(maker);
  ASSERT_EQ(rows.size(), 2u);
  ASSERT_EQ(rows[0].size(), 39u);
  const Row& row = rows[1];
  const Row expected = {
      {"id", "1"},
      {"parent_id", "0"},
      {"depth", "1"},
      {"path", "step/aten::add"},
      {"name", "aten::add"},
      {"overload_name", "Tensor"},
      {"category", "cpu_op"},
      {"scope", "FUNCTION"},
      {"pid", "11"},
      {"tid", "12"},
      {"thread_name", "a,b"},
      {"start_ns", "1000110"},
      {"duration_ns", "40"},
      {"self_ns", "40"},
      {"device_type", "CPU"},
      {"external_id", "2"},
      {"is_async", "0"},
      {"end", "exception"},
  };
  for (const auto& [column, value] : row) {
    const auto it = expected.find(column);
    EXPECT_EQ(value, it == expected.end() ? "" : it->second) << column;
  }
  EXPECT_EQ(rows[0].at("parent_id"), "");
  EXPECT_EQ(rows[0].at("self_ns"), "60");
  EXPECT_EQ(rows[0].at("scope"), "USER_SCOPE");
  EXPECT_EQ(rows[0].at("end"), "return");
}

TEST(EventsCsvTest, StacksAreTheLinesThatRunAndTheInnermostModule) {
  TimelineMaker maker;
  const ThreadIndex thread = maker.AddThread(1, 1, "python3");
  PythonModule root;
  root.class_name = "Net";
  root.has_path = true;
  PythonModule layer;
  layer.class_name = "Linear";
  layer.number = 2;
  layer.path = "encoder.0";
  layer.has_path = true;
  const uint32_t call = maker.AddCode("torch/nn/modules/module.py", "_wrapped_call_impl", 1773);
  const StackId main = maker.AddFrame(kNoStack, maker.AddCode("a \"b\", c.py", "<module>", 1), 6);
  const StackId net = maker.AddFrame(main, call, 3, maker.AddModule(root));
  const StackId forward = maker.AddFrame(net, maker.AddCode("net.py", "forward", 20), 2);
  const StackId linear = maker.AddFrame(forward, call, 3, maker.AddModule(layer));
  int64_t now = 0;
  for (const StackId stack : {kNoStack, main, forward, linear, linear}) {
    const SpanId span = maker.Add(thread, maker.AddOperator("aten::add"), now, now + 1);
    ASSERT_TRUE(maker.SetStack(span, stack).ok());
    now += 10;
  }
  const std::vector<Row> rows = Events(maker);
  ASSERT_EQ(rows.size(), 5u);
  for (const char* column : {"module", "module_class", "stack"}) EXPECT_EQ(rows[0].at(column), "");
  const std::string first = "a \"b\", c.py(7): <module>";
  EXPECT_EQ(rows[1].at("stack"), first);
  EXPECT_EQ(rows[1].at("module_class"), "");
  EXPECT_EQ(rows[2].at("stack"), first + ";nn.Module: Net_0;net.py(22): forward");
  EXPECT_EQ(rows[2].at("module"), "");
  EXPECT_EQ(rows[2].at("module_class"), "Net_0");
  EXPECT_EQ(rows[3].at("stack"),
            first + ";nn.Module: Net_0;net.py(22): forward;nn.Module: Linear_2");
  EXPECT_EQ(rows[3].at("module"), "encoder.0");
  EXPECT_EQ(rows[3].at("module_class"), "Linear_2");
  EXPECT_EQ(rows[4].at("stack"), rows[3].at("stack"));
  EXPECT_EQ(rows[4].at("end"), "return");
}

TEST(EventsCsvTest, NamesAreExact) {
  const std::string long_name(5000, 'x');
  const std::vector<std::string> names = {"a,b", "say \"hi\"", "two\nlines\r\n",
                                          ";",   "</script>",  "\xF0\x9F\x94\xA5",
                                          "",    long_name,    " blank "};
  TimelineMaker maker;
  const ThreadIndex thread = maker.AddThread(1, 1, "python3");
  int64_t now = 0;
  for (const std::string& name : names) {
    maker.Begin(thread, maker.AddAnnotation(name), now);
    maker.Add(thread, maker.AddOperator("inner"), now + 1, now + 2);
    maker.End(thread, now + 3);
    now += 10;
  }
  const std::vector<Row> rows = Events(maker);
  ASSERT_EQ(rows.size(), 2 * names.size());
  for (size_t i = 0; i < names.size(); ++i) {
    EXPECT_EQ(rows[2 * i].at("name"), names[i]);
    EXPECT_EQ(rows[2 * i + 1].at("path"), names[i] + "/inner");
  }
}

// What escape.h says of how text is had back.
std::string WithoutGuard(const std::string& field) {
  const size_t first = field.find_first_not_of('\'');
  if (field.empty() || field[0] != '\'' || first == std::string::npos) return field;
  const std::string rest = field.substr(first);
  bool is_formula = std::string("=+-@\t\r\n").find(rest[0]) != std::string::npos;
  for (const char* wide : {"＝", "＋", "－", "＠"}) is_formula |= rest.starts_with(wide);
  return is_formula ? field.substr(1) : field;
}

const std::vector<std::string>& Formulas() {
  static const std::vector<std::string> names = {"=cmd|' /C calc'!A0",
                                                 "+1+1",
                                                 "-2+3",
                                                 "@SUM(1,2)",
                                                 "\t=1",
                                                 "\r=1",
                                                 "\n=1",
                                                 "＝1",
                                                 "＋1",
                                                 "－1",
                                                 "＠SUM",
                                                 "'=1",
                                                 "''=1,\"",
                                                 "=\"x\"",
                                                 "-"};
  return names;
}

TEST(CsvFieldTest, FormulasAreGuardedAndHadBack) {
  for (const std::string& name : Formulas()) {
    const std::string field = ReadCsv(CsvField(name) + "\n")[0][0];
    EXPECT_EQ(field, "'" + name);
    EXPECT_EQ(WithoutGuard(field), name);
    EXPECT_EQ(ReadCsv(CsvField(name, CsvText::kExact) + "\n")[0][0], name);
  }
  for (const std::string name : {"", "'", "''", "'quoted'", "aten::add", " =1", "a=b", "[-1]",
                                 "日本", "[[2, 3]]", "{\"a\": 1}"}) {
    EXPECT_EQ(ReadCsv(CsvField(name) + "\n")[0][0], name);
    EXPECT_EQ(WithoutGuard(name), name);
  }
}

TEST(EventsCsvTest, NoTextIsAFormulaAndNumbersStayNumbers) {
  for (const CsvText kind : {CsvText::kForSpreadsheets, CsvText::kExact}) {
    TimelineMaker maker;
    maker.info().window.start_ns = 0;
    const std::string thread_name = "=HYPERLINK(1)";
    const ThreadIndex thread = maker.AddThread(11, 12, thread_name);
    int64_t ns = 100;
    RecordedSteps steps;
    steps.pid = Pid{11};
    steps.tid = Tid{12};
    for (const std::string& name : Formulas()) {
      steps.intervals.emplace_back(ns, ns + 100);
      maker.Begin(thread, maker.AddAnnotation(name), ns + 10);
      maker.Add(thread, maker.AddOperator("inner", name), ns + 20, ns + 30);
      maker.End(thread, ns + 90);
      ns += 100;
    }
    maker.info().steps = steps;
    const std::unique_ptr<Timeline> timeline = maker.Finish();
    const Steps found = FindSteps(*timeline);
    for (const bool with_steps : {false, true}) {
      const StepRows step_rows = with_steps ? StepRows(*timeline, found) : StepRows();
      StringSink sink;
      ASSERT_TRUE(ExportEventsCsv(*timeline, found, step_rows, sink, kind).ok());
      size_t at = 0;
      for (const Row& row : ReadTable(sink.text())) {
        if (row.at("name").starts_with("ProfilerStep#")) continue;
        const std::string& name = Formulas()[at / 2];
        const std::string step =
            with_steps ? "ProfilerStep#" + std::to_string(at / 2) + "/" : std::string();
        const bool is_inner = at++ % 2 == 1;
        const auto guarded = [kind](const std::string& text) {
          return (kind == CsvText::kExact ? "" : "'") + text;
        };
        const std::string path = step + name + (is_inner ? "/inner" : "");
        EXPECT_EQ(row.at("path"), with_steps ? path : guarded(path));
        EXPECT_EQ(row.at("name"), is_inner ? "inner" : guarded(name));
        EXPECT_EQ(row.at("overload_name"), is_inner ? guarded(name) : "");
        EXPECT_EQ(row.at("thread_name"), guarded(thread_name));
        EXPECT_EQ(row.at("tid"), "12");
      }
      EXPECT_EQ(at, 2 * Formulas().size());
    }
  }
}

TEST(EventsCsvTest, NegativeNumbersAreNotGuarded) {
  TimelineMaker maker;
  maker.info().targets.resize(1);
  maker.info().targets[0].memory_recorded = true;
  const ThreadIndex thread = maker.AddThread(11, 12, "a");
  maker.Add(thread, maker.AddOperator("aten::add"), 100, 110);
  MemoryEvent event;
  event.thread = thread;
  event.time_ns = 200;
  event.device_index = -1;
  event.bytes = -512;
  ASSERT_TRUE(maker.AddMemoryEvent(event).ok());
  EXPECT_EQ(Events(maker).back().at("cpu_memory_bytes"), "-512");
}

TEST(EventsCsvTest, InvalidUtf8AndNulAreReplaced) {
  TimelineMaker maker;
  const ThreadIndex thread = maker.AddThread(1, 1, "python3");
  maker.Add(thread, maker.AddOperator(std::string("a\0b\xff\xc3(", 6)), 0, 1);
  EXPECT_EQ(Events(maker)[0].at("name"), "a\uFFFDb\uFFFD\uFFFD(");
}

TEST(EventsCsvTest, NoSpansGiveTheHeaderOnly) {
  TimelineMaker maker;
  EXPECT_TRUE(Events(maker).empty());
}

TEST(KeyAveragesCsvTest, HasOneRowAKey) {
  KeyAverages averages;
  averages.rows = {{"aten::add", "Ten\"sor", 3, 1'500, 3'000'001}, {"wait", "", 1, 0, 50}};
  averages.rows[1].is_async = true;
  averages.rows[1].stack = {"a.py(10): f", "a.py(1): main"};
  averages.self_cpu_time_total_ns = 3'000;
  StringSink sink;
  ASSERT_TRUE(ExportKeyAveragesCsv(averages, sink).ok());
  const std::vector<Row> rows = ReadTable(sink.text());
  ASSERT_EQ(rows.size(), 2u);
  ASSERT_EQ(rows[0].size(), 26u);
  EXPECT_EQ(rows[0].at("name"), "aten::add");
  EXPECT_EQ(rows[0].at("overload_name"), "Ten\"sor");
  EXPECT_EQ(rows[0].at("count"), "3");
  EXPECT_EQ(rows[0].at("self_cpu_time_total_us"), "1.500");
  EXPECT_EQ(rows[0].at("cpu_time_total_us"), "3000.001");
  EXPECT_EQ(rows[0].at("cpu_time_us"), "1000.000");
  EXPECT_EQ(rows[0].at("self_cpu_percent"), "50.0000");
  EXPECT_EQ(rows[0].at("flops"), "");
  EXPECT_EQ(rows[0].at("device_type"), "CPU");
  EXPECT_EQ(rows[0].at("is_async"), "0");
  EXPECT_EQ(rows[1].at("is_async"), "1");
  EXPECT_EQ(rows[1].at("cpu_percent"), "0.0000");
  EXPECT_EQ(rows[0].at("stack"), "");
  EXPECT_EQ(rows[1].at("stack"), "a.py(1): main;a.py(10): f");
}

TEST(EventsCsvTest, StepsHaveTheirPlaceInPathsThatAreCut) {
  TimelineMaker maker;
  maker.info().window.start_ns = 0;
  const ThreadIndex thread = maker.AddThread(11, 12, "");
  const LabelId leak = maker.AddAnnotation("a,b");
  const LabelId op = maker.AddOperator("aten::add");
  int64_t ns = 100;
  for (uint32_t i = 0; i < kMostPathLevels + 5; ++i) maker.Begin(thread, leak, ns++);
  RecordedSteps steps;
  steps.pid = Pid{11};
  steps.tid = Tid{12};
  for (int i = 0; i < 3; ++i) {
    steps.intervals.emplace_back(ns, ns + 100);
    maker.Begin(thread, op, ns + 10);
    maker.Add(thread, op, ns + 20, ns + 30);
    maker.End(thread, ns + 90);
    ns += 100;
  }
  maker.info().steps = steps;
  for (uint32_t i = 0; i < kMostPathLevels + 5; ++i) maker.End(thread, ++ns);
  const std::unique_ptr<Timeline> timeline = maker.Finish();
  const Steps found = FindSteps(*timeline);
  const StepRows step_rows(*timeline, found);
  ASSERT_EQ(step_rows.rows().size(), 3u);
  StringSink sink;
  ASSERT_TRUE(ExportEventsCsv(*timeline, found, step_rows, sink).ok());
  std::string whole;
  for (uint32_t i = 0; i < kMostPathLevels; ++i) whole += "a,b/";
  std::vector<std::string> paths;
  for (const Row& row : ReadTable(sink.text())) {
    if (row.at("name") == "aten::add") paths.push_back(row.at("path"));
  }
  ASSERT_EQ(paths.size(), 6u);
  EXPECT_EQ(paths[0], whole + "…/ProfilerStep#0/aten::add");
  EXPECT_EQ(paths[5], whole + "…/ProfilerStep#2/aten::add");
}

}  // namespace
}  // namespace proftrace
