#include "userspace/capture/session/clock_snapshots.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>

namespace proftrace {
namespace {

// Clocks that go on while they are read: each reading takes 50 ns, in whose middle it happens.
class FakeClocks {
 public:
  int64_t Read(clockid_t clock) {
    ++readings_;
    const int64_t takes_ns = readings_ == slow_reading_ ? 1'000'000 : 50;
    now_ns_ += takes_ns / 2;
    const int64_t ns =
        now_ns_ + leads_ns_[clock] + (clock == CLOCK_MONOTONIC_RAW ? RawGainNs() : 0);
    now_ns_ += takes_ns / 2;
    return ns;
  }
  int64_t LeadNs(clockid_t clock) { return leads_ns_[clock]; }
  // RAW goes 500 ppm faster.
  int64_t RawGainNs() const { return now_ns_ / 2000; }
  void SlowDown(int reading) { slow_reading_ = reading; }
  int readings() const { return readings_; }

 private:
  int64_t now_ns_ = 10'000'000'000;
  std::map<clockid_t, int64_t> leads_ns_ = {{CLOCK_MONOTONIC_RAW, -700},
                                            {CLOCK_BOOTTIME, 5'000'000'000},
                                            {CLOCK_REALTIME, 1'700'000'000'000'000'000},
                                            {CLOCK_TAI, 1'700'000'037'000'000'000}};
  int readings_ = 0;
  int slow_reading_ = 0;
};

void ExpectRight(const ClockSnapshot& read, FakeClocks& clocks) {
  const auto expect = [&](const std::optional<int64_t>& ns, int64_t lead_ns) {
    ASSERT_TRUE(ns);
    EXPECT_LE(2 * std::abs(*ns - read.monotonic_ns - lead_ns), read.gap_ns);
  };
  expect(read.monotonic_raw_ns, clocks.LeadNs(CLOCK_MONOTONIC_RAW) + read.monotonic_ns / 2000);
  expect(read.boottime_ns, clocks.LeadNs(CLOCK_BOOTTIME));
  expect(read.realtime_ns, clocks.LeadNs(CLOCK_REALTIME));
  expect(read.tai_ns, clocks.LeadNs(CLOCK_TAI));
}

TEST(ClockSnapshotsTest, EachClockIsRightToWithinHalfTheGap) {
  FakeClocks clocks;
  const ClockSnapshot read = ReadClocks([&](clockid_t clock) { return clocks.Read(clock); });
  EXPECT_LE(read.gap_ns, 101);
  ExpectRight(read, clocks);
}

// The thread was preempted there.
TEST(ClockSnapshotsTest, OneSlowReadingSpoilsNothing) {
  FakeClocks quiet;
  ReadClocks([&](clockid_t clock) { return quiet.Read(clock); });
  for (int slow = 1; slow <= quiet.readings(); ++slow) {
    FakeClocks clocks;
    clocks.SlowDown(slow);
    const ClockSnapshot read = ReadClocks([&](clockid_t clock) { return clocks.Read(clock); });
    EXPECT_LE(read.gap_ns, 101) << slow;
    ExpectRight(read, clocks);
  }
}

TEST(ClockSnapshotsTest, TheKernelsClocksAreRead) {
  const int64_t monotonic_before_ns = MonotonicNs();
  const int64_t unix_before_ns = ClockNs(CLOCK_REALTIME);
  const ClockSnapshot read = ReadKernelClocks();
  const int64_t unix_after_ns = ClockNs(CLOCK_REALTIME);
  const int64_t monotonic_after_ns = MonotonicNs();
  EXPECT_GE(read.monotonic_ns, monotonic_before_ns);
  EXPECT_LE(read.monotonic_ns, monotonic_after_ns);
  EXPECT_GE(*read.realtime_ns, unix_before_ns - read.gap_ns);
  EXPECT_LE(*read.realtime_ns, unix_after_ns + read.gap_ns);
  EXPECT_GE(*read.boottime_ns, read.monotonic_ns - read.gap_ns) << "suspends only add to it";
}

TEST(NtpStateTest, UnitsAreThoseOfTheKernelsFlags) {
  timex state{};
  state.maxerror = 500;
  state.esterror = 20;
  state.offset = -7;
  state.freq = 3 << 16;
  state.status = STA_PLL;
  NtpState ntp = NtpStateOf(state);
  EXPECT_TRUE(ntp.is_synchronised);
  EXPECT_EQ(ntp.max_error_ns, 500'000);
  EXPECT_EQ(ntp.estimated_error_ns, 20'000);
  EXPECT_EQ(ntp.offset_ns, -7000);
  EXPECT_EQ(ntp.frequency_ppb, 3000);
  state.status = STA_UNSYNC | STA_NANO;
  ntp = NtpStateOf(state);
  EXPECT_FALSE(ntp.is_synchronised);
  EXPECT_EQ(ntp.offset_ns, -7);
}

}  // namespace
}  // namespace proftrace
