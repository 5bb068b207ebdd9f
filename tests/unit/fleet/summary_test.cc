// What a merge shows instead of all rows, which rows it is asked for, and clocks that are given.
#include <gmock/gmock.h>

#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "exporters/sinks/output_file.h"
#include "tests/support/fake_source.h"
#include "userspace/base/exit_status.h"
#include "userspace/fleet/chrome_merge.h"
#include "userspace/fleet/fleet_merge.h"

namespace proftrace {
namespace {

using nlohmann::json;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::UnorderedElementsAre;

constexpr int64_t kAnHourNs = int64_t{3600} * 1'000'000'000;

json Merged(std::vector<std::unique_ptr<SourceInput>> inputs, const MergeOptions& options,
            std::unique_ptr<FleetMerge>* out = nullptr) {
  auto merge = FleetMerge::Prepare(std::move(inputs), options);
  EXPECT_TRUE(merge.ok()) << merge.status();
  if (!merge.ok()) return json();
  StringSink sink;
  EXPECT_TRUE((*merge)->Write(*NewChromeMerge(sink)).ok());
  EXPECT_EQ((*merge)->counts().in,
            (*merge)->counts().out + (*merge)->counts().filtered + (*merge)->counts().refused);
  if (out != nullptr) *out = *std::move(merge);
  return json::parse(sink.text());
}

std::vector<json> OfCategory(const json& trace, const std::string& category) {
  std::vector<json> rows;
  for (const json& event : trace["traceEvents"]) {
    if (event["ph"] == "X" && event.value("cat", "") == category) rows.push_back(event);
  }
  return rows;
}

SourceEvent Row(const char* name, const char* category, int64_t begin_ns, int64_t end_ns) {
  SourceEvent event;
  event.name = name;
  event.category = category;
  event.begin_ns = begin_ns;
  event.duration_ns = end_ns - begin_ns;
  return event;
}

constexpr int64_t kMs = 1'000'000;

TEST(PhaseTimesTest, PhasesDoNotOverlapAndShortPausesBelongToThem) {
  PhaseTimes phases;
  // In any order; operators in nodes of autograd are part of the backward pass.
  phases.See(Row("aten::mm", "cpu_op", 31 * kMs, 32 * kMs));
  phases.See(Row("autograd::engine::evaluate_function: MmBackward0", "cpu_op", 30 * kMs, 40 * kMs));
  phases.See(Row("enumerate(DataLoader)#_Single.__next__", "user_annotation", 0, 9 * kMs));
  phases.See(Row("aten::stack", "cpu_op", 1 * kMs, 2 * kMs));
  phases.See(Row("aten::linear", "cpu_op", 10 * kMs, 15 * kMs));
  phases.See(Row("aten::relu", "cpu_op", 15 * kMs + 900'000, 20 * kMs));
  phases.See(Row("aten::sum", "cpu_op", 22 * kMs, 23 * kMs));
  phases.See(Row("Optimizer.step#SGD.step", "user_annotation", 45 * kMs, 50 * kMs));
  phases.See(Row("aten::add_", "cpu_op", 46 * kMs, 47 * kMs));
  phases.See(Row("gloo:all_reduce", "user_annotation", 20 * kMs, 60 * kMs));
  phases.See(Row("c10d::allreduce_", "cpu_op", 52 * kMs, 53 * kMs));
  phases.See(Row("train.py(3): step", "python_function", 0, 60 * kMs));
  std::vector<std::string> seen;
  for (const PhaseStretch& stretch : phases.Take()) {
    seen.push_back(std::string(PhaseName(stretch.phase)) + " " +
                   std::to_string(stretch.begin_ns / kMs) + ".." +
                   std::to_string(stretch.end_ns / kMs));
  }
  EXPECT_THAT(seen, ElementsAre("data 0..9", "forward 10..20", "forward 22..23", "backward 30..40",
                                "optimizer 45..50"));
  EXPECT_TRUE(phases.Take().empty());
}

TEST(SummaryTest, HasPhasesAndWhyTheLateRankWasLate) {
  FakeJob job;
  job.ranks = 3;
  job.late_ns = {0, 4'000'000, 0};
  MergeOptions options;
  options.lanes = MergeLanes::kSummary;
  const json trace = Merged(job.MakeAll(), options);
  const std::vector<json> causes = OfCategory(trace, "late_cause");
  ASSERT_EQ(causes.size(), static_cast<size_t>(job.collectives));
  std::set<int64_t> pids;
  for (const json& cause : causes) {
    EXPECT_EQ(cause["name"], "aten::slow");
    EXPECT_EQ(cause["args"]["late rank was in"], "aten::slow");
    EXPECT_NEAR(cause["dur"].get<double>(), 4000, 500);
    pids.insert(cause["pid"].get<int64_t>());
  }
  EXPECT_EQ(pids.size(), 1U);
  for (const json& event : trace["traceEvents"]) {
    if (event["name"] != "process_name" || !pids.contains(event["pid"])) continue;
    EXPECT_THAT(event["args"]["name"].get<std::string>(), HasSubstr("rank 1 phases and causes"));
  }
  // An operator a step is all that these ranks do.
  const std::vector<json> phases = OfCategory(trace, "phase");
  EXPECT_EQ(phases.size(), static_cast<size_t>(3 * job.collectives));
  for (const json& phase : phases) EXPECT_EQ(phase["name"], "forward");
  EXPECT_TRUE(OfCategory(trace, "cpu_op").empty());
}

TEST(SummaryTest, CategoriesChooseRowsOfInputsAndOfTheMerge) {
  FakeJob job;
  MergeOptions options;
  options.categories = {"user_annotation", "collective"};
  const json trace = Merged(job.MakeAll(), options);
  std::set<std::string> seen;
  for (const json& event : trace["traceEvents"]) {
    if (event["ph"] != "M") seen.insert(event["cat"].get<std::string>());
  }
  EXPECT_THAT(seen, UnorderedElementsAre("user_annotation", "collective"));
  EXPECT_EQ(OfCategory(trace, "user_annotation").size(), 2U * 2 * 20);
}

GivenClock Given(const std::string& host, int64_t offset_ns, int64_t drift_ppb = 0) {
  GivenClock clock;
  clock.host = host;
  clock.offset_ns = offset_ns;
  clock.drift_ppb = drift_ppb;
  clock.at_unix_ns = FakeJob::kStartNs;
  clock.bound_ns = 5'000;
  return clock;
}

std::map<std::string, std::vector<int64_t>> StepsByRank(const json& trace) {
  std::map<int64_t, std::string> names;
  std::map<std::string, std::vector<int64_t>> begins;
  for (const json& event : trace["traceEvents"]) {
    if (event["name"] == "process_name") names[event["pid"]] = event["args"]["name"];
  }
  for (const json& event : trace["traceEvents"]) {
    if (event["ph"] != "X" || !event["name"].get<std::string>().starts_with("Profiler")) continue;
    begins[names[event["pid"]].substr(0, 6)].push_back(
        trace["baseTimeNanoseconds"].get<int64_t>() +
        std::llround(event["ts"].get<double>() * 1000));
  }
  return begins;
}

FakeJob ShiftedPair() {
  FakeJob job;
  job.offsets_ns = {0, 3 * kAnHourNs};
  job.ppm = {0, 40};
  return job;
}

TEST(GivenClockTest, OffsetsAndDriftsOfAFileAreTakenAndCalledGiven) {
  const FakeJob job = ShiftedPair();
  MergeOptions options;
  options.clock.mode = ClockMode::kGiven;
  options.clock.given_path = "clocks.json";
  // Its clock shows start + 3 h when it is the start, and gains 40 us a second.
  GivenClock second = Given("host1", -3 * kAnHourNs, -40'000);
  second.at_unix_ns = FakeJob::kStartNs + 3 * kAnHourNs;
  options.clock.given = {Given("host0", 0), second, Given("host7", 1)};
  std::unique_ptr<FleetMerge> merge;
  const auto steps = StepsByRank(Merged(job.MakeAll(), options, &merge));
  ASSERT_EQ(steps.at("rank 0").size(), 20U);
  for (size_t step = 0; step < 20; ++step) {
    EXPECT_LE(std::abs(steps.at("rank 1")[step] - steps.at("rank 0")[step]), 1000) << step;
  }
  ASSERT_NE(merge, nullptr);
  EXPECT_EQ(merge->clock().contradicted, 0U);
  EXPECT_EQ(merge->clock().Line(),
            "Clocks: 2 hosts by the offsets in clocks.json: nothing proved, ±5 us as it says");
}

TEST(GivenClockTest, WhatAMergePrintsIsAFileOfClocks) {
  const FakeJob job = ShiftedPair();
  MergeOptions options;
  options.clock.reference = "host0";
  std::unique_ptr<FleetMerge> merge;
  const auto by_collectives = StepsByRank(Merged(job.MakeAll(), options, &merge));
  ASSERT_NE(merge, nullptr);
  auto given = ReadGivenClocks(merge->SummaryJson(), "merge.json");
  ASSERT_TRUE(given.ok()) << given.status();
  MergeOptions again;
  again.clock.mode = ClockMode::kGiven;
  again.clock.given_path = "merge.json";
  again.clock.given = *given;
  const auto by_file = StepsByRank(Merged(job.MakeAll(), again));
  for (const char* rank : {"rank 0", "rank 1"}) {
    for (size_t step = 0; step < 20; ++step) {
      EXPECT_LE(std::abs(by_file.at(rank)[step] - by_collectives.at(rank)[step]), 2000) << step;
    }
  }
}

TEST(GivenClockTest, HostsThatAreNotInTheFileAreMarkedAndNoHostIsRefused) {
  const FakeJob job = ShiftedPair();
  MergeOptions options;
  options.clock.mode = ClockMode::kGiven;
  options.clock.given_path = "clocks.json";
  options.clock.given = {Given("host0", 0)};
  std::unique_ptr<FleetMerge> merge;
  Merged(job.MakeAll(), options, &merge);
  ASSERT_NE(merge, nullptr);
  EXPECT_THAT(merge->clock().not_aligned, ElementsAre("host1"));
  EXPECT_THAT(merge->clock().Line(), HasSubstr("; 1 not in it"));
  options.clock.given = {Given("host9", 0)};
  const auto refused = FleetMerge::Prepare(job.MakeAll(), options);
  EXPECT_EQ(ExitCodeOf(refused.status()), ExitCode::kInputsDisagree);
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("host0, host1"));
}

TEST(GivenClockTest, WrongFilesAreRefusedByOneSentence) {
  const std::pair<const char*, const char*> kWrong[] = {
      {"", "no list \"hosts\""},
      {"[1, 2]", "no list \"hosts\""},
      {R"({"hosts": {}})", "no list \"hosts\""},
      {R"({"hosts": [3]})", "no object"},
      {R"({"hosts": [{"offset_ns": 3}]})", "neither"},
      {R"({"hosts": [{"host": "a"}]})", "\"offset_ns\" of a"},
      {R"({"hosts": [{"host": "a", "offset_ns": 1.5}]})", "\"offset_ns\" of a"},
      {R"({"hosts": [{"host": "a", "offset_ns": 18446744073709551615}]})", "\"offset_ns\" of a"},
      {R"({"hosts": [{"host": "a", "offset_ns": 1, "drift_ppb": 4}]})", "at_unix_ns"},
      {R"({"hosts": [{"host": "a", "offset_ns": 1, "bound_ns": -4}]})", "bound_ns"},
      {R"({"hosts": [{"host": "a", "offset_ns": 1}, {"host": "a", "offset_ns": 2}]})", "twice"},
  };
  for (const auto& [text, sentence] : kWrong) {
    const auto clocks = ReadGivenClocks(text, "f.json");
    ASSERT_FALSE(clocks.ok()) << text;
    EXPECT_EQ(ExitCodeOf(clocks.status()), ExitCode::kInputDamaged) << text;
    EXPECT_THAT(std::string(clocks.status().message()), HasSubstr(sentence)) << text;
    EXPECT_THAT(std::string(clocks.status().message()), HasSubstr("f.json")) << text;
  }
}

}  // namespace
}  // namespace proftrace
