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

// Of many threads, each of which has a buffer.
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

}  // namespace
}  // namespace proftrace
