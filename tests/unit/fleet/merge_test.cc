// A job of made-up ranks whose clocks are known, put on one timeline.
#include "userspace/fleet/fleet_merge.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "exporters/sinks/output_file.h"
#include "tests/support/fake_source.h"
#include "userspace/base/exit_status.h"
#include "userspace/fleet/chrome_merge.h"
#include "userspace/fleet/perfetto_merge.h"

namespace proftrace {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;

constexpr int64_t kHourNs = int64_t{3600} * 1'000'000'000;

std::unique_ptr<FleetMerge> Prepared(std::vector<std::unique_ptr<SourceInput>> inputs,
                                     const MergeOptions& options = {}) {
  auto merge = FleetMerge::Prepare(std::move(inputs), options);
  EXPECT_TRUE(merge.ok()) << merge.status();
  return merge.ok() ? *std::move(merge) : nullptr;
}

std::string ChromeText(FleetMerge& merge) {
  StringSink sink;
  EXPECT_TRUE(merge.Write(*NewChromeMerge(sink)).ok());
  return sink.text();
}

json Chrome(FleetMerge& merge) { return json::parse(ChromeText(merge)); }

// The rows of a name, by what their process is called.
std::vector<json> RowsOf(const json& trace, const std::string& name) {
  std::vector<json> rows;
  for (const json& event : trace["traceEvents"]) {
    if (event["name"] == name && event["ph"] == "X") rows.push_back(event);
  }
  return rows;
}

int64_t NsOf(const json& microseconds) {
  return static_cast<int64_t>(std::llround(microseconds.get<double>() * 1000));
}

FakeJob ShiftedJob() {
  FakeJob job;
  job.ranks = 4;
  job.offsets_ns = {0, 3 * kHourNs + 123'456, -2 * kHourNs, 777};
  job.ppm = {0, 40, -90, 5};
  job.late_ns = {0, 0, 3'000'000, 0};
  return job;
}

TEST(FleetMergeTest, HoursAndPpmAreRecoveredWithinTheBound) {
  const FakeJob job = ShiftedJob();
  auto merge = Prepared(job.MakeAll());
  const ClockStatement& clock = merge->clock();
  ASSERT_TRUE(clock.worst_bound_ns);
  EXPECT_LT(*clock.worst_bound_ns, 4'000'000);  // one is always late by 3 ms
  EXPECT_TRUE(clock.not_aligned.empty());
  const json trace = Chrome(*merge);
  const int64_t base_ns = trace["baseTimeNanoseconds"];
  // Against the reference's clock.
  int reference = -1;
  for (int rank = 0; rank < job.ranks; ++rank) {
    if (clock.reference == "host" + std::to_string(rank)) reference = rank;
  }
  ASSERT_GE(reference, 0);
  std::map<std::string, int> seen;
  for (const json& event : RowsOf(trace, "ProfilerStep#7")) {
    const int64_t true_ns = 7 * job.step_ns + 49 * 30'000;
    const int64_t off_ns = NsOf(event["ts"]) - (job.LocalAt(reference, true_ns) - base_ns);
    EXPECT_LE(std::abs(off_ns), *clock.worst_bound_ns + 1000) << event;
    ++seen["step"];
  }
  EXPECT_EQ(seen["step"], 4);
  EXPECT_THAT(clock.Line(), HasSubstr("4 hosts by 20 collectives"));
  EXPECT_THAT(clock.Line(), HasSubstr("likely"));
}

TEST(FleetMergeTest, OrderOfInputsDoesNotChangeAByte) {
  const FakeJob job = ShiftedJob();
  auto inputs = job.MakeAll();
  std::reverse(inputs.begin(), inputs.end());
  std::swap(inputs[0], inputs[2]);
  auto back = Prepared(std::move(inputs));
  auto forth = Prepared(job.MakeAll());
  EXPECT_EQ(ChromeText(*forth), ChromeText(*back));
}

TEST(FleetMergeTest, NothingCollidesAndEveryEventIsAccountedFor) {
  const FakeJob job = ShiftedJob();
  auto merge = Prepared(job.MakeAll());
  const json trace = Chrome(*merge);
  const MergeCounts& counts = merge->counts();
  EXPECT_EQ(counts.in, 4 * (2 + 20 * 5));
  EXPECT_EQ(counts.in, counts.out + counts.filtered + counts.refused);
  EXPECT_EQ(counts.out, counts.in);
  std::map<int64_t, std::string> names;
  std::map<int64_t, std::set<int64_t>> flow_pids;
  for (const json& event : trace["traceEvents"]) {
    if (event["name"] == "process_name") {
      EXPECT_TRUE(names.emplace(event["pid"], event["args"]["name"]).second);
    }
    if (event["ph"] == "s" && event["cat"] == "fwdbwd") {
      const int64_t id = event["id"];
      EXPECT_LT(id, int64_t{1} << 53);
      flow_pids[id].insert(event["pid"].get<int64_t>());
    }
  }
  EXPECT_EQ(names.size(), 8);  // each rank's own, and its collectives
  EXPECT_EQ(flow_pids.size(), 80);
  for (const auto& [id, pids] : flow_pids) EXPECT_EQ(pids.size(), 1) << id;
}

TEST(FleetMergeTest, ChildrenStayInTheirParents) {
  const FakeJob job = ShiftedJob();
  auto merge = Prepared(job.MakeAll());
  std::map<std::pair<int64_t, int64_t>, std::vector<std::pair<int64_t, int64_t>>> lanes;
  for (const json& event : Chrome(*merge)["traceEvents"]) {
    if (event["ph"] != "X") continue;
    const int64_t begin_ns = NsOf(event["ts"]);
    lanes[{event["pid"], event["tid"]}].emplace_back(begin_ns, -(begin_ns + NsOf(event["dur"])));
  }
  for (auto& [lane, rows] : lanes) {
    std::sort(rows.begin(), rows.end());
    std::vector<int64_t> ends_ns;
    for (const auto& [begin_ns, end_ns] : rows) {
      while (!ends_ns.empty() && ends_ns.back() <= begin_ns) ends_ns.pop_back();
      if (!ends_ns.empty()) EXPECT_LE(-end_ns, ends_ns.back()) << lane.first;
      ends_ns.push_back(-end_ns);
    }
  }
}

TEST(FleetMergeTest, TheLateRankIsNamedWithWhatItDidAndArrowsLeadFromIt) {
  const FakeJob job = ShiftedJob();
  auto merge = Prepared(job.MakeAll());
  const json trace = Chrome(*merge);
  const std::vector<json> rows = RowsOf(trace, "allreduce");
  ASSERT_EQ(rows.size(), 80);
  int late = 0;
  for (const json& row : rows) {
    const json& args = row["args"];
    EXPECT_EQ(args["entered last"], 2);
    EXPECT_EQ(args["late rank was in"], "aten::slow") << args;
    if (!args.contains("waited for rank")) {
      ++late;
      continue;
    }
    EXPECT_NEAR(args["wait (us)"].get<double>(), 3000, 450);
  }
  EXPECT_EQ(late, 20);
  EXPECT_EQ(RowsOf(trace, "wait for rank 2").size(), 60);
  std::map<int64_t, int64_t> starts;
  std::map<int64_t, int64_t> ends;
  for (const json& event : trace["traceEvents"]) {
    if (event["name"] != "collective_wait") continue;
    auto& of = event["ph"] == "s" ? starts : ends;
    EXPECT_TRUE(of.emplace(event["id"], NsOf(event["ts"])).second);
  }
  EXPECT_EQ(starts.size(), 60);
  EXPECT_EQ(ends.size(), 60);
  for (const auto& [id, ns] : starts) EXPECT_LE(ns, ends.at(id));
}

TEST(FleetMergeTest, ContradictionsAreRefusedWithTheHosts) {
  FakeJob job = ShiftedJob();
  job.ranks = 3;
  auto inputs = job.MakeAll();
  // A recording of another run: its collectives have the numbers of others.
  FakeJob other = job;
  other.step_ns = 40'000'000;
  inputs[1] = other.Make(1);
  const auto merge = FleetMerge::Prepare(std::move(inputs), {});
  ASSERT_FALSE(merge.ok());
  EXPECT_EQ(ExitCodeOf(merge.status()), ExitCode::kInputsDisagree);
  EXPECT_THAT(std::string(merge.status().message()), HasSubstr("host1"));
  EXPECT_THAT(std::string(merge.status().message()), HasSubstr("--clock realtime"));
}

TEST(FleetMergeTest, WallClocksAreTakenAsTheyAreAndContradictionsCounted) {
  FakeJob job = ShiftedJob();
  MergeOptions options;
  options.clock.mode = ClockMode::kRealtime;
  auto merge = Prepared(job.MakeAll(), options);
  EXPECT_EQ(merge->clock().contradicted, 20);
  EXPECT_GT(merge->clock().worst_contradiction_ns, 4 * kHourNs);
  EXPECT_FALSE(merge->clock().bound_ns);
  EXPECT_THAT(merge->clock().Line(), HasSubstr("nothing proved"));
}

TEST(FleetMergeTest, WhatNothingBindsIsMarkedAndCollectivesAloneRefuseIt) {
  FakeJob job;
  job.ranks = 3;
  auto inputs = job.MakeAll();
  FakeJob alone = job;
  alone.collectives = 0;
  auto lonely = alone.Make(2);
  std::vector<FakeEvent> events = {{'X', "aten::mm", "cpu_op", 47, 47, FakeJob::kStartNs, 5'000}};
  inputs[2] = std::make_unique<FakeSource>(lonely->facts(), events);
  auto merge = Prepared(std::move(inputs));
  ASSERT_EQ(merge->clock().not_aligned.size(), 1);
  EXPECT_EQ(merge->clock().not_aligned[0], "host2");
  EXPECT_THAT(ChromeText(*merge), HasSubstr("rank 2 [not aligned]"));

  auto again = job.MakeAll();
  again[2] = std::make_unique<FakeSource>(lonely->facts(), events);
  MergeOptions options;
  options.clock.mode = ClockMode::kCollectives;
  const auto refused = FleetMerge::Prepare(std::move(again), options);
  EXPECT_EQ(ExitCodeOf(refused.status()), ExitCode::kInputsDisagree);
}

TEST(FleetMergeTest, RanksStepsAndTimesChooseRows) {
  const FakeJob job = ShiftedJob();
  MergeOptions options;
  options.ranks = {{1, 1}, {3, 9}};
  options.steps = {5, 6};
  auto merge = Prepared(job.MakeAll(), options);
  const json trace = Chrome(*merge);
  EXPECT_EQ(RowsOf(trace, "ProfilerStep#5").size(), 2);
  EXPECT_EQ(RowsOf(trace, "ProfilerStep#6").size(), 2);
  EXPECT_TRUE(RowsOf(trace, "ProfilerStep#8").empty());
  EXPECT_TRUE(RowsOf(trace, "ProfilerStep#3").empty());
  EXPECT_EQ(merge->counts().in, merge->counts().out + merge->counts().filtered);

  MergeOptions window;
  window.from = MergeEdge{true, 95'000'000};
  window.until = MergeEdge{true, 105'000'000};
  auto part = Prepared(job.MakeAll(), window);
  const json rows = Chrome(*part);
  EXPECT_EQ(RowsOf(rows, "ProfilerStep#10").size(), 4);
  EXPECT_TRUE(RowsOf(rows, "ProfilerStep#12").empty());
}

TEST(FleetMergeTest, ASummaryHasStepsCollectivesAndBusyGpus) {
  FakeJob job = ShiftedJob();
  job.gpu_rows = 3;
  MergeOptions options;
  options.lanes = MergeLanes::kSummary;
  auto merge = Prepared(job.MakeAll(), options);
  const json trace = Chrome(*merge);
  EXPECT_TRUE(RowsOf(trace, "kernel").empty());
  EXPECT_TRUE(RowsOf(trace, "aten::mm").empty());
  EXPECT_EQ(RowsOf(trace, "ProfilerStep#5").size(), 4);
  EXPECT_EQ(RowsOf(trace, "busy").size(), 4 * 20 * 3);
  EXPECT_EQ(merge->counts().in,
            merge->counts().out + merge->counts().filtered + merge->counts().refused);
}

TEST(FleetMergeTest, PerfettoIsWrittenTheSameForAnyOrder) {
  const FakeJob job = ShiftedJob();
  const auto scratch = GuardedFolder::Open("/tmp");
  ASSERT_TRUE(scratch.ok());
  std::vector<std::string> texts;
  for (const bool is_reversed : {false, true}) {
    auto inputs = job.MakeAll();
    if (is_reversed) std::reverse(inputs.begin(), inputs.end());
    auto merge = Prepared(std::move(inputs));
    StringSink sink;
    ASSERT_TRUE(merge->Write(*NewPerfettoMerge(sink, *scratch)).ok());
    EXPECT_EQ(merge->counts().in, merge->counts().out);
    texts.push_back(sink.text());
  }
  EXPECT_EQ(texts[0], texts[1]);
  EXPECT_GT(texts[0].size(), 1000);
}

}  // namespace
}  // namespace proftrace
