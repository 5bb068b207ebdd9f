#include "userspace/fleet_questions/fleet_watch.h"

#include <gmock/gmock.h>

namespace proftrace {
namespace {

using nlohmann::json;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr int64_t kSecond = 1'000'000'000;
constexpr int64_t kNow = 1'700'000'000 * kSecond;

class FleetWatchTest : public testing::Test {
 protected:
  void Give(const std::string& name, const std::vector<std::string>& columns,
            const std::vector<std::vector<json>>& rows) {
    std::vector<AnswerColumn> typed;
    for (const std::string& column : columns) typed.push_back({column, ""});
    ASSERT_TRUE(answers_.OnQuestion(name, typed).ok());
    for (const auto& row : rows) ASSERT_TRUE(answers_.OnRow(row).ok());
  }
  void Coverage(int64_t ranks_seen, int64_t lost = 0) {
    Give("coverage", {"job", "attempt", "ranks_seen", "world_size", "hosts", "lost"},
         {{"j", 0, ranks_seen, 4, 1, lost}});
  }
  void Slow(const std::vector<std::vector<json>>& rows) {
    Give("verdict",
         {"job", "attempt", "rank", "host", "cause", "to_step", "last_step", "excess_ns"}, rows);
  }
  void Seen(const std::vector<std::vector<json>>& rows) {
    Give("last_seen", {"job", "attempt", "rank", "host", "last_ns", "behind_ns"}, rows);
  }
  // The kinds of what is told, with their ranks: "slow 1".
  std::vector<std::string> Look(int64_t now_ns = kNow) {
    std::vector<std::string> kinds;
    for (const WatchEvent& event : watch_.Look(answers_, now_ns)) {
      kinds.push_back(std::string(event.kind) +
                      (event.rank ? " " + std::to_string(*event.rank) : ""));
      EXPECT_FALSE(event.sentence.empty());
      EXPECT_EQ(event.ToJson().at("event"), event.kind);
      last_ = event;
    }
    answers_ = ReportAnswers();
    return kinds;
  }

  ReportAnswers answers_;
  FleetWatch watch_{60 * kSecond};
  WatchEvent last_;
};

TEST_F(FleetWatchTest, WhatIsAsItWasIsNotTold) {
  for (int look = 0; look < 2; ++look) {
    Coverage(4);
    Slow({{"j", 0, 1, "h", "data", 9, 9, 5e6}});
    Seen({{"j", 0, 1, "h", kNow, 0}});
    if (look == 0) {
      EXPECT_THAT(Look(), ElementsAre("coverage", "slow 1"));
    } else {
      EXPECT_THAT(Look(), IsEmpty());
    }
  }
}

TEST_F(FleetWatchTest, ASlowRankMayHaveAnotherCauseAndRecover) {
  const std::vector<std::vector<json>> seen = {{"j", 0, 1, "h", kNow, 0}};
  Seen(seen);
  Slow({{"j", 0, 1, "h", "data", 9, 9, 5e6}});
  EXPECT_THAT(Look(), ElementsAre("slow 1"));
  Seen(seen);
  Slow({{"j", 0, 1, "h", "io", 9, 9, 5e6}});
  EXPECT_THAT(Look(), ElementsAre("cause 1"));
  EXPECT_EQ(last_.ToJson().at("cause_before"), "data");
  // It was slow up to step 9, and is so no more.
  Seen(seen);
  Slow({{"j", 0, 1, "h", "io", 9, 20, 5e6}});
  EXPECT_THAT(Look(), ElementsAre("recovered 1"));
}

TEST_F(FleetWatchTest, ARankThatNothingComesOfIsSilentOnce) {
  Seen({{"j", 0, 0, "h", kNow, 0}, {"j", 0, 2, "h", kNow - 61 * kSecond, 61 * kSecond}});
  EXPECT_THAT(Look(), ElementsAre("silent 2"));
  Seen({{"j", 0, 0, "h", kNow, 0}, {"j", 0, 2, "h", kNow - 90 * kSecond, 90 * kSecond}});
  EXPECT_THAT(Look(), IsEmpty());
  Seen({{"j", 0, 0, "h", kNow, 0}, {"j", 0, 2, "h", kNow, 0}});
  EXPECT_THAT(Look(), ElementsAre("back 2"));
}

TEST_F(FleetWatchTest, AJobThatNothingComesOfIsSilentAsAWhole) {
  Seen({{"j", 0, 0, "h", kNow, 0}});
  EXPECT_THAT(Look(), IsEmpty());
  Seen({{"j", 0, 0, "h", kNow, 0}});
  EXPECT_THAT(Look(kNow + 61 * kSecond), ElementsAre("job silent"));
  Seen({{"j", 0, 0, "h", kNow + 60 * kSecond, 0}});
  EXPECT_THAT(Look(kNow + 62 * kSecond), ElementsAre("job back"));
}

TEST_F(FleetWatchTest, CoverageThatChangesIsTold) {
  Coverage(4);
  EXPECT_THAT(Look(), ElementsAre("coverage"));
  Coverage(4);
  EXPECT_THAT(Look(), IsEmpty());
  Coverage(4, 7);
  EXPECT_THAT(Look(), ElementsAre("coverage"));
}

TEST_F(FleetWatchTest, RecordingsWithoutARankAreNotCountedAsRanks) {
  Coverage(0);
  EXPECT_THAT(Look(), ElementsAre("coverage"));
  EXPECT_EQ(last_.sentence, "Job j: recordings that say no rank were seen, 0 events were lost.");
}

TEST_F(FleetWatchTest, NamesAreShownSafely) {
  Seen({{"j", 0, 0, "h", kNow, 0},
        {"\x1b[2J", 0, 2, "\x1b]0;x\n", kNow - 61 * kSecond, 61 * kSecond}});
  EXPECT_THAT(Look(), ElementsAre("silent 2"));
  EXPECT_EQ(last_.sentence.find('\x1b'), std::string::npos);
  EXPECT_EQ(last_.sentence.find('\n'), std::string::npos);
}

}  // namespace
}  // namespace proftrace
