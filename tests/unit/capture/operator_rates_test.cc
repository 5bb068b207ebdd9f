#include "userspace/capture/cost/operator_rates.h"

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <chrono>
#include <thread>
#include <vector>

#include "userspace/base/clock.h"

namespace proftrace {
namespace {

const Pid kThisProcess{static_cast<uint32_t>(getpid())};

abi::pt_record Call(uint32_t pid, uint32_t tid, uint16_t kind = abi::PT_COST, uint16_t site = 0) {
  abi::pt_record head{};
  head.kind = kind;
  head.site = site;
  head.pid = pid;
  head.tid = tid;
  head.time_ns = static_cast<uint64_t>(MonotonicNs());
  return head;
}

void Observe(OperatorRates* rates, uint32_t tid, int calls) {
  for (int i = 0; i < calls; ++i) rates->Observe(Call(Raw(kThisProcess), tid));
}

TEST(OperatorRatesTest, TheBusiestThreadOfAProcessIsTold) {
  OperatorRates rates;
  const auto tid = static_cast<uint32_t>(syscall(SYS_gettid));
  rates.Begin(std::vector<Pid>{kThisProcess});
  Observe(&rates, tid, 500);
  Observe(&rates, tid + 1'000'000, 100);  // one that has ended
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  const std::vector<OperatorRates::Thread> threads = rates.End(0);
  ASSERT_EQ(threads.size(), 1u);
  EXPECT_EQ(threads[0].pid, kThisProcess);
  EXPECT_EQ(threads[0].tid, Tid{tid});
  EXPECT_EQ(threads[0].operators, 500u);
  EXPECT_GE(threads[0].able_ns, 1'000'000);
  EXPECT_LE(threads[0].operators_per_s(), 500 / 0.001);
}

TEST(OperatorRatesTest, OtherRecordsAreLeftOut) {
  OperatorRates rates;
  const abi::pt_record before = Call(Raw(kThisProcess), 1);
  std::this_thread::sleep_for(std::chrono::milliseconds(1));
  rates.Begin(std::vector<Pid>{kThisProcess});
  rates.Observe(before);
  rates.Observe(Call(Raw(kThisProcess) + 1, 1));
  rates.Observe(Call(Raw(kThisProcess), 1, abi::PT_COST, /*site=*/7));
  rates.Observe(Call(Raw(kThisProcess), 1, abi::PT_SPAN_BEGIN));
  EXPECT_EQ(rates.operators(), 0u);
  EXPECT_TRUE(rates.End(0).empty());
  rates.Observe(Call(Raw(kThisProcess), 1));
  EXPECT_EQ(rates.operators(), 0u);
}

TEST(OperatorRatesTest, WhatTheCounterTakesIsNoTimeOfTheThread) {
  OperatorRates rates;
  const auto tid = static_cast<uint32_t>(syscall(SYS_gettid));
  rates.Begin(std::vector<Pid>{kThisProcess});
  Observe(&rates, tid, 100);
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  // 100 calls of a second each: more than there was.
  const std::vector<OperatorRates::Thread> threads = rates.End(1e9);
  ASSERT_EQ(threads.size(), 1u);
  EXPECT_GT(threads[0].able_ns, 0);
  EXPECT_LT(threads[0].able_ns, 1'000'000'000);
  EXPECT_GT(threads[0].operators_per_s(), 100);
}

}  // namespace
}  // namespace proftrace
