#include "userspace/capture/cost/operator_meter.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace proftrace {
namespace {

constexpr uint32_t kTop = 1000;  // of the stack: calls go down from there
const Pid kPid{7};

abi::pt_record Record(uint8_t kind, uint32_t tid, uint64_t time_ns, uint16_t site, uint32_t depth) {
  abi::pt_record record{};
  record.time_ns = time_ns;
  record.pid = Raw(kPid);
  record.tid = tid;
  record.sp = kTop - depth;
  record.site = site;
  record.kind = kind;
  return record;
}

class OperatorMeterTest : public ::testing::Test {
 protected:
  void Begin(uint32_t tid, uint64_t time_ns, uint16_t site, uint32_t depth) {
    meter_.Observe(Record(abi::PT_SPAN_BEGIN, tid, time_ns, site, depth));
  }
  void End(uint32_t tid, uint64_t time_ns, uint16_t site, uint32_t depth) {
    meter_.Observe(Record(abi::PT_SPAN_END, tid, time_ns, site, depth));
  }
  // Returns one thread's use of a site since the last time.
  OperatorMeter::Use UseOf(uint32_t tid, uint16_t site) {
    for (const OperatorMeter::ThreadUse& thread : meter_.Take()) {
      if (thread.tid != tid) continue;
      for (const auto& [other, use] : thread.sites) {
        if (other == site) return use;
      }
    }
    return {};
  }

  OperatorMeter meter_;
};

TEST_F(OperatorMeterTest, CountsCallsAndTimesOfEachThread) {
  for (uint64_t i = 0; i < 3; ++i) {
    Begin(1, 100 * i, 5, 10);
    Begin(2, 100 * i + 1, 5, 10);
    End(1, 100 * i + 20, 5, 10);
  }
  const OperatorMeter::Use use = UseOf(1, 5);
  EXPECT_EQ(use.calls, 3u);
  EXPECT_EQ(use.duration_ns, 60);
  EXPECT_EQ(UseOf(1, 5).calls, 0u) << "taken";
}

TEST_F(OperatorMeterTest, KnowsWhatHasChildrenAndWhatIsOutermost) {
  Begin(1, 10, 5, 10);
  Begin(1, 20, 6, 20);
  End(1, 30, 6, 20);
  End(1, 40, 5, 10);
  EXPECT_TRUE(meter_.TraitsOf(kPid, 5).has_children);
  EXPECT_TRUE(meter_.TraitsOf(kPid, 5).is_outermost);
  EXPECT_FALSE(meter_.TraitsOf(kPid, 6).has_children);
  EXPECT_FALSE(meter_.TraitsOf(kPid, 6).is_outermost);
}

TEST_F(OperatorMeterTest, AnAnnotationInsideIsAChild) {
  Begin(1, 10, 5, 10);
  meter_.Observe(Record(abi::PT_ANNOTATION_BEGIN, 1, 15, 0, 20));
  End(1, 40, 5, 10);
  EXPECT_TRUE(meter_.TraitsOf(kPid, 5).has_children);
}

TEST_F(OperatorMeterTest, KnowsWhatIsOpen) {
  Begin(1, 10, 5, 10);
  Begin(2, 10, 5, 10);
  EXPECT_EQ(meter_.TraitsOf(kPid, 5).open, 2u);
  End(1, 20, 5, 10);
  EXPECT_EQ(meter_.TraitsOf(kPid, 5).open, 1u);
  meter_.Observe(Record(abi::PT_CATCH, 2, 30, 0, 5));
  EXPECT_EQ(meter_.TraitsOf(kPid, 5).open, 0u);
}

TEST_F(OperatorMeterTest, EndsWithoutABeginAreNobodys) {
  Begin(1, 10, 5, 10);
  End(1, 20, 6, 20);  // of a call that was only counted
  End(1, 30, 5, 10);
  EXPECT_EQ(UseOf(1, 6).calls, 0u);
  EXPECT_EQ(meter_.TraitsOf(kPid, 5).open, 0u);
}

TEST_F(OperatorMeterTest, ALossAndAThreadsEndCloseWhatIsOpen) {
  Begin(1, 10, 5, 10);
  Begin(2, 10, 6, 10);
  meter_.Observe(Record(abi::PT_LOSS, 1, 20, 0, 0));
  meter_.Observe(Record(abi::PT_THREAD_EXIT, 2, 20, 0, 0));
  EXPECT_EQ(meter_.TraitsOf(kPid, 5).open, 0u);
  EXPECT_EQ(meter_.TraitsOf(kPid, 6).open, 0u);
  EXPECT_EQ(meter_.Take().size(), 1u);
}

TEST_F(OperatorMeterTest, ForgetsAProcess) {
  Begin(1, 10, 5, 10);
  meter_.Forget(kPid);
  EXPECT_TRUE(meter_.Take().empty());
  EXPECT_FALSE(meter_.TraitsOf(kPid, 5).is_outermost);
}

}  // namespace
}  // namespace proftrace
