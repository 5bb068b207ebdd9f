// The weights of folded stacks, the flame graph page, speedscope and pprof files: what the width of
// a frame can mean. One table for all of them, and for --metric.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace proftrace {

// What a path weighs: a sum over all that happened on it, not below it. A frame's own width, which
// has what is below it as well, is then its total.
enum class StackWeight : uint8_t {
  // Sums up the spans whose end was seen: their duration less the direct children's. An async span
  // has none.
  kSelfCpuTime = 0,
  // How long devices worked (kernels, copies, memsets, graphs) for what asked for it.
  kSelfDeviceTime = 1,
  // Bytes of the allocations in the innermost span around them, whether or not they were freed
  // later: who allocates, not who keeps. (torch's own columns are net: allocated less freed.)
  kCpuMemory = 2,
  kDeviceMemory = 3,
  // Spans whose end was seen.
  kCount = 4,
  // --sample: how often threads were seen there times the period, so of all threads together.
  kSampledOnCpu = 5,   // they ran
  kSampledOffCpu = 6,  // they waited, for a CPU too
  // --activities sched: of all threads together.
  kOffCpu = 7,
  kRunQueue = 8,  // of that: they could go on, and waited for a CPU
};
inline constexpr size_t kStackWeights = 9;

enum class StackUnit : uint8_t { kNanoseconds, kBytes, kCount };

struct StackWeightInfo {
  StackWeight weight;
  std::string_view name;  // as in --metric; torch's word where it has one
  // Also understood. `X` and `self_X` are one graph: it shows both.
  std::array<std::string_view, 3> other_names;
  std::string_view title;  // for people
  StackUnit unit;
  std::string_view pprof_type;  // of pprof's sample type
  std::string_view file_name;   // of folded stacks with this weight
  std::string_view missing;     // one sentence: it is not in a recording, and why
};

// Returns the weights in the order of the enumeration, in which they are shown.
const std::array<StackWeightInfo, kStackWeights>& StackWeights();

inline const StackWeightInfo& InfoOf(StackWeight weight) {
  return StackWeights()[static_cast<size_t>(weight)];
}

// Finds a weight by its name; nullptr: no weight has it.
const StackWeightInfo* FindStackWeight(std::string_view name);

// "self_cpu_time_total, self_cuda_time_total, …"
std::string StackWeightNames();

}  // namespace proftrace
