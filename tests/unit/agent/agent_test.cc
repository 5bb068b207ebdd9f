// The GPU agent in a process with stand-ins for CUDA and CUPTI: how it starts, stops and fails.
#include <dirent.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <fstream>
#include <set>

#include "tests/support/agent_job.h"
#include "userspace/base/clock.h"

namespace proftrace {
namespace {

TEST(AgentTest, TellsWhatIsDoneWithCuda) {
  AgentJob job;
  job.StartAndRun();
  const auto before = static_cast<uint64_t>(MonotonicNs());
  ASSERT_EQ(job.Do(LaunchKernels, 3), 0);
  const auto after = static_cast<uint64_t>(MonotonicNs());
  job.Stop();
  const auto kernels = job.Records<abi::pt_gpu_kernel_record>(abi::PT_GPU_KERNEL);
  const auto calls = job.Records<abi::pt_gpu_call_record>(abi::PT_GPU_CALL);
  ASSERT_EQ(kernels.size(), 3u);
  ASSERT_EQ(calls.size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(job.Name(kernels[i].name), "_Z6kernelPfi");
    EXPECT_EQ(job.Name(calls[i].name), "cudaLaunchKernel_v7000");
    EXPECT_EQ(kernels[i].correlation, calls[i].correlation);
    EXPECT_EQ(calls[i].domain, abi::PT_GPU_RUNTIME);
    EXPECT_EQ(calls[i].head.pid, static_cast<uint32_t>(job.pid()));
    EXPECT_EQ(calls[i].head.tid, 2 * static_cast<uint32_t>(job.pid()));  // as the test numbers them
    EXPECT_LE(before, calls[i].head.time_ns);
    EXPECT_LE(calls[i].head.time_ns, kernels[i].head.time_ns);
    EXPECT_LE(kernels[i].head.time_ns, kernels[i].end_ns);
    EXPECT_LE(kernels[i].end_ns, calls[i].end_ns);
    EXPECT_LE(calls[i].end_ns, after);
    EXPECT_EQ(kernels[i].grid[2], 4);
    EXPECT_EQ(kernels[i].dynamic_shared_bytes, 256);
  }
  const auto devices = job.Records<abi::pt_gpu_device_record>(abi::PT_GPU_DEVICE);
  ASSERT_EQ(devices.size(), 1u);
  EXPECT_EQ(job.Name(devices[0].name), "Double H100");
  EXPECT_EQ(devices[0].max_shared_bytes_optin, 101376u);
  EXPECT_EQ(job.Records<abi::pt_gpu_context_record>(abi::PT_GPU_CONTEXT).size(), 1u);
  job.ExpectConserved();
  const AgentReport report = job.ring().report();
  EXPECT_EQ(report.state, abi::PT_AGENT_STOPPED);
  EXPECT_EQ(report.cupti_version, 28u);
  EXPECT_EQ(report.driver_version, 12090u);
  EXPECT_EQ(report.runtime_version, 12090u);
  EXPECT_EQ(report.message, "");
}

TEST(AgentTest, RecordsArriveWhileItRuns) {
  AgentJob job;
  job.StartAndRun();
  ASSERT_EQ(job.Do(LaunchKernels, 1), 0);
  const int64_t deadline = MonotonicNs() + 10'000'000'000;
  while (job.Records<abi::pt_gpu_kernel_record>(abi::PT_GPU_KERNEL).empty() &&
         MonotonicNs() < deadline) {
    job.Drain();
    usleep(1000);
  }
  EXPECT_EQ(job.Records<abi::pt_gpu_kernel_record>(abi::PT_GPU_KERNEL).size(), 1u);
  EXPECT_GE(job.Records<abi::pt_gpu_clock_record>(abi::PT_GPU_CLOCK).size(), 1u);
}

TEST(AgentTest, LeavesCuptiAsItWas) {
  AgentJob job;
  job.StartAndRun();
  job.Stop();
  EXPECT_EQ(job.Do([](JobTools& tools, int64_t) -> int64_t {
    timespec now{};
    clock_gettime(CLOCK_REALTIME, &now);
    const int64_t ahead =
        static_cast<int64_t>(tools.settings->now()) - (now.tv_sec * 1'000'000'000 + now.tv_nsec);
    return tools.settings->enabled == 0 && tools.settings->subscriptions == 0 &&
           tools.settings->thread_id_type == 0 && ahead >= 0 && ahead < 1'000'000'000;
  }),
            1);
}

TEST(AgentTest, IsStartedByTheDriverToo) {
  JobOptions options;
  options.environment["CUDA_DOUBLE_LAZY"] = "1";
  AgentJob job(options);
  // As CUDA_INJECTION64_PATH has it: the driver loads the library and calls it before it is ready.
  ASSERT_EQ(job.Do([](JobTools& tools, int64_t) -> int64_t {
    setenv("CUDA_INJECTION64_PATH", tools.agent_path, 1);
    return tools.Cuda<int (*)(unsigned)>("cuInit")(0);
  }),
            0);
  job.TakeRing();
  job.AwaitState(abi::PT_AGENT_RUNNING);
  job.Do(LaunchKernels, 2);
  EXPECT_EQ(job.Do([](JobTools& tools, int64_t) -> int64_t { return tools.inject(); }), 0);
  job.Stop();
  EXPECT_EQ(job.Records<abi::pt_gpu_kernel_record>(abi::PT_GPU_KERNEL).size(), 2u);
}

TEST(AgentTest, WaitsUntilCudaIsInitialized) {
  JobOptions options;
  options.environment["CUDA_DOUBLE_LAZY"] = "1";
  AgentJob job(options);
  job.Start();
  usleep(20'000);
  EXPECT_EQ(job.ring().report().state, abi::PT_AGENT_STARTING);
  EXPECT_EQ(job.Do([](JobTools& tools, int64_t) -> int64_t {
    return tools.Cuda<int (*)(unsigned)>("cuInit")(0);
  }),
            0);
  job.AwaitState(abi::PT_AGENT_RUNNING);
}

void ExpectFailure(const JobOptions& options, abi::pt_agent_failure failure, const char* message) {
  AgentJob job(options);
  job.Start();
  job.AwaitState(abi::PT_AGENT_FAILED);
  EXPECT_EQ(job.ring().report().failure, failure);
  EXPECT_NE(job.ring().report().message.find(message), std::string::npos)
      << job.ring().report().message;
  if (options.cupti != "double") return;
  EXPECT_EQ(job.Do([](JobTools& tools, int64_t) -> int64_t {
    return static_cast<int64_t>(tools.settings->enabled);
  }),
            0);
}

TEST(AgentTest, SaysWhyItCannotRecord) {
  JobOptions none;
  none.has_driver = false;
  ExpectFailure(none, abi::PT_AGENT_NO_CUPTI, "has not used a GPU");
  JobOptions no_device;
  no_device.environment["CUDA_DOUBLE_DEVICES"] = "0";
  ExpectFailure(no_device, abi::PT_AGENT_NO_CUPTI, "no device");
  JobOptions no_cupti;
  no_cupti.cupti = "";
  ExpectFailure(no_cupti, abi::PT_AGENT_NO_CUPTI, "no libcupti is mapped");
  JobOptions old_driver;
  old_driver.environment["CUDA_DOUBLE_VERSION"] = "11080";
  ExpectFailure(old_driver, abi::PT_AGENT_NO_CUPTI, "a driver for CUDA 11");
  ExpectFailure(With("version=14"), abi::PT_AGENT_OLD_CUPTI, "version 14");
  ExpectFailure(With("version=990000"), abi::PT_AGENT_OLD_CUPTI, "version 990000");
  ExpectFailure(With("subscribe_result=39"), abi::PT_AGENT_TAKEN, "torch.profiler");
  ExpectFailure(With("version=130500,enabled_elsewhere=1"), abi::PT_AGENT_TAKEN, "another tool");
  ExpectFailure(With("subscribe_result=35"), abi::PT_AGENT_NOT_PERMITTED, "INSUFFICIENT_PRIV");
  ExpectFailure(With("register_result=999"), abi::PT_AGENT_CUPTI_ERROR, "RegisterCallbacks failed");
  ExpectFailure(With("refused_kinds=1024"), abi::PT_AGENT_CUPTI_ERROR, "NOT_COMPATIBLE");
}

TEST(AgentTest, DoesWithoutKindsThatCannotBeRecorded) {
  AgentJob job(With("refused_kinds=" + std::to_string(uint64_t{1} << 12 | uint64_t{1} << 50)));
  job.StartAndRun();
  EXPECT_EQ(job.ring().report().message, "CUPTI does not record: NVTX, memory pools");
  EXPECT_EQ(job.ring().report().failure, abi::PT_AGENT_NO_FAILURE);
}

TEST(AgentTest, RunsAgainAfterItHasStopped) {
  AgentJob job;
  for (int round = 0; round < 3; ++round) {
    job.records.clear();
    job.StartAndRun();
    ASSERT_EQ(job.Do([](JobTools& tools, int64_t) -> int64_t { return tools.start(); }), -EALREADY);
    job.Do(LaunchKernels, 5);
    job.Stop();
    const auto kernels = job.Records<abi::pt_gpu_kernel_record>(abi::PT_GPU_KERNEL);
    ASSERT_EQ(kernels.size(), 5u);
    EXPECT_EQ(job.Name(kernels[0].name), "_Z6kernelPfi");
  }
}

size_t Entries(pid_t pid, const char* folder) {
  size_t count = 0;
  for (const auto& entry :
       std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + folder)) {
    count += entry.exists() || true;
  }
  return count;
}

size_t Mappings(pid_t pid) {
  std::ifstream maps("/proc/" + std::to_string(pid) + "/maps");
  size_t count = 0;
  for (std::string line; std::getline(maps, line);) ++count;
  return count;
}

bool HasAgentThread(pid_t pid) {
  for (const auto& entry :
       std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/task")) {
    std::string name;
    std::ifstream(entry.path() / "comm") >> name;
    if (name == "proftrace-gpu") return true;
  }
  return false;
}

TEST(AgentTest, AThousandRecordingsLeaveNothingBehind) {
  AgentJob job;
  struct Size {
    size_t files, maps, threads;
  };
  const auto cycle = [&] {
    job.records.clear();
    job.StartAndRun();
    job.Do(LaunchKernels, 1);
    job.Stop();
    job.ForgetRing();
    // The thread is on its way out.
    while (HasAgentThread(job.pid())) usleep(100);
  };
  for (int i = 0; i < 20; ++i) cycle();
  const Size before{Entries(job.pid(), "/fd"), Mappings(job.pid()), Entries(job.pid(), "/task")};
  for (int i = 0; i < 1000; ++i) cycle();
  const Size after{Entries(job.pid(), "/fd"), Mappings(job.pid()), Entries(job.pid(), "/task")};
  EXPECT_EQ(before.files, after.files);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // which map what they like
  EXPECT_EQ(before.maps, after.maps);
#endif
  EXPECT_EQ(before.threads, after.threads);
}

TEST(AgentTest, AForkedChildWorksOnAndTellsNothing) {
  AgentJob job(With("fill=512"));
  job.StartAndRun();
  job.Do(LaunchKernels, 4);
  const int64_t status = job.Do([](JobTools& tools, int64_t) -> int64_t {
    const pid_t child = fork();
    if (child == 0) {
      size_t files = 0;
      for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
        std::error_code gone;
        files += std::filesystem::read_symlink(entry.path(), gone).string().find("memfd:") !=
                 std::string::npos;
      }
      // Many more than there are buffers.
      LaunchKernels(tools, 2000);
      _exit(files == 0 && tools.settings->dropped == 0 ? 0 : 1);
    }
    int ended = 0;
    waitpid(child, &ended, 0);
    return ended;
  });
  EXPECT_EQ(status, 0);
  job.Do(LaunchKernels, 1);
  job.Stop();
  EXPECT_EQ(job.Records<abi::pt_gpu_kernel_record>(abi::PT_GPU_KERNEL).size(), 5u);
}

TEST(AgentTest, TheLastRecordsOfAProcessThatExitsArrive) {
  AgentJob job;
  job.StartAndRun();
  job.Do(LaunchKernels, 7);
  EXPECT_EQ(job.AwaitExit(), 0);
  job.Drain();
  EXPECT_EQ(job.Records<abi::pt_gpu_kernel_record>(abi::PT_GPU_KERNEL).size(), 7u);
  EXPECT_EQ(job.ring().report().state, abi::PT_AGENT_STOPPED);
}

TEST(AgentTest, AFlushThatHangsHoldsNobodyUp) {
  AgentJob job;
  job.StartAndRun();
  job.Do([](JobTools& tools, int64_t) -> int64_t { return tools.settings->hang_flush = 2; });
  job.ring().Stop();
  job.AwaitState(abi::PT_AGENT_FLUSHING);
  EXPECT_FALSE(
      job.ring().WaitUntilStopped(MonotonicNs() + 50'000'000, [](std::span<const std::byte>) {}));
  EXPECT_EQ(job.Do([](JobTools& tools, int64_t) -> int64_t { return tools.start(); }), -EALREADY);
  // A process that exits meanwhile waits two seconds, and exits.
  const int64_t before = MonotonicNs();
  EXPECT_EQ(job.AwaitExit(), 0);
  EXPECT_GT(MonotonicNs() - before, 1'000'000'000);
}

TEST(AgentTest, StopsWhenTheLoaderIsGone) {
  AgentJob job;
  job.StartAndRun();
  __atomic_store_n(&job.page()->heartbeat_ns, uint64_t{1}, __ATOMIC_RELAXED);
  const int64_t deadline = MonotonicNs() + 10'000'000'000;
  while (!job.ring().is_over() && MonotonicNs() < deadline) usleep(1000);
  EXPECT_EQ(job.ring().report().failure, abi::PT_AGENT_ABANDONED);
  EXPECT_EQ(job.Do([](JobTools& tools, int64_t) -> int64_t {
    return static_cast<int64_t>(tools.settings->enabled);
  }),
            0);
}

TEST(AgentTest, AFullRingIsCounted) {
  AgentJob job;
  job.StartAndRun();
  job.Do(LaunchKernels, 120'000);  // 25 MB of records, into a ring of 16.8 MB
  __atomic_store_n(&job.page()->heartbeat_ns, static_cast<uint64_t>(MonotonicNs()),
                   __ATOMIC_RELAXED);
  job.ring().Stop();
  const int64_t deadline = MonotonicNs() + 20'000'000'000;
  while (!job.ring().is_over() && MonotonicNs() < deadline) usleep(1000);
  job.Drain();
  EXPECT_GT(job.ring().report().ring_dropped, 0u);
  job.ExpectConserved();
}

TEST(AgentTest, CuptisOwnClockIsConverted) {
  AgentJob job(With("timestamp_result=999"));
  job.StartAndRun();
  const auto before = static_cast<uint64_t>(MonotonicNs());
  job.Do(LaunchKernels, 1);
  const auto after = static_cast<uint64_t>(MonotonicNs());
  job.Stop();
  const auto kernels = job.Records<abi::pt_gpu_kernel_record>(abi::PT_GPU_KERNEL);
  ASSERT_EQ(kernels.size(), 1u);
  constexpr uint64_t kToleranceNs = 100'000;
  EXPECT_GT(kernels[0].head.time_ns + kToleranceNs, before);
  EXPECT_LT(kernels[0].end_ns, after + kToleranceNs);
  const auto looks = job.Records<abi::pt_gpu_clock_record>(abi::PT_GPU_CLOCK);
  ASSERT_FALSE(looks.empty());
  EXPECT_GT(looks[0].cupti_ns, looks[0].after_ns + 1'000'000'000);  // CLOCK_REALTIME
}

TEST(AgentTest, ThreadsOfAnotherNumberingAreNotTold) {
  AgentJob job(With("thread_id_result=27"));
  job.StartAndRun();
  job.Do(LaunchKernels, 1);
  job.Stop();
  const auto calls = job.Records<abi::pt_gpu_call_record>(abi::PT_GPU_CALL);
  ASSERT_EQ(calls.size(), 1u);
  EXPECT_EQ(calls[0].head.tid, 0u);
}

TEST(AgentTest, BuffersComeInAnyOrderAndCorrelationsWrap) {
  AgentJob job(With("hold_buffers=1,fill=1024"));
  job.StartAndRun();
  job.Do([](JobTools& tools, int64_t) -> int64_t {
    tools.Cuda<void (*)(unsigned)>("cuda_double_set_correlation")(0xfffffff0u);
    return 0;
  });
  job.Do(LaunchKernels, 32);
  job.Stop();
  std::set<uint32_t> correlations;
  for (const auto& kernel : job.Records<abi::pt_gpu_kernel_record>(abi::PT_GPU_KERNEL)) {
    correlations.insert(kernel.correlation);
  }
  EXPECT_TRUE(correlations.contains(0xfffffff0u) && correlations.contains(0xffffffffu) &&
              correlations.contains(1u));
  job.ExpectConserved();
}

TEST(AgentTest, RealCuptiWithoutAGpuFailsCleanly) {
  const char* folders = std::getenv("PROFTRACE_CUPTI_FOLDERS");
  std::string rest = folders == nullptr ? "" : folders;
  int tried = 0;
  for (size_t at = 0; at < rest.size();) {
    const size_t end = std::min(rest.find(':', at), rest.size());
    const std::filesystem::path lib = std::filesystem::path(rest.substr(at, end - at)) / "../lib";
    at = end + 1;
    std::error_code missing;
    for (const auto& entry : std::filesystem::directory_iterator(lib, missing)) {
      if (entry.path().filename().string().find("libcupti.so.") != 0) continue;
      JobOptions options;
      options.cupti = entry.path().lexically_normal().string();
      options.environment["CUDA_DOUBLE_VERSION"] = "13050";
      ExpectFailure(options, abi::PT_AGENT_CUPTI_ERROR, "failed: ");
      ++tried;
    }
  }
  if (tried == 0) GTEST_SKIP() << "no libcupti beside CUPTI's headers";
}

}  // namespace
}  // namespace proftrace
