// Self time summed by call path: what the folded file and the flame graph show. Where Python's
// stacks were recorded, their frames are part of the paths (stack_folder.h).
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "userspace/model/timeline.h"

namespace proftrace {

// A node of the merged tree: spans of all threads and processes whose names from the root are
// equal. (The Timeline's paths also tell overloads apart; these do not.)
struct StackNode {
  uint32_t parent =
      0;  // index of the parent, smaller than the node's own; the root is its own parent
  uint32_t frame = 0;    // index into FoldedStacks::frames; meaningless for the root
  int64_t self_ns = 0;   // of spans whose end was seen; an async span has none
  int64_t total_ns = 0;  // self of the node and of all below it
  uint64_t count = 0;    // spans whose end was seen
};

struct FoldedStacks {
  std::vector<std::string> frames;  // distinct names
  std::vector<StackNode> nodes;     // [0] is the root
  // 1 + index of the function in Timeline::python_codes(), by frame; 0, and missing ones: of none.
  std::vector<uint32_t> codes;
};

// The function of a frame; nullptr: of none.
const PythonCode* CodeOf(const Timeline& timeline, const FoldedStacks& stacks, uint32_t frame);

// The nodes from `node` up to below the root.
std::vector<uint32_t> PathOf(const FoldedStacks& stacks, uint32_t node);

// Numbers of spans by SpanKind, complete or not.
struct SpanCounts {
  std::array<uint64_t, 4> by_kind{};

  uint64_t of(SpanKind kind) const { return by_kind[static_cast<size_t>(kind)]; }
};

// The same of what devices did: `self_ns` is the device time of the work that operators on the path
// asked for, as torch's export_stacks() weights by self_cuda_time_total. Work that no operator
// asked for lies on its CUDA call's path; work without a call, on one of kNoCallFrame alone. Paths
// without work are left out.
inline constexpr std::string_view kNoCallFrame = "[no CUDA call recorded]";
FoldedStacks BuildDeviceStacks(const Timeline& timeline);

// One pass over the spans; memory: a few words a path.
void BuildFoldedStacks(const Timeline& timeline, FoldedStacks* stacks, SpanCounts* counts);

}  // namespace proftrace
