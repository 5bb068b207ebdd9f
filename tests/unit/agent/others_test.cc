// Other users of CUPTI that come while the GPU agent records.
#include <dlfcn.h>
#include <unistd.h>

#include <cstdlib>
#include <ctime>
#include <filesystem>

#include "tests/support/agent_job.h"
#include "userspace/base/clock.h"

namespace proftrace {
namespace {

// The kinds that Kineto uses and turns off itself: kernels, copies, sets, calls, overheads, ids.
constexpr int64_t kSharedKinds =
    1ll << 10 | 1ll << 1 | 1ll << 2 | 1ll << 4 | 1ll << 5 | 1ll << 17 | 1ll << 39;

int64_t EnabledKinds(AgentJob& job) {
  return job.Do([](JobTools& tools, int64_t) -> int64_t {
    return static_cast<int64_t>(tools.settings->enabled);
  });
}

uint64_t RealtimeNs() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}
uint64_t TicksOfAnother() { return RealtimeNs() * 3; }

// What torch.profiler does at its first profile, also of the CPU alone.
int64_t Subscribe(JobTools& tools, int64_t) { return ++tools.settings->subscriptions; }

void RequestOfAnother(uint8_t** buffer, size_t* bytes, size_t* most_records) {
  *bytes = 1 << 20;
  *buffer = static_cast<uint8_t*>(std::malloc(*bytes));
  *most_records = 0;
}
void CompleteOfAnother(void*, uint32_t, uint8_t*, size_t, size_t) {}

int64_t TakeOver(JobTools& tools, int64_t) {
  tools.settings->requested = reinterpret_cast<void*>(RequestOfAnother);
  tools.settings->completed = reinterpret_cast<void*>(CompleteOfAnother);
  return 0;
}

TEST(AgentOthersTest, AProfilerOfTheCpuAloneTakesNothing) {
  for (const char* version : {"version=15", "version=28", "version=130500"}) {
    AgentJob job(With(version));
    job.StartAndRun();
    job.Do(LaunchKernels, 1);
    job.Do(Subscribe);
    job.Do(LaunchKernels, 1);
    job.Stop();
    EXPECT_EQ(job.ring().report().state, abi::PT_AGENT_STOPPED) << job.ring().report().message;
    EXPECT_EQ(job.ring().report().failure, abi::PT_AGENT_NO_FAILURE);
    EXPECT_EQ(EnabledKinds(job), 0) << version;
    EXPECT_EQ(job.Records<abi::pt_gpu_kernel_record>(abi::PT_GPU_KERNEL).size(), 2u);
  }
}

TEST(AgentOthersTest, AProfilerThatTookOverIsLeftAlone) {
  for (const char* version : {"version=15", "version=28", "version=130500"}) {
    AgentJob job(With(version));
    job.StartAndRun();
    job.Do(LaunchKernels, 1);
    // Until the agent has got the record of its own call.
    const int64_t deadline = MonotonicNs() + 10'000'000'000;
    while (job.Records<abi::pt_gpu_kernel_record>(abi::PT_GPU_KERNEL).empty() &&
           MonotonicNs() < deadline) {
      job.Drain();
      usleep(1000);
    }
    job.Do(TakeOver);  // as Kineto since August 2026: without a subscription
    job.Stop();
    EXPECT_EQ(job.ring().report().failure, abi::PT_AGENT_TAKEN) << version;
    EXPECT_EQ(EnabledKinds(job), kSharedKinds);
    // Its times are CUPTI's again, and its threads.
    EXPECT_EQ(job.Do([](JobTools& tools, int64_t) -> int64_t {
      const uint64_t ahead = tools.settings->now() - RealtimeNs();
      return tools.settings->thread_id_type == 0 && ahead + 1'000'000'000 < 2'000'000'000;
    }),
              1);
  }
}

TEST(AgentOthersTest, AUserThatCameAndWentIsNoticed) {
  AgentJob job(With("version=130500"));
  job.StartAndRun();
  job.Do([](JobTools& tools, int64_t) -> int64_t {
    tools.settings->enabled &= ~(uint64_t{1} << 10);  // it disables kernels when it is done
    return 0;
  });
  job.AwaitState(abi::PT_AGENT_FAILED);
  EXPECT_EQ(job.ring().report().failure, abi::PT_AGENT_TAKEN);
  EXPECT_EQ(EnabledKinds(job), 0);
}

TEST(AgentOthersTest, ATimestampCallbackOfAnotherIsNoticedAtOnce) {
  AgentJob job;
  job.StartAndRun();
  job.Do(LaunchKernels, 1);
  job.Do([](JobTools& tools, int64_t) -> int64_t {
    tools.settings->now = TicksOfAnother;
    return LaunchKernels(tools, 1);
  });
  job.AwaitState(abi::PT_AGENT_FAILED);
  EXPECT_EQ(job.ring().report().failure, abi::PT_AGENT_TAKEN);
  job.Drain();
  // No clock but ours has been taken for CLOCK_MONOTONIC.
  const auto now = static_cast<uint64_t>(MonotonicNs());
  for (const auto& look : job.Records<abi::pt_gpu_clock_record>(abi::PT_GPU_CLOCK)) {
    EXPECT_LE(look.cupti_ns, look.after_ns);
  }
  for (const auto& kernel : job.Records<abi::pt_gpu_kernel_record>(abi::PT_GPU_KERNEL)) {
    EXPECT_TRUE(kernel.head.time_ns <= now || kernel.head.time_ns > 2 * RealtimeNs());
  }
  EXPECT_EQ(job.Do([](JobTools& tools, int64_t) -> int64_t {
    return tools.settings->now == TicksOfAnother && tools.settings->enabled == 0;
  }),
            1);
}

// CUPTI's own exit functions, which are registered when it is loaded, run before those that were
// registered before.
TEST(AgentOthersTest, TheLastRecordsOfAnExitArriveAlsoWhereTheAgentLoadedCupti) {
  const std::filesystem::path here = std::filesystem::read_symlink("/proc/self/exe").parent_path();
  const std::filesystem::path support = here / "../tests/support";
  const std::filesystem::path folder =
      std::filesystem::temp_directory_path() / ("proftrace_cupti_" + std::to_string(getpid()));
  std::filesystem::create_directory(folder);
  std::filesystem::copy(support / "cuda_double/libcuda.so.1", folder / "libcuda.so.1");
  std::filesystem::copy(support / "cuda_double/libcudart.so.12", folder / "libcudart.so.12");
  std::filesystem::copy(support / "cupti_double/12/libcupti.so.12", folder / "libcupti.so.12");
  JobOptions options;
  options.cupti = "";
  setenv("PROFTRACE_CUDA_DOUBLE", folder.c_str(), 1);
  {
    AgentJob job(options);
    unsetenv("PROFTRACE_CUDA_DOUBLE");
    job.StartAndRun();
    job.Do(LaunchKernels, 7);
    EXPECT_EQ(job.AwaitExit(), 0);
    job.Drain();
    EXPECT_EQ(job.Records<abi::pt_gpu_kernel_record>(abi::PT_GPU_KERNEL).size(), 7u);
  }
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace proftrace
