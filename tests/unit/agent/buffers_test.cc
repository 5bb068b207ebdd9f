// CUPTI's buffers and the GPU agent: how many, how full, and what is in them at the end.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <thread>

#include "tests/support/agent_job.h"
#include "userspace/base/clock.h"

namespace proftrace {
namespace {

JobOptions WithDevice(int64_t column_ns, const std::string& settings = "") {
  JobOptions options = With(settings);
  options.environment["CUDA_DOUBLE_KERNEL_NS"] = std::to_string(column_ns);
  return options;
}

std::vector<abi::pt_gpu_kernel_record> Kernels(const AgentJob& job) {
  return job.Records<abi::pt_gpu_kernel_record>(abi::PT_GPU_KERNEL);
}

// Many buffers while the agent's thread is stuck in a flush.
void FillAllBuffers(AgentJob& job) {
  job.StartAndRun();
  job.Do([](JobTools& tools, int64_t) -> int64_t { return tools.settings->hang_flush = 1; });
  usleep(400'000);  // a flush begins every 0.2 s
  job.Do(LaunchKernels, 2000);
  job.Do([](JobTools& tools, int64_t) -> int64_t { return tools.settings->hang_flush = 0; });
  job.Stop();
}

TEST(AgentBuffersTest, BuffersThatAreRefusedAreCounted) {
  AgentJob job(With("fill=512"));
  FillAllBuffers(job);
  const AgentReport report = job.ring().report();
  EXPECT_GT(report.buffers_refused, 0u);
  EXPECT_GT(report.cupti_dropped, 0u);
  uint64_t told = 0;
  for (const auto& record : job.Records<abi::pt_gpu_count_record>(abi::PT_GPU_DROPPED)) {
    told += record.count;
  }
  EXPECT_EQ(told, report.cupti_dropped);
  job.ExpectConserved();
}

TEST(AgentBuffersTest, AnOldCuptiIsNeverRefusedABuffer) {
  AgentJob job(With("version=26,fill=512"));
  FillAllBuffers(job);
  EXPECT_GT(job.ring().report().buffers_refused, 0u);
  EXPECT_EQ(job.ring().report().cupti_dropped, 0u);
  EXPECT_LT(job.ring().report().cupti_records, job.Emitted());
}

// Launches a kernel on each of `count` threads, each of which has a buffer.
int64_t LaunchOnThreads(JobTools& tools, int64_t count) {
  for (int64_t i = 0; i < count; ++i) std::thread(LaunchKernels, std::ref(tools), 1).join();
  return 0;
}

void LaunchInAFlush(AgentJob& job, int64_t threads) {
  job.StartAndRun();
  job.Do([](JobTools& tools, int64_t) -> int64_t { return tools.settings->hang_flush = 1; });
  usleep(400'000);
  job.Do(LaunchOnThreads, threads);
  job.Do([](JobTools& tools, int64_t) -> int64_t { return tools.settings->hang_flush = 0; });
  job.Stop();
}

TEST(AgentBuffersTest, HundredsOfThreadsHaveOneEach) {
  AgentJob job;
  LaunchInAFlush(job, 400);
  EXPECT_EQ(Kernels(job).size(), 400u);
  EXPECT_EQ(job.ring().report().buffers_refused, 0u);
  EXPECT_EQ(job.ring().report().cupti_dropped, 0u);
  job.ExpectConserved();
}

TEST(AgentBuffersTest, WhatAnOldCuptiPutIntoMemoryBesideThePoolIsRead) {
  AgentJob job(With("version=22"));
  LaunchInAFlush(job, 600);
  EXPECT_EQ(Kernels(job).size(), 600u);
  EXPECT_GT(job.ring().report().buffers_refused, 0u);
  EXPECT_EQ(job.ring().report().cupti_dropped, 0u);
  job.ExpectConserved();
}

TEST(AgentBuffersTest, AJobThatRunsAheadIsReadLongBeforeItsGpuHasNothingToDo) {
  AgentJob job(WithDevice(1'000'000));
  job.StartAndRun();
  const int64_t begin = MonotonicNs();
  job.Do(LaunchKernels, 2000);  // four seconds of work
  const int64_t deadline = begin + 10'000'000'000;
  while (Kernels(job).empty() && MonotonicNs() < deadline) {
    job.Drain();
    usleep(1000);
  }
  EXPECT_LT(MonotonicNs(), begin + 3'900'000'000);
  EXPECT_GT(Kernels(job).size(), 0u);
}

TEST(AgentBuffersTest, TheLastWorkOfABusyGpuArrives) {
  AgentJob job(WithDevice(50'000'000));
  job.StartAndRun();
  job.Do(LaunchKernels, 3);  // 0.3 s
  job.Stop();
  const auto kernels = Kernels(job);
  ASSERT_EQ(kernels.size(), 3u);
  for (const auto& kernel : kernels) {
    // The stand-in's device measures by a clock that it compares with this one.
    EXPECT_NEAR(static_cast<double>(kernel.end_ns - kernel.head.time_ns), 1e8, 1e7);
  }
  EXPECT_EQ(job.ring().report().incomplete_buffers, 0u);
}

TEST(AgentBuffersTest, WorkThatDoesNotEndIsAwaitedForASecondAndHasNoTimes) {
  AgentJob job(WithDevice(10'000'000'000));
  job.StartAndRun();
  job.Do(LaunchKernels, 1);
  const int64_t before = MonotonicNs();
  job.Stop();
  EXPECT_GT(MonotonicNs() - before, 900'000'000);
  EXPECT_LT(MonotonicNs() - before, 8'000'000'000);
  ASSERT_EQ(Kernels(job).size(), 1u);
  EXPECT_EQ(Kernels(job)[0].head.time_ns, 0u);
  EXPECT_EQ(Kernels(job)[0].end_ns, 0u);
  EXPECT_EQ(job.ring().report().state, abi::PT_AGENT_STOPPED);
}

TEST(AgentBuffersTest, WhatLiesBehindAnIncompleteRecordIsCounted) {
  AgentJob job(WithDevice(10'000'000'000, "incomplete_ends=1"));
  job.StartAndRun();
  job.Do(LaunchKernels, 2);
  job.Stop();
  EXPECT_EQ(Kernels(job).size(), 0u);
  const AgentReport report = job.ring().report();
  EXPECT_EQ(report.incomplete_buffers, 1u);
  EXPECT_GT(report.incomplete_bytes, 2 * 144u);
  EXPECT_LT(report.incomplete_bytes, 1000u);
  EXPECT_EQ(report.unread_records, 0u);
  EXPECT_EQ(report.ring_records, report.cupti_records);
}

TEST(AgentBuffersTest, ABufferOfAnotherToolIsLeftToIt) {
  AgentJob job;
  job.StartAndRun();
  job.Do([](JobTools& tools, int64_t) -> int64_t {
    using Completed = void (*)(void*, uint32_t, uint8_t*, size_t, size_t);
    constexpr size_t kBytes = 1 << 20;
    void* buffer =
        mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    auto* bytes = static_cast<uint8_t*>(buffer);
    reinterpret_cast<Completed>(tools.settings->completed)(nullptr, 0, bytes, kBytes, 64);
    std::fill_n(bytes, kBytes, uint8_t{1});  // it is there still
    return 0;
  });
  job.Do(LaunchKernels, 1);
  job.Stop();
  EXPECT_EQ(Kernels(job).size(), 1u);
  EXPECT_EQ(job.ring().report().failure, abi::PT_AGENT_TAKEN);
  EXPECT_NE(job.ring().report().message.find("recorded with CUPTI before"), std::string::npos);
}

}  // namespace
}  // namespace proftrace
