#include "userspace/fleet_tables/common_steps.h"

#include <gmock/gmock.h>

namespace proftrace {
namespace {

using testing::ElementsAre;

RankSteps Rank(int64_t first, size_t count, int64_t begin_ns = 0) {
  RankSteps rank;
  for (size_t i = 0; i < count; ++i) {
    const int64_t start_ns = begin_ns + static_cast<int64_t>(i) * 100;
    rank.steps.push_back({first + static_cast<int64_t>(i), start_ns, start_ns + 100});
  }
  return rank;
}

TEST(CommonSteps, MeetingsTell) {
  std::vector<RankSteps> ranks = {Rank(10, 5), Rank(0, 5), Rank(7, 5)};
  for (uint32_t i = 0; i < 5; ++i) {
    ranks[0].meetings.push_back({i, 10 + i});
    ranks[1].meetings.push_back({i, i});
    // It was attached to two steps later, and met the others in its groups alone.
    ranks[2].meetings.push_back({100 + i, 7 + i});
    ranks[1].meetings.push_back({100 + i, 2 + i});
  }
  EXPECT_THAT(CommonStepOffsets(ranks), ElementsAre(0, 10, 5));
}

TEST(CommonSteps, TheMostVotesWin) {
  std::vector<RankSteps> ranks = {Rank(0, 5), Rank(0, 5)};
  for (uint32_t i = 0; i < 5; ++i) {
    ranks[0].meetings.push_back({i, i});
    // A call at the edge of a step may lie in the one before it.
    ranks[1].meetings.push_back({i, i == 2 ? 0 : i});
  }
  EXPECT_THAT(CommonStepOffsets(ranks), ElementsAre(0, 0));
}

TEST(CommonSteps, WithoutMeetingsTimeTells) {
  EXPECT_THAT(CommonStepOffsets({Rank(5, 10), Rank(0, 3, 310), Rank(3, 2, 1'000'000)}),
              ElementsAre(0, 8, 0));
}

TEST(CommonSteps, RanksWithoutSteps) {
  EXPECT_THAT(CommonStepOffsets({RankSteps(), Rank(4, 2), RankSteps()}), ElementsAre(0, 0, 0));
  EXPECT_THAT(CommonStepOffsets({}), ElementsAre());
}

}  // namespace
}  // namespace proftrace
