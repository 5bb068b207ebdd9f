#include "userspace/aggregate/stack_weights.h"

#include <algorithm>

namespace proftrace {

const std::array<StackWeightInfo, kStackWeights>& StackWeights() {
  static constexpr std::array<StackWeightInfo, kStackWeights> kTable = {{
      {StackWeight::kSelfCpuTime,
       "self_cpu_time_total",
       {"cpu_time_total"},
       "CPU time",
       StackUnit::kNanoseconds,
       "self_cpu_time",
       "stacks_self_cpu.folded",
       "no CPU time is in this recording"},
      {StackWeight::kSelfDeviceTime,
       "self_cuda_time_total",
       {"self_device_time_total", "cuda_time_total", "device_time_total"},
       "GPU time",
       StackUnit::kNanoseconds,
       "self_cuda_time",
       "stacks_self_cuda.folded",
       "no device time is in this recording: no GPU agent took part in it"},
      {StackWeight::kCpuMemory,
       "self_cpu_memory_usage",
       {"cpu_memory_usage"},
       "CPU memory allocated",
       StackUnit::kBytes,
       "cpu_memory_allocated",
       "stacks_cpu_memory.folded",
       "no memory is in this recording; record with --profile-memory"},
      {StackWeight::kDeviceMemory,
       "self_device_memory_usage",
       {"self_cuda_memory_usage", "cuda_memory_usage", "device_memory_usage"},
       "GPU memory allocated",
       StackUnit::kBytes,
       "gpu_memory_allocated",
       "stacks_device_memory.folded",
       "no memory of a device is in this recording; record a job that uses a GPU with "
       "--profile-memory"},
      {StackWeight::kCount,
       "count",
       {},
       "Count",
       StackUnit::kCount,
       "spans",
       "stacks_count.folded",
       "no counts are in this recording"},
      {StackWeight::kSampledOnCpu,
       "sampled_on_cpu",
       {},
       "Sampled, on a CPU",
       StackUnit::kNanoseconds,
       "sampled_on_cpu",
       "stacks_sampled_on_cpu.folded",
       "no samples are in this recording; record with --sample 99Hz"},
      {StackWeight::kSampledOffCpu,
       "sampled_off_cpu",
       {},
       "Sampled, waiting",
       StackUnit::kNanoseconds,
       "sampled_off_cpu",
       "stacks_sampled_off_cpu.folded",
       "no samples are in this recording; record with --sample 99Hz"},
      {StackWeight::kOffCpu,
       "off_cpu",
       {"off_cpu_time_total"},
       "Off the CPU",
       StackUnit::kNanoseconds,
       "off_cpu",
       "stacks_off_cpu.folded",
       "no time off the CPU is in this recording; record with --activities sched"},
      {StackWeight::kRunQueue,
       "run_queue",
       {},
       "Waiting for a CPU",
       StackUnit::kNanoseconds,
       "run_queue",
       "stacks_run_queue.folded",
       "no time off the CPU is in this recording; record with --activities sched"},
  }};
  return kTable;
}

const StackWeightInfo* FindStackWeight(std::string_view name) {
  if (name.empty()) return nullptr;
  for (const StackWeightInfo& info : StackWeights()) {
    const auto& others = info.other_names;
    if (info.name == name || std::find(others.begin(), others.end(), name) != others.end()) {
      return &info;
    }
  }
  return nullptr;
}

std::string StackWeightNames() {
  std::string names;
  for (const StackWeightInfo& info : StackWeights()) {
    names += (names.empty() ? "" : ", ") + std::string(info.name);
  }
  return names;
}

}  // namespace proftrace
