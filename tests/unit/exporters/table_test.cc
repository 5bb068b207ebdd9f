#include <gtest/gtest.h>

#include <memory>
#include <nlohmann/json.hpp>

#include "exporters/text/summary_json.h"
#include "exporters/text/table.h"
#include "tests/support/timeline_maker.h"
#include "userspace/base/exit_status.h"

namespace proftrace {
namespace {

KeyAverages ThreeRows() {
  KeyAverages averages;
  averages.rows = {{"aten::linear", "", 2, 1'500, 3'000'000},
                   {"aten::addmm", "", 4, 2'997'000, 2'997'000},
                   {"wait", "", 1, 0, 2'500'000'000}};
  averages.rows[0].is_top_level = true;
  averages.rows[2].is_async = true;
  averages.self_cpu_time_total_ns = 2'998'500;
  return averages;
}

TEST(TableTest, HasTorchsLayout) {
  const absl::StatusOr<std::string> text = FormatTable(ThreeRows(), {});
  ASSERT_TRUE(text.ok());
  EXPECT_EQ(*text,
            "----------------  ------------  ------------  ------------  ------------  "
            "------------  ------------  \n"
            "            Name    Self CPU %      Self CPU   CPU total %     CPU total  CPU time "
            "avg    # of Calls  \n"
            "----------------  ------------  ------------  ------------  ------------  "
            "------------  ------------  \n"
            "    aten::linear         0.05%       1.500us       100.05%       3.000ms       "
            "1.500ms             2  \n"
            "     aten::addmm        99.95%       2.997ms        99.95%       2.997ms     "
            "749.250us             4  \n"
            "            wait         0.00%       0.000us             0        2.500s        "
            "2.500s             1  \n"
            "----------------  ------------  ------------  ------------  ------------  "
            "------------  ------------  \n"
            "Self CPU time total: 2.998ms\n");
}

// What torch 2.11 prints: FLOPs stand below the other column's header.
TEST(TableTest, StacksAreLinesBelowEachRow) {
  KeyAverages averages;
  averages.rows = {{"aten::mm", "", 1, 2'000, 2'000}, {"aten::t", "", 1, 1'000, 1'000}};
  averages.rows[0].flops = 2000;
  averages.rows[0].stack = {"linear.py(130): forward", std::string(80, 'a') + "\xCF\x80"};
  averages.self_cpu_time_total_ns = 3'000;
  averages.has_flops = true;
  const absl::StatusOr<std::string> text = FormatTable(averages, {});
  ASSERT_TRUE(text.ok());
  EXPECT_EQ(*text,
            "------------  ------------  ------------  ------------  ------------  ----------"
            "--  ------------  --------------------------------------------------------------"
            "-------------  ------------  \n"
            "        Name    Self CPU %      Self CPU   CPU total %     CPU total  CPU time a"
            "vg    # of Calls  Source Location                                               "
            "               Total KFLOPs  \n"
            "------------  ------------  ------------  ------------  ------------  ----------"
            "--  ------------  --------------------------------------------------------------"
            "-------------  ------------  \n"
            "    aten::mm        66.67%       2.000us        66.67%       2.000us       2.000"
            "us             1     2.000                                                      "
            "               linear.py(130): forward  \n"
            "                                                                                "
            "                                                                                "
            "               ...aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
            "aaaaaaaaa\xCF\x80  \n"
            "                                                                                "
            "                                                                                "
            "                             \n"
            "     aten::t        33.33%       1.000us        33.33%       1.000us       1.000"
            "us             1  --                                                            "
            "                             \n"
            "                                                                                "
            "                                                                                "
            "                             \n"
            "------------  ------------  ------------  ------------  ------------  ----------"
            "--  ------------  --------------------------------------------------------------"
            "-------------  ------------  \n"
            "Self CPU time total: 3.000us\n");
}

TEST(TableTest, SortsAndLimits) {
  const KeyAverages averages = ThreeRows();
  const auto shown = ShownRows(averages, {.sort_by = "cpu_time_total", .row_limit = 2});
  ASSERT_EQ(shown.size(), 2u);
  EXPECT_EQ(shown[0]->name, "wait");
  EXPECT_EQ(shown[1]->name, "aten::linear");
  EXPECT_EQ(ShownRows(averages, {.sort_by = "count"})[0]->name, "aten::addmm");
  EXPECT_EQ(ShownRows(averages, {.top_level_events_only = true}).size(), 1u);
  EXPECT_EQ(ShownRows(averages, {.row_limit = -1}).size(), 3u);
  EXPECT_EQ(ShownRows(averages, {.row_limit = 0}).size(), 0u);
}

TEST(TableTest, UnknownSortKeyFailsWithTheValidOnes) {
  const absl::StatusOr<std::string> text = FormatTable(ThreeRows(), {.sort_by = "speed"});
  EXPECT_EQ(ExitCodeOf(text.status()), ExitCode::kUsage);
  for (const std::string& key : TableSortKeys()) {
    EXPECT_NE(text.status().message().find(key), std::string::npos) << key;
  }
}

TEST(TableTest, LongNamesAreCutByCharacters) {
  KeyAverages averages = ThreeRows();
  averages.rows[0].name = "";
  for (int i = 0; i < 5000; ++i) averages.rows[0].name += "é";
  const std::string text = *FormatTable(averages, {.max_name_column_width = 10});
  EXPECT_NE(text.find("\nééééééé...  "), std::string::npos);
  EXPECT_EQ(ExitCodeOf(CheckTableOptions({.max_name_column_width = 3})), ExitCode::kUsage);
  EXPECT_EQ(ExitCodeOf(CheckTableOptions({.max_shapes_column_width = 0})), ExitCode::kUsage);
  EXPECT_EQ(ExitCodeOf(CheckTableOptions({.max_src_column_width = -2})), ExitCode::kUsage);
}

TEST(TableTest, ControlCharactersDoNotReachTheTerminal) {
  KeyAverages averages = ThreeRows();
  averages.rows[0].name = "a\x1b[31mb\nc";
  const std::string text = *FormatTable(averages, {});
  EXPECT_NE(text.find("a\\x1b[31mb\\nc"), std::string::npos);
  EXPECT_EQ(text.find('\x1b'), std::string::npos);
}

TEST(TableTest, OverloadColumnStandsBesideTheName) {
  KeyAverages averages = ThreeRows();
  averages.rows[1].overload_name = "out";
  const std::string text = *FormatTable(averages, {.time_unit = TimeUnit::kSeconds});
  EXPECT_NE(text.find("            Name     Overload Name    Self CPU %"), std::string::npos);
  EXPECT_NE(text.find("     aten::addmm               out        99.95%        0.003s"),
            std::string::npos);
}

TEST(TableTest, WithoutAnyTimeThereIsNoShare) {
  KeyAverages averages;
  averages.rows = {{"a", "", 1, 0, 0}};
  EXPECT_NE(FormatTable(averages, {})->find("         NaN"), std::string::npos);
  EXPECT_EQ(*FormatTable(KeyAverages(), {}), "");
}

class TableFooterTest : public testing::Test {
 protected:
  TimelineMaker maker_;
  ThreadIndex thread_ = maker_.AddThread(1, 1, "python3");
};

TEST_F(TableFooterTest, TellsLossesAndWhatIsNotInTheTable) {
  maker_.Add(thread_, maker_.AddOperator("a"), 0, 10, SpanEnd::kTruncated);
  maker_.ledger().ring_lost = 7;
  maker_.info().unsupported.push_back({"cuda", "no GPU here"});
  const std::unique_ptr<Timeline> timeline = maker_.Finish();
  const std::string footer = FormatTableFooter(*timeline, Aggregate(*timeline, {}));
  EXPECT_EQ(footer,
            "Steps: none found\n"
            "Ledger: records 2, decoded 2, ring_lost 7, begins 1, closed 0, truncated 1\n"
            "Losses: yes; counts and times above may be too small (see the ledger)\n"
            "1 truncated span is not in the table: the end was not seen\n"
            "Cost: estimated overhead 1.50 % (1000 probe hits at 650 ns), tracer CPU time 0.25 s; "
            "calibrated on this host\n"
            "Not recorded: cuda: no GPU here\n");
}

// torch has a table a process.
TEST_F(TableFooterTest, SaysWhichProcessesAreAddedUp) {
  TimelineMaker maker;
  const LabelId add = maker.AddOperator("aten::add");
  for (uint32_t pid = 30; pid >= 10; --pid) {
    maker.Add(maker.AddThread(pid, pid, "python3"), add, 5'000'000'000 + pid, 5'000'000'500 + pid);
  }
  maker.AddThread(99, 99, "idle");
  const std::unique_ptr<Timeline> timeline = maker.Finish();
  const Aggregates aggregates = Aggregate(*timeline, {});
  const std::string footer = FormatTableFooter(*timeline, aggregates);
  EXPECT_NE(footer.find("Rows are sums over 21 processes: PID 10, 11, "), std::string::npos);
  EXPECT_NE(footer.find(", 29, and 1 more; "), std::string::npos) << footer;
  StringSink sink;
  ASSERT_TRUE(ExportTableJson(*timeline, aggregates, {}, sink).ok());
  const nlohmann::json report = nlohmann::json::parse(sink.text());
  EXPECT_EQ(report["processes"].size(), 21u);
  StringSink summary;
  ASSERT_TRUE(ExportSummary(*timeline, aggregates, summary).ok());
  const nlohmann::json averages = nlohmann::json::parse(summary.text())["key_averages"];
  EXPECT_EQ(averages["processes"], report["processes"]);
  EXPECT_EQ(averages["total_average"], report["total_average"]);
  EXPECT_EQ(averages["total_average"]["count"], 21);

  TimelineMaker alone;
  alone.Add(alone.AddThread(10, 10, "python3"), alone.AddOperator("aten::add"), 5'000'000'000,
            5'000'000'500);
  alone.AddThread(11, 11, "idle");
  const std::unique_ptr<Timeline> one = alone.Finish();
  EXPECT_EQ(FormatTableFooter(*one, Aggregate(*one, {})).find("Rows are"), std::string::npos);
}

TEST_F(TableFooterTest, WhatIsNotRecordedForOneReasonSharesALine) {
  for (const char* function : {"f()", "g()", "h()"}) {
    maker_.info().unsupported.push_back({function, "no name"});
    if (function[0] == 'f') maker_.info().unsupported.push_back({"other", "no place"});
  }
  const std::unique_ptr<Timeline> timeline = maker_.Finish();
  const std::string footer = FormatTableFooter(*timeline, Aggregate(*timeline, {}));
  EXPECT_TRUE(
      footer.ends_with("\nNot recorded: f(), and 2 more (summary.json names them): no name\n"
                       "Not recorded: other: no place\n"))
      << footer;
}

// Steps of one thread are no steps of another one that takes longer.
TEST_F(TableFooterTest, ThreadsWithOtherStepsAreToldOneByOne) {
  const std::vector<LabelId> labels = {
      maker_.AddOperator("aten::embedding"), maker_.AddOperator("aten::linear"),
      maker_.AddOperator("aten::gelu"), maker_.AddOperator("aten::softmax")};
  const ThreadIndex slow = maker_.AddThread(1, 2, "slow");
  const auto add = [&](ThreadIndex thread, int rounds, int64_t round_ns) {
    for (int round = 0; round < rounds; ++round) {
      int64_t now_ns = 6'000'000'000 + round * round_ns;
      for (const LabelId label : labels) {
        maker_.Add(thread, label, now_ns, now_ns + 20'000);
        now_ns += 25'000;
      }
    }
  };
  add(thread_, 100, 1'000'000);
  add(slow, 20, 5'000'000);
  maker_.info().window.duration_ns = 2'000'000'000;
  const std::unique_ptr<Timeline> timeline = maker_.Finish();
  const Aggregates aggregates = Aggregate(*timeline, {});
  ASSERT_EQ(aggregates.steps.processes.size(), 1u);
  EXPECT_FALSE(aggregates.steps.processes[0].are_alike);
  const std::string footer = FormatTableFooter(*timeline, aggregates);
  EXPECT_NE(footer.find(" of TID 1, median 1.000 ms, p99 1.000 ms; "), std::string::npos) << footer;
  EXPECT_NE(footer.find(" of TID 2, median 5.000 ms; "), std::string::npos) << footer;
}

// 22 lines for a job that runs none of that.
TEST_F(TableFooterTest, CodeThatIsOnlyLoadedIsCountedUnlessAskedFor) {
  maker_.info().unsupported = {
      {"rows of f()", "no name", true}, {"rows of g()", "no place", true}, {"cuda", "no GPU here"}};
  const std::unique_ptr<Timeline> timeline = maker_.Finish();
  const std::string footer = FormatTableFooter(*timeline, Aggregate(*timeline, {}));
  EXPECT_TRUE(
      footer.ends_with("\nNot recorded: cuda: no GPU here\n"
                       "Not recorded if it ran: 2 pieces of code of loaded libraries, "
                       "which most jobs never run; --verbose and summary.json name them\n"))
      << footer;
  const std::string whole = FormatTableFooter(*timeline, Aggregate(*timeline, {}), true);
  EXPECT_NE(whole.find("Not recorded: rows of g(): no place\n"), std::string::npos) << whole;
  EXPECT_EQ(whole.find("if it ran"), std::string::npos) << whole;
}

TEST_F(TableFooterTest, TheCostHasWhatReadingInputsAdds) {
  maker_.info().cost.input_readings = 400;
  maker_.info().cost.input_ns_per_reading = 310.4;
  std::unique_ptr<Timeline> timeline = maker_.Finish();
  EXPECT_NE(FormatTableFooter(*timeline, Aggregate(*timeline, {}))
                .find("(1000 probe hits at 650 ns, 400 of them reading inputs at 310 ns more), "),
            std::string::npos);
  TimelineMaker other;
  other.info().cost.input_readings = 400;
  timeline = other.Finish();
  EXPECT_NE(FormatTableFooter(*timeline, Aggregate(*timeline, {}))
                .find("400 of them reading inputs at a cost that is not known), "),
            std::string::npos);
}

TEST_F(TableFooterTest, JsonFormHasTheSameRows) {
  maker_.Add(thread_, maker_.AddOperator(std::string("a\0\"\xff", 4)), 0, 1'234'567);
  maker_.Add(thread_, maker_.AddOperator("b"), 2'000'000, 2'000'001);
  const std::unique_ptr<Timeline> timeline = maker_.Finish();
  StringSink sink;
  const Aggregates aggregates = Aggregate(*timeline, {});
  ASSERT_TRUE(
      ExportTableJson(*timeline, aggregates, {.sort_by = "cpu_time_total", .row_limit = 1}, sink)
          .ok());
  const nlohmann::json json = nlohmann::json::parse(sink.text());
  ASSERT_EQ(json["rows"].size(), 1u);
  EXPECT_EQ(json["rows"][0]["name"], "a\uFFFD\"\uFFFD");
  EXPECT_EQ(json["rows"][0]["cpu_time_total_us"], 1234.567);
  EXPECT_EQ(json["total_rows"], 2);
  EXPECT_EQ(json["ledger"]["begins"], 2);
}

}  // namespace
}  // namespace proftrace
