// Samples from before the window.
#include "userspace/capture/samples/sample_writer.h"

#include <gtest/gtest.h>

#include <limits>

namespace proftrace {
namespace {

constexpr int64_t kPeriodNs = 10;

SampleOf Looks(int64_t time_ns, uint32_t count) {
  SampleOf sample;
  sample.time_ns = time_ns;
  sample.count = count;
  sample.is_last = true;
  return sample;
}

TEST(SampleWriterTest, LooksBeforeTheWindowAreLeftOut) {
  struct Case {
    int64_t start_ns;
    int64_t time_ns;
    uint32_t count;
  };
  // Five looks at 100, 110, 120, 130 and 140.
  for (const Case& expected :
       {Case{0, 100, 5}, Case{100, 100, 5}, Case{101, 110, 4}, Case{110, 110, 4}, Case{111, 120, 3},
        Case{140, 140, 1}, Case{141, 150, 0}, Case{1000, 150, 0}}) {
    const SampleOf kept = WithoutLooksBefore(expected.start_ns, Looks(100, 5), kPeriodNs);
    EXPECT_EQ(kept.time_ns, expected.time_ns) << expected.start_ns;
    EXPECT_EQ(kept.count, expected.count) << expected.start_ns;
    EXPECT_TRUE(kept.is_last);
  }
}

TEST(SampleWriterTest, NothingIsKeptAsLongAsThereIsNoWindow) {
  const int64_t never = std::numeric_limits<int64_t>::max();
  EXPECT_EQ(WithoutLooksBefore(never, Looks(100, 5), kPeriodNs).count, 0u);
}

TEST(SampleWriterTest, AWakerBeforeTheWindowIsLeftOut) {
  SampleOf waker = Looks(100, 1);
  waker.woken = Tid{7};
  EXPECT_EQ(Raw(WithoutLooksBefore(100, waker, 0).woken), 7u);
  const SampleOf early = WithoutLooksBefore(101, waker, 0);
  EXPECT_EQ(Raw(early.woken), 0u);
  EXPECT_EQ(early.count, 0u);
}

}  // namespace
}  // namespace proftrace
