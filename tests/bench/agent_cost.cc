// What the GPU agent takes for a record, from CUPTI's buffer to the ring: the time on the processor
// of its thread while the stand-in for CUPTI hands it kernels and calls: agent_cost [RECORDS]
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "tests/support/agent_job.h"
#include "userspace/base/clock.h"

namespace proftrace {
namespace {

struct Dim3 {
  unsigned x, y, z;
};

// 64 kernels with names as long as those of cuBLAS and ATen are, in turn.
int64_t Launch(JobTools& tools, int64_t count) {
  static std::string names[64];
  for (int i = 0; i < 64 && names[i].empty(); ++i) {
    names[i] = "_ZN2at6native29vectorized_elementwise_kernelILi4E" + std::string(40 + i * 4, 'x') +
               std::to_string(i);
  }
  const auto launch =
      tools.Cuda<int (*)(const void*, Dim3, Dim3, void**, size_t, void*)>("cudaLaunchKernel");
  for (int64_t i = 0; i < count; ++i) {
    launch(names[i % 64].c_str(), {2, 3, 4}, {32, 1, 1}, nullptr, 0, nullptr);
  }
  return 0;
}

// Nanoseconds that the agent's thread has run.
int64_t AgentCpuNs(pid_t pid) {
  for (const auto& entry :
       std::filesystem::directory_iterator("/proc/" + std::to_string(pid) + "/task")) {
    std::string name;
    std::ifstream(entry.path() / "comm") >> name;
    int64_t ns = 0;
    if (name == "proftrace-gpu" && std::ifstream(entry.path() / "schedstat") >> ns) return ns;
  }
  return 0;
}

int Run(int64_t records) {
  AgentJob job;
  job.StartAndRun();
  uint64_t handed = 0;
  const auto count = [&](std::span<const std::byte>) { ++handed; };
  constexpr int64_t kRound = 10'000;
  job.Do(Launch, kRound);
  const auto given = [&] { return job.ring().report().cupti_records; };
  // Idle at first: only the flushes, whose part is taken off.
  const int64_t idle_begin = AgentCpuNs(job.pid());
  const int64_t wall_begin = MonotonicNs();
  while (MonotonicNs() - wall_begin < 1'000'000'000) {
    job.ring().Drain(count);
    usleep(5000);
  }
  const int64_t idle_ns = AgentCpuNs(job.pid()) - idle_begin;
  const uint64_t first = given();
  const int64_t begin = AgentCpuNs(job.pid());
  const int64_t busy_begin = MonotonicNs();
  for (int64_t done = 0; done < records / 2; done += kRound) {  // two records a launch
    job.Do(Launch, kRound);
    job.ring().Drain(count);
  }
  const int64_t settle = MonotonicNs();
  while (MonotonicNs() - settle < 500'000'000) {
    job.ring().Drain(count);
    usleep(5000);
  }
  const int64_t wall_ns = MonotonicNs() - busy_begin;
  const auto read = static_cast<double>(given() - first);
  const double cpu_ns = static_cast<double>(AgentCpuNs(job.pid()) - begin) -
                        static_cast<double>(idle_ns) * static_cast<double>(wall_ns) / 1e9;
  job.Stop();
  const AgentReport report = job.ring().report();
  std::printf("records %.0f, agent's thread %.0f ns a record; idle %.2f %% of a processor\n", read,
              cpu_ns / read, static_cast<double>(idle_ns) / 1e7);
  std::printf("handed on %llu, no room in the ring %llu, buffers refused %llu\n",
              static_cast<unsigned long long>(handed),
              static_cast<unsigned long long>(report.ring_dropped),
              static_cast<unsigned long long>(report.buffers_refused));
  return read > 0 && !testing::Test::HasFailure() ? 0 : 1;
}

}  // namespace
}  // namespace proftrace

int main(int argc, char** argv) {
  return proftrace::Run(argc > 1 ? std::atoll(argv[1]) : 2'000'000);
}
