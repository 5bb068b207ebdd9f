#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "userspace/merge/event_sorter.h"

namespace proftrace {
namespace {

Event At(int64_t ns, uint32_t tid = 1) {
  Event event;
  event.time_ns = ns;
  event.tid = Tid{tid};
  return event;
}

std::vector<int64_t> Drain(EventSorter& sorter, bool flush) {
  std::vector<int64_t> times;
  sorter.Drain(flush, [&times](const Event& event, std::span<const Event>) {
    times.push_back(event.time_ns);
    return true;
  });
  return times;
}

TEST(EventSorterTest, HoldsBackWhatMayStillBeOvertaken) {
  Ledger ledger;
  EventSorter sorter(&ledger);
  const int64_t window = EventSorter::kWindowNs;
  *sorter.buffer() = {At(0), At(10), At(window + 5)};
  EXPECT_THAT(Drain(sorter, false), ::testing::ElementsAre(0));
  sorter.buffer()->push_back(At(7, 2));
  EXPECT_THAT(Drain(sorter, true), ::testing::ElementsAre(7, 10, window + 5));
  EXPECT_EQ(ledger.late, 0u);
}

TEST(EventSorterTest, EqualTimesKeepTheirOrder) {
  Ledger ledger;
  EventSorter sorter(&ledger);
  for (uint32_t tid = 1; tid <= 5; ++tid) sorter.buffer()->push_back(At(50, tid));
  sorter.buffer()->push_back(At(40, 9));
  std::vector<uint32_t> tids;
  sorter.Drain(true, [&tids](const Event& event, std::span<const Event>) {
    tids.push_back(Raw(event.tid));
    return true;
  });
  EXPECT_THAT(tids, ::testing::ElementsAre(9, 1, 2, 3, 4, 5));
}

TEST(EventSorterTest, LateEventsAreCountedAndGetTheTimeOfTheLastOne) {
  Ledger ledger;
  EventSorter sorter(&ledger);
  const int64_t window = EventSorter::kWindowNs;
  *sorter.buffer() = {At(100), At(3 * window)};
  EXPECT_THAT(Drain(sorter, false), ::testing::ElementsAre(100));
  sorter.buffer()->push_back(At(50));
  sorter.buffer()->push_back(At(40));
  EXPECT_THAT(Drain(sorter, true), ::testing::ElementsAre(100, 100, 3 * window));
  EXPECT_EQ(ledger.late, 2u);
  EXPECT_TRUE(ledger.AnyLoss());
}

}  // namespace
}  // namespace proftrace
