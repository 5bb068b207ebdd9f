// Sums up a recording's time, memory and calls by call path, for folded stacks, the flame graph
// page, and speedscope and pprof files. A path leads from Python's functions and nn.Modules, where
// their stacks were recorded (stack_folder.h), over annotations, operators and calls of CUDA to
// what a device did for them.
#pragma once

#include <absl/status/statusor.h>

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "userspace/aggregate/stack_weights.h"
#include "userspace/model/timeline.h"

namespace proftrace {

enum class FrameKind : uint8_t {
  kOperator = 0,
  kAutograd = 1,
  kAnnotation = 2,
  kRuntime = 3,  // the values up to here are those of SpanKind
  kPython = 4,   // a function
  kModule = 5,   // the call of an nn.Module
  kDevice = 6,   // a kernel, copy or memset: always a leaf, below the row that asked for it
  kNative = 7,   // a function of C or C++ (samples)
  kKernel = 8,   // a system call, or why a thread had no CPU: always a leaf
};

struct StackFrame {
  std::string name;
  FrameKind kind = FrameKind::kOperator;
  std::string file;  // only of a function of Python; else empty
  int32_t line = 0;  // the function's first line
};

// A node of the merged tree: spans of all threads and processes whose names from the root are
// equal. (The Timeline's paths also tell overloads apart; these do not.)
struct StackNode {
  uint32_t parent =
      0;  // index of the parent, smaller than the node's own; the root is its own parent
  uint32_t frame = 0;  // index into FoldedStacks::frames; meaningless for the root
  uint64_t count = 0;  // spans whose end was seen; for a device's frame: pieces of work
};

// The values of one weight for all nodes.
struct StackValues {
  StackWeight weight{};
  std::vector<int64_t> self;  // by node, without the nodes below it
  int64_t total = 0;          // the sum over all nodes
};

struct FoldedStacks {
  std::vector<StackFrame> frames;   // with distinct names, except that a device's frames are apart
  std::vector<StackNode> nodes;     // [0] is the root
  std::vector<StackValues> values;  // the recorded weights, in the order of StackWeights()

  // Returns the values of a weight; nullptr: it was not recorded.
  const StackValues* Find(StackWeight weight) const;
};

// Returns the values of a weight. Fails with kUsage, and says what is missing, where the weight was
// not recorded.
absl::StatusOr<const StackValues*> RecordedValues(const FoldedStacks& stacks, StackWeight weight);

// Returns the path of nodes from `node` up, without the root.
std::vector<uint32_t> PathOf(const FoldedStacks& stacks, uint32_t node);

// Numbers of spans by SpanKind, complete or not.
struct SpanCounts {
  std::array<uint64_t, 5> by_kind{};

  uint64_t of(SpanKind kind) const { return by_kind[static_cast<size_t>(kind)]; }
};

// The only frame above work of devices whose CUDA call is not known. Work that no operator asked
// for lies on its CUDA call's path.
inline constexpr std::string_view kNoCallFrame = "[no CUDA call recorded]";
// The path of samples whose frames could not be read.
inline constexpr std::string_view kNoFrameFrame = "[no frames]";
// The path of allocations and of time off the CPU outside of all spans.
inline constexpr std::string_view kNoSpanFrame = "[outside of operators]";

// Fills `stacks` and `counts` in one pass each over the spans, the work of devices, the
// allocations, the samples and the times off the CPU. Memory: a few words for each path.
void BuildFoldedStacks(const Timeline& timeline, FoldedStacks* stacks, SpanCounts* counts);

// Returns a weight by node, as torch's export_stacks() has it: the work of a device counts for the
// row that asked for it, and the device's frame itself has 0.
std::vector<int64_t> WithoutDeviceFrames(const FoldedStacks& stacks,
                                         const std::vector<int64_t>& self);

}  // namespace proftrace
