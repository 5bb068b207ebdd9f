// Clock trouble, ranks that are not alike, groups of one name: what real jobs have and easy tests
// have not.
#include <gmock/gmock.h>

#include <cmath>
#include <functional>
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
using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int64_t kOneSecondNs = 1'000'000'000;

// A job whose clocks are any functions of the true time.
struct TroubledJob : FakeJob {
  std::vector<std::function<int64_t(int64_t)>> clocks;  // by rank; true time to local time

  std::unique_ptr<SourceInput> MakeTroubled(int rank) const {
    FakeJob plain = *this;
    plain.offsets_ns.clear();
    plain.ppm.clear();
    SourceFacts facts = plain.Make(rank)->facts();
    const auto local = [&](int64_t ns) {
      return kStartNs + clocks[static_cast<size_t>(rank)](ns - kStartNs);
    };
    std::vector<FakeEvent> events;
    for (SourceCall& call : facts.calls) {
      call.call.entered_ns = local(call.call.entered_ns);
      call.call.left_ns = local(call.call.left_ns);
      events.push_back({'X', "gloo:all_reduce", "user_annotation", kPid, kPid, call.call.entered_ns,
                        call.call.left_ns - call.call.entered_ns});
    }
    facts.first_ns.reset();
    facts.last_ns.reset();
    return std::make_unique<FakeSource>(std::move(facts), std::move(events));
  }
  std::vector<std::unique_ptr<SourceInput>> MakeAllTroubled() const {
    std::vector<std::unique_ptr<SourceInput>> inputs;
    for (int rank = 0; rank < ranks; ++rank) inputs.push_back(MakeTroubled(rank));
    return inputs;
  }
  // When each collective of a rank truly began, by the clock of rank 0.
  std::vector<int64_t> TrueBegins(int rank) const {
    FakeJob plain = *this;
    plain.offsets_ns.clear();
    plain.ppm.clear();
    std::vector<int64_t> begins;
    for (const SourceCall& call : plain.Make(rank)->facts().calls) {
      begins.push_back(kStartNs + clocks[0](call.call.entered_ns - kStartNs));
    }
    return begins;
  }
};

TroubledJob EightHosts() {
  TroubledJob job;
  job.ranks = 8;
  job.collectives = 60;
  for (int rank = 0; rank < job.ranks; ++rank) {
    job.clocks.emplace_back([rank](int64_t ns) { return ns + rank * 1'234'567; });
  }
  return job;
}

// Checks that each collective lies within its host's bound of where it truly was; one that has no
// place may be missing on `may_miss`.
void CheckTruth(const TroubledJob& job, FleetMerge& merge, int may_miss = -1) {
  StringSink sink;
  ASSERT_TRUE(merge.Write(*NewChromeMerge(sink)).ok());
  const json trace = json::parse(sink.text());
  std::map<int64_t, int> rank_of_pid;
  for (const json& event : trace["traceEvents"]) {
    if (event["name"] != "process_name") continue;
    const std::string name = event["args"]["name"];
    if (name.find("collectives") == std::string::npos) {
      rank_of_pid[event["pid"]] = std::stoi(name.substr(5));
    }
  }
  std::map<int, std::vector<int64_t>> begins;
  for (const json& event : trace["traceEvents"]) {
    if (event["name"] != "gloo:all_reduce") continue;
    begins[rank_of_pid.at(event["pid"])].push_back(trace["baseTimeNanoseconds"].get<int64_t>() +
                                                   std::llround(event["ts"].get<double>() * 1000));
  }
  for (const ClockStatement::Host& host : merge.clock().of_hosts) {
    const int rank = std::stoi(host.host.substr(4));
    const std::vector<int64_t> right = job.TrueBegins(rank);
    EXPECT_GE(begins[rank].size(), right.size() - (rank == may_miss ? 2 : 0));
    for (const int64_t ns : begins[rank]) {
      int64_t off_ns = INT64_MAX;
      for (const int64_t one : right) off_ns = std::min(off_ns, std::abs(ns - one));
      EXPECT_LE(off_ns, host.bound_ns.value_or(0) + 2000) << host.host;
    }
  }
}

MergeOptions ByHost0() {
  MergeOptions options;
  options.clock.reference = "host0";
  return options;
}

TEST(HardClocksTest, StepsSlewsHoursAndAnAlwaysLastHostAtOnce) {
  TroubledJob job = EightHosts();
  job.late_ns = {0, 0, 0, 0, 0, 0, 0, 5'000'000};                           // host7 is always last
  job.clocks[2] = [](int64_t ns) { return ns + 3 * 3600 * kOneSecondNs; };  // no NTP
  job.clocks[4] = [](int64_t ns) { return ns + ns / 2000; };                // slewed by 500 ppm
  job.clocks[5] = [](int64_t ns) { return ns + (ns > 300'000'000 ? 50'000'000 : 0); };
  auto merge = FleetMerge::Prepare(job.MakeAllTroubled(), ByHost0());
  ASSERT_TRUE(merge.ok()) << merge.status();
  EXPECT_TRUE((*merge)->clock().not_aligned.empty());
  EXPECT_THAT((*merge)->clock().findings, Contains(HasSubstr("host5")));
  for (const std::string& finding : (*merge)->clock().findings) {
    EXPECT_THAT(finding, HasSubstr("host5"));
  }
  // The always last one is where the bound is honest: as wide as it is late.
  EXPECT_GT(*(*merge)->clock().worst_bound_ns, 2'000'000);
  CheckTruth(job, **merge, /*may_miss=*/5);
}

// Kineto scales a trace by the wall clock at its ends: a step in it stretches all of it.
TEST(HardClocksTest, AStretchedTraceIsNotAlignedAndTheHostNamed) {
  TroubledJob job = EightHosts();
  job.clocks[3] = [](int64_t ns) { return ns + ns / 12; };
  auto merge = FleetMerge::Prepare(job.MakeAllTroubled(), ByHost0());
  ASSERT_TRUE(merge.ok()) << merge.status();
  EXPECT_THAT((*merge)->clock().not_aligned, ElementsAre("host3"));
  EXPECT_THAT((*merge)->clock().findings,
              Contains(AllOf(HasSubstr("host3"), HasSubstr("stretched"))));
  // Where a clock is wanted for all, there is none.
  MergeOptions by_collectives = ByHost0();
  by_collectives.clock.mode = ClockMode::kCollectives;
  const auto refused = FleetMerge::Prepare(job.MakeAllTroubled(), by_collectives);
  ASSERT_FALSE(refused.ok());
  EXPECT_EQ(ExitCodeOf(refused.status()), ExitCode::kInputsDisagree);
  EXPECT_THAT(std::string(refused.status().message()), HasSubstr("host3"));
}

// Steps of unlike length, the same for all ranks: by their order alone one is told from another.
void MakeUneven(std::vector<SourceCall>* calls) {
  for (size_t i = 0; i < calls->size(); ++i) {
    const auto longer_ns = static_cast<int64_t>(i * 7919 % 13) * 600'000;
    (*calls)[i].call.entered_ns += longer_ns;
    (*calls)[i].call.left_ns += longer_ns;
  }
}

// One rank's profiler tells numbers, another one's does not: order is what both have.
TEST(HardClocksTest, NumbersOnSomeRanksAloneDoNotKeepThemApart) {
  FakeJob job;
  job.ranks = 3;
  job.offsets_ns = {0, 60 * kOneSecondNs, -90 * kOneSecondNs};
  std::vector<std::unique_ptr<SourceInput>> inputs;
  for (int rank = 0; rank < job.ranks; ++rank) {
    SourceFacts facts = job.Make(rank)->facts();
    MakeUneven(&facts.calls);
    for (SourceCall& call : facts.calls) {
      if (rank == 1) call.call.sequence.reset();
    }
    inputs.push_back(std::make_unique<FakeSource>(std::move(facts), std::vector<FakeEvent>()));
  }
  auto merge = FleetMerge::Prepare(std::move(inputs), {});
  ASSERT_TRUE(merge.ok()) << merge.status();
  EXPECT_TRUE((*merge)->clock().not_aligned.empty());
  EXPECT_EQ((*merge)->clock().matched_by_order, 20U);
  EXPECT_TRUE((*merge)->clock().worst_bound_ns);
}

// Attached late, and three collectives lost in the middle: nothing is matched across the gap.
TEST(HardClocksTest, WithoutNumbersALossBeginsANewSegment) {
  FakeJob job;
  job.ranks = 3;
  job.collectives = 40;
  job.offsets_ns = {0, 60 * kOneSecondNs, -90 * kOneSecondNs};
  std::vector<std::unique_ptr<SourceInput>> inputs;
  for (int rank = 0; rank < job.ranks; ++rank) {
    SourceFacts facts = job.Make(rank)->facts();
    MakeUneven(&facts.calls);
    std::vector<SourceCall> kept;
    for (size_t i = 0; i < facts.calls.size(); ++i) {
      SourceCall call = facts.calls[i];
      call.call.sequence.reset();
      if (i < static_cast<size_t>(rank) * 2) continue;  // attached later
      if (rank == 1 && i >= 20 && i < 23) continue;     // lost
      call.call.is_after_loss = rank == 1 && i == 23;
      kept.push_back(call);
    }
    facts.calls = kept;
    inputs.push_back(std::make_unique<FakeSource>(std::move(facts), std::vector<FakeEvent>()));
  }
  auto merge = FleetMerge::Prepare(std::move(inputs), {});
  ASSERT_TRUE(merge.ok()) << merge.status();
  EXPECT_TRUE((*merge)->clock().not_aligned.empty());
  // Times of one collective lie together: no call was matched with another one.
  int whole = 0;
  StringSink sink;
  ASSERT_TRUE((*merge)->Write(*NewChromeMerge(sink)).ok());
  const json trace = json::parse(sink.text());
  for (const json& event : trace["traceEvents"]) {
    if (!event.contains("args") || !event["args"].contains("skew (us)")) continue;
    EXPECT_LT(event["args"]["skew (us)"].get<double>(), 1500) << event;
    whole += event["args"]["ranks"] == 3 ? 1 : 0;
  }
  EXPECT_GE(whole, 3 * (40 - 4 - 3) - 3);
}

// Device meshes call all groups "tp"; of one group a rank was not recorded; types differ between
// ranks in one collective.
TEST(HardClocksTest, GroupsOfOneNameAreToldApartAndUnlikeCallsBindNothing) {
  FakeJob job;
  job.ranks = 4;
  job.offsets_ns = {0, 60 * kOneSecondNs, -90 * kOneSecondNs, 5 * kOneSecondNs};
  std::vector<std::unique_ptr<SourceInput>> inputs;
  for (const int rank : {0, 1, 2}) {  // rank 3 is missing
    SourceFacts facts = job.Make(rank)->facts();
    FleetGroup pair{"tp", rank < 2 ? std::vector<int32_t>{0, 1} : std::vector<int32_t>{2, 3}};
    facts.groups.push_back(pair);
    const std::vector<SourceCall> world = facts.calls;
    for (const SourceCall& of_world : world) {
      SourceCall call = of_world;
      call.call.group = 1;
      call.call.entered_ns = of_world.call.left_ns + 100'000;
      call.call.left_ns = call.call.entered_ns + 300'000 + (rank < 2 ? 0 : 5'000'000);
      call.op = rank == 1 && of_world.call.sequence == 7 ? "allreduce/BFloat16" : "allreduce/Half";
      facts.calls.push_back(call);
    }
    inputs.push_back(std::make_unique<FakeSource>(std::move(facts), std::vector<FakeEvent>()));
  }
  auto merge = FleetMerge::Prepare(std::move(inputs), {});
  ASSERT_TRUE(merge.ok()) << merge.status();
  StringSink sink;
  ASSERT_TRUE((*merge)->Write(*NewChromeMerge(sink)).ok());
  const json trace = json::parse(sink.text());
  std::map<std::string, int> seen;
  for (const json& event : trace["traceEvents"]) {
    if (!event.contains("args") || !event["args"].contains("group")) continue;
    const json& args = event["args"];
    if (args["group"] != "tp") continue;
    EXPECT_EQ(args["group ranks"], 2);
    ++seen[args["ranks"] == 2 ? "both" : "one"];
    if (args.contains("ranks disagree")) ++seen["unlike"];
    if (args.contains("entered last is proved")) EXPECT_EQ(args["ranks"], 2);
  }
  EXPECT_EQ(seen["both"], 2 * 20);  // ranks 0 and 1
  EXPECT_EQ(seen["one"], 20);       // rank 2, whose peer is missing
  EXPECT_EQ(seen["unlike"], 2);
}

}  // namespace
}  // namespace proftrace
