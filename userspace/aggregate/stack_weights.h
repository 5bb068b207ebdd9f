// The weights that the width of a frame can mean: one table for folded stacks, the flame graph
// page, speedscope and pprof files, and for --metric.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace proftrace {

// What a path weighs: a sum over events on the path itself, without the paths below it. The width
// of a frame is its total, which includes the paths below it.
enum class StackWeight : uint8_t {
  // The durations of the spans whose end was seen, less those of their direct children. An async
  // span has none.
  kSelfCpuTime = 0,
  // How long devices worked (kernels, copies, memsets, graphs), counted for the row that asked for
  // the work.
  kSelfDeviceTime = 1,
  // Bytes that were allocated, counted for the innermost span around the allocation, even if they
  // were freed later. So this shows who allocates, not who keeps memory. (torch's own columns are
  // net: allocated less freed.)
  kCpuMemory = 2,
  kDeviceMemory = 3,
  // The number of spans whose end was seen.
  kCount = 4,
  // With --sample: how often threads were seen on the path, times the period. This is the sum over
  // all threads.
  kSampledOnCpu = 5,   // the threads ran
  kSampledOffCpu = 6,  // the threads waited, possibly for a CPU
  // With --activities sched: the sum over all threads.
  kOffCpu = 7,
  kRunQueue = 8,  // the part in which threads could go on and waited for a CPU
};
inline constexpr size_t kStackWeights = 9;

enum class StackUnit : uint8_t { kNanoseconds, kBytes, kCount };

struct StackWeightInfo {
  StackWeight weight;
  std::string_view name;  // as in --metric; torch's word where it has one
  // Other names that are accepted. `X` and `self_X` name the same graph, because it shows both.
  std::array<std::string_view, 3> other_names;
  std::string_view title;  // the name for users
  StackUnit unit;
  std::string_view pprof_type;  // the name of pprof's sample type
  std::string_view file_name;   // the file's name for folded stacks with this weight
  std::string_view missing;     // a sentence that says why the weight is not in a recording
};

// Returns the weights in the order of the enumeration, in which they are shown.
const std::array<StackWeightInfo, kStackWeights>& StackWeights();

inline const StackWeightInfo& InfoOf(StackWeight weight) {
  return StackWeights()[static_cast<size_t>(weight)];
}

// Finds a weight by its name; nullptr: no weight has this name.
const StackWeightInfo* FindStackWeight(std::string_view name);

// Returns all names in one text: "self_cpu_time_total, self_cuda_time_total, …".
std::string StackWeightNames();

}  // namespace proftrace
