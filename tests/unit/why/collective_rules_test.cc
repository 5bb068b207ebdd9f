// Which rank entered collectives last, where several are in one recording.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>
#include <string>

#include "tests/support/system_events.h"
#include "tests/unit/why/why_fixture.h"

namespace proftrace {
namespace {

using testing::HasSubstr;
using testing::Not;

// In each step the driver waits 5 ms in a collective. Rank 1 is there from the begin on, rank 2
// after `late_ns`, in which it computes.
class CollectiveRulesTest : public WhyTest {
 protected:
  std::string EvidenceWith(std::optional<int64_t> late_ns) {
    maker_.info().system.sched = true;
    maker_.info().targets.push_back({.pid = Pid{9}});
    maker_.info().targets.back().rank = 2;
    MakeSteps([&](int, int64_t from_ns, int64_t) {
      const int64_t end_ns = from_ns + 5 * kMs;
      for (int i = 0; i < works_a_step_; ++i) {
        const int64_t at_ns = from_ns + i * (end_ns - from_ns) / works_a_step_;
        maker_.Add(works_, work_, at_ns, at_ns + (end_ns - from_ns) / works_a_step_);
      }
      maker_.AddSystemEvent(MakeOffCpu(thread_, WaitReason::kEvent, from_ns, end_ns, 0, "futex"));
      if (!late_ns.has_value()) return;
      maker_.Add(works_1_, work_, from_ns - kMs, end_ns);
      if (*late_ns > 0) maker_.Add(rank_2_, multiply_, from_ns, from_ns + *late_ns);
      maker_.Add(works_2_, work_, from_ns + *late_ns, end_ns);
    });
    const auto finding = FindKind(Why(), FindingKind::kCollectives);
    return finding.has_value() ? EvidenceOf(*finding) : "";
  }

  int works_a_step_ = 1;
  LabelId work_ = maker_.AddLabel({.name = "gloo:all_reduce", .category = Category::kCpuOp});
  ThreadIndex works_ = maker_.AddThread(7, 70, "pt_gloo");
  ThreadIndex works_1_ = maker_.AddThread(8, 80, "pt_gloo");
  ThreadIndex rank_2_ = maker_.AddThread(9, 9, "python");
  ThreadIndex works_2_ = maker_.AddThread(9, 90, "pt_gloo");
};

TEST_F(CollectiveRulesTest, TheLastRankIsNamedWithWhatItDid) {
  const std::string evidence = EvidenceWith(4 * kMs);
  EXPECT_THAT(evidence, HasSubstr("For 80 % of that time the main thread of process python (PID "
                                  "9), rank 2, had not entered the collective."));
  EXPECT_THAT(evidence, HasSubstr("Of its rows it was in aten::mm then, for 100 %"));
}

TEST_F(CollectiveRulesTest, RanksThatAreThereAreNotAccused) {
  const std::string evidence = EvidenceWith(kMs / 2);
  EXPECT_THAT(evidence, Not(HasSubstr("had not entered")));
  EXPECT_THAT(evidence, HasSubstr("a rank that was not recorded, or the transfer"));
}

TEST_F(CollectiveRulesTest, ManyCollectivesAreCounted) {
  works_a_step_ = 10;
  EXPECT_THAT(EvidenceWith(0), HasSubstr("There are 10 collectives a step, gloo:all_reduce most of "
                                         "all, each under way for 500 us on average."));
}

TEST_F(CollectiveRulesTest, FewCollectivesAreNotTooMany) {
  EXPECT_THAT(EvidenceWith(0), Not(HasSubstr("collectives a step")));
}

TEST_F(CollectiveRulesTest, WithoutOtherRanksMergeTells) {
  EXPECT_THAT(EvidenceWith(std::nullopt), HasSubstr("'proftrace merge' compares them"));
}

}  // namespace
}  // namespace proftrace
