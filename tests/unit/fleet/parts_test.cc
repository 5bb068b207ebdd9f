// The small parts of a merge: orders, numbers, stretches of time.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>

#include "userspace/fleet/busy_time.h"
#include "userspace/fleet/event_runs.h"
#include "userspace/fleet/late_rows.h"
#include "userspace/fleet/merged_ids.h"
#include "userspace/fleet/merged_names.h"

namespace proftrace {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

TEST(EventRunsTest, WhatDoesNotFitIntoMemoryComesBackInTheSameOrder) {
  const auto scratch = GuardedFolder::Open("/tmp");
  ASSERT_TRUE(scratch.ok());
  std::vector<std::string> orders[2];
  for (const size_t most_bytes : {EventRuns::kMostBytes, size_t{4000}}) {
    EventRuns runs(*scratch, most_bytes);
    std::mt19937_64 random(1);
    for (int part = 0; part < 2; ++part) {
      for (int i = 0; i < 2000; ++i) {
        const EventKey key = {static_cast<int64_t>(random() % 500),
                              static_cast<int32_t>(random() % 2),
                              static_cast<int64_t>(random() % 3)};
        ASSERT_TRUE(runs.Add(key, "record " + std::to_string(i)).ok());
      }
      EventKey last;
      last.time_ns = -1;
      const auto status = runs.TakeAll([&](const EventKey& key, std::string_view record) {
        EXPECT_LT(last, key);
        last = key;
        orders[most_bytes == 4000 ? 1 : 0].emplace_back(record);
        return absl::OkStatus();
      });
      ASSERT_TRUE(status.ok()) << status;
    }
  }
  EXPECT_EQ(orders[0].size(), 4000);
  EXPECT_EQ(orders[0], orders[1]);
}

TEST(BusyTimeTest, OverlapsAreOneAndMemoryIsBounded) {
  BusyTime busy;
  busy.Add(10, 20);
  busy.Add(0, 5);
  busy.Add(15, 30);
  busy.Add(30, 31);
  EXPECT_THAT(busy.Take(), ElementsAre(Pair(0, 5), Pair(10, 31)));
  BusyTime bounded(8);
  for (int64_t i = 0; i < 1000; ++i) bounded.Add(i * 10'000, i * 10'000 + 10);
  EXPECT_LE(bounded.Take().size(), 16);
  EXPECT_GT(bounded.closed_gap_ns(), 0);
}

TEST(LateRowsTest, TheInnermostRowThatCoversMostIsToldInAnyOrder) {
  struct Row {
    int64_t begin_ns;
    int64_t end_ns;
    const char* name;
  };
  std::vector<Row> rows = {
      {0, 1000, "step"}, {100, 900, "outer"}, {150, 880, "inner"}, {150, 300, "short"}};
  for (int order = 0; order < 24; ++order) {
    LateRows late;
    const uint32_t covered = late.Add(0, 200, 800);
    const uint32_t other = late.Add(1, 200, 800);
    late.Sort();
    for (const Row& row : rows) {
      late.See(0, {LateKind::kOperator, true, row.begin_ns, row.end_ns, 7, 7, row.name});
    }
    late.See(1, {LateKind::kPython, true, 250, 300, 8, 8, "little"});
    EXPECT_EQ(late.window(covered).innermost.name, "inner");
    EXPECT_EQ(late.window(covered).innermost.covered_ns, 600);
    EXPECT_EQ(late.window(other).innermost.name, "little");
    std::next_permutation(rows.begin(), rows.end(), [](const Row& a, const Row& b) {
      return std::string_view(a.name) < std::string_view(b.name);
    });
  }
}

TEST(LateRowsTest, EachKindOfRowIsToldAndOtherThreadsOnlyWhereTheyAreBusy) {
  LateRows late;
  const uint32_t number = late.Add(0, 1000, 2000);
  late.Sort();
  late.See(0, {LateKind::kPython, true, 900, 2100, 7, 7, "train.py(3): load"});
  late.See(0, {LateKind::kOperator, true, 950, 2050, 7, 7, "load"});
  late.See(0, {LateKind::kSystemCall, true, 1100, 1900, 7, 7, "futex"});
  late.See(0, {LateKind::kOffCpu, true, 1100, 1400, 7, 7, "lock"});
  late.See(0, {LateKind::kOffCpu, true, 1450, 1900, 7, 7, "lock"});
  late.See(0, {LateKind::kOffCpu, true, 1400, 1450, 7, 7, "preempted"});
  late.See(0, {LateKind::kOffCpu, false, 0, 3000, 7, 8, "sleep"});
  late.See(0, {LateKind::kSystemCall, false, 0, 3000, 7, 8, "futex"});
  late.See(0, {LateKind::kPython, false, 0, 3000, 7, 8, "threading.py(320): wait"});
  const LateWindow& window = late.window(number);
  EXPECT_TRUE(window.elsewhere.name.empty());
  late.See(0, {LateKind::kSystemCall, false, 1050, 1850, 9, 9, "pread64"});
  EXPECT_EQ(window.elsewhere.name, "pread64");
  EXPECT_EQ(window.elsewhere.pid, 9);
  EXPECT_EQ(window.innermost.name, "futex");
  EXPECT_EQ(window.by_kind[static_cast<size_t>(LateKind::kOperator)].name, "load");
  EXPECT_EQ(window.by_kind[static_cast<size_t>(LateKind::kPython)].name, "train.py(3): load");
  EXPECT_EQ(window.LongestReason(), "lock");
  EXPECT_THAT(window.off_cpu_ns, testing::ElementsAre(Pair("lock", 750), Pair("preempted", 50)));
}

TEST(MergedIdsTest, NumbersAreUniqueAndBelowTheLimitOfDoubles) {
  MergedIds ids(2);
  std::set<int64_t> pids;
  std::set<uint64_t> arrows;
  for (uint32_t process = 0; process < 2; ++process) {
    ids.BeginPart(process);
    for (int64_t pid = 0; pid < 1500; ++pid) EXPECT_TRUE(pids.insert(ids.PidOf(pid)).second);
    EXPECT_EQ(ids.PidOf(int64_t{7}), ids.PidOf(int64_t{7}));
    EXPECT_TRUE(pids.insert(ids.PidOf("Spans")).second);
    for (const char* category : {"ac2g", "fwdbwd"}) {
      for (const int64_t id : {int64_t{0}, int64_t{1}, INT64_MAX, int64_t{-1}}) {
        EXPECT_TRUE(arrows.insert(ids.IdOf(category, id)).second);
      }
      EXPECT_TRUE(arrows.insert(ids.IdOf(category, "0x1")).second);
    }
  }
  EXPECT_LT(*arrows.rbegin(), uint64_t{1} << 53);
  EXPECT_GT(*arrows.begin(), uint64_t{UINT32_MAX});  // the rest are arrows between ranks
}

TEST(MergedIdsTest, ThreadsKeepTheirNumbersWhereTheyCan) {
  MergedIds ids(1);
  ids.BeginPart(0);
  const int64_t pid = ids.PidOf(int64_t{4711});
  EXPECT_EQ(ids.TidOf(pid, int64_t{4712}), 4712);
  const int64_t text = ids.TidOf(pid, "PyTorch Profiler");
  const int64_t negative = ids.TidOf(pid, int64_t{-1});
  EXPECT_NE(text, negative);
  EXPECT_NE(ids.TidOf(pid, text), text);
  EXPECT_EQ(ids.TidOf(pid, int64_t{4712}), 4712);
}

TEST(MergedNamesTest, NamesAreReadAndOthersLeft) {
  MergedNames names;
  SourceEvent event;
  event.phase = 'M';
  event.name = "process_name";
  event.args = R"({"name": "a \"b\""})";
  EXPECT_TRUE(names.Take(event, 1000, 0));
  event.name = "FH";
  EXPECT_FALSE(names.Take(event, 1000, 0));
  names.AddRow(1000, 5);
  EXPECT_EQ(names.processes().at(1000).name, "a \"b\"");
  EXPECT_TRUE(names.processes().at(1000).threads.at(5).has_rows);
  EXPECT_EQ(PlainText(R"(x\u0041\n)"), "xA\n");
}

}  // namespace
}  // namespace proftrace
