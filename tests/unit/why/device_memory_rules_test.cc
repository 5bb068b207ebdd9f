// PyTorch's allocator of device memory: calls of the driver in the loop, and memory it cannot use.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "tests/unit/why/why_fixture.h"

namespace proftrace {
namespace {

using testing::Contains;
using testing::HasSubstr;
using testing::Not;

constexpr int64_t kMb = 1'000'000;
constexpr uint8_t kCuda = 1;

class DeviceMemoryTest : public WhyTest {
 protected:
  LabelId AddCall(const std::string& name) {
    Label label;
    label.name = name;
    label.category = Category::kCudaRuntime;
    label.kind = SpanKind::kRuntime;
    return maker_.AddLabel(label);
  }

  // cudaFree and cudaMalloc, 1 ms each, in steps of which `has_calls` says so.
  template <typename HasCalls>
  Verdict WhyOfCalls(HasCalls&& has_calls) {
    const LabelId give_back = AddCall("cudaFree");
    const LabelId take = AddCall("cudaMalloc");
    MakeSteps([&](int step, int64_t from_ns, int64_t) {
      if (!has_calls(step)) return;
      maker_.Add(thread_, give_back, from_ns, from_ns + kMs);
      maker_.Add(thread_, take, from_ns + kMs, from_ns + 2 * kMs);
    });
    return Why();
  }

  void AddEvent(int64_t time_ns, int64_t bytes, int64_t allocated, int64_t reserved,
                MemoryEventKind kind = MemoryEventKind::kUsage) {
    MemoryEvent event;
    event.time_ns = time_ns;
    event.bytes = bytes;
    event.total_allocated = allocated;
    event.total_reserved = reserved;
    event.total_known = true;
    event.thread = thread_;
    event.kind = kind;
    event.device_type = kCuda;
    event.device_index = 0;
    ASSERT_TRUE(maker_.AddMemoryEvent(event).ok());
    maker_.info().targets.front().memory_recorded = true;
  }

  // Each step frees 40 MB and allocates 30 MB; the driver gives `growth` for that.
  Verdict WhyOfMemory(int64_t growth_bytes) {
    int64_t reserved = 100 * kMb;
    MakeSteps([&](int, int64_t from_ns, int64_t) {
      AddEvent(from_ns, -40 * kMb, 60 * kMb, reserved);
      reserved += growth_bytes;
      AddEvent(from_ns + kMs, 30 * kMb, 90 * kMb, reserved);
    });
    return Why();
  }
};

TEST_F(DeviceMemoryTest, AnAllocatorThatAsksTheDriverInTheLoopIsNamed) {
  const Verdict verdict = WhyOfCalls([](int) { return true; });
  const std::optional<Finding> finding = FindKind(verdict, FindingKind::kAllocator);
  ASSERT_TRUE(finding.has_value());
  EXPECT_EQ(finding->ns, (kSteps - 2) * 2 * kMs);
  EXPECT_THAT(EvidenceOf(*finding),
              HasSubstr("20 calls in 10 of the 10 steps after the first two"));
  EXPECT_EQ(finding->next, "--profile-memory");
  int64_t all_ns = 0;
  for (const Finding& one : verdict.findings) all_ns += one.ns;
  EXPECT_LE(all_ns, verdict.total_ns);
}

TEST_F(DeviceMemoryTest, AJobThatBeginsFillsItsCache) {
  const Verdict verdict = WhyOfCalls([](int step) { return step < 4; });
  EXPECT_FALSE(FindKind(verdict, FindingKind::kAllocator).has_value());
}

TEST_F(DeviceMemoryTest, ARowOfThatNameIsNoCall) {
  const LabelId name = maker_.AddAnnotation("cudaMalloc");
  MakeSteps(
      [&](int, int64_t from_ns, int64_t to_ns) { maker_.Add(thread_, name, from_ns, to_ns); });
  EXPECT_FALSE(FindKind(Why(), FindingKind::kAllocator).has_value());
}

TEST_F(DeviceMemoryTest, MemoryThatItCannotUseIsSaid) {
  EXPECT_THAT(WhyOfMemory(35 * kMb).remarks,
              Contains(HasSubstr("In 10 steps PyTorch's allocator took more memory of cuda:0 from "
                                 "the driver, 350.0 MB in all, though it had up to 425.0 MB")));
}

TEST_F(DeviceMemoryTest, AnAllocatorThatUsesWhatItHasIsFine) {
  EXPECT_THAT(WhyOfMemory(0).remarks, Not(Contains(HasSubstr("allocator"))));
}

TEST_F(DeviceMemoryTest, AFailureForWantOfMemoryIsNoFragmentation) {
  AddEvent(kMs, 30 * kMb, 90 * kMb, 100 * kMb);
  AddEvent(2 * kMs, 80 * kMb, 0, 0, MemoryEventKind::kOutOfMemory);
  MakeSteps([](int, int64_t, int64_t) {});
  EXPECT_THAT(Why().remarks, Not(Contains(HasSubstr("failed"))));
}

TEST_F(DeviceMemoryTest, AFailureThoughThereIsMemoryIs) {
  AddEvent(kMs, 30 * kMb, 20 * kMb, 100 * kMb);
  AddEvent(2 * kMs, 50 * kMb, 0, 0, MemoryEventKind::kOutOfMemory);
  MakeSteps([](int, int64_t, int64_t) {});
  EXPECT_THAT(Why().remarks, Contains(HasSubstr("An allocation of 50.0 MB failed on cuda:0, though "
                                                "PyTorch's allocator had 80.0 MB that nobody")));
}

}  // namespace
}  // namespace proftrace
