#include "userspace/aggregate/stack_shares.h"

#include <absl/container/flat_hash_map.h>

#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

#include "userspace/aggregate/each_span.h"
#include "userspace/aggregate/stack_folder.h"
#include "userspace/base/saturating.h"

namespace proftrace {
namespace {

// Returns the node of `stacks` for each node of `from`, another tree of the same recording.
std::vector<std::optional<uint32_t>> MatchNodes(const FoldedStacks& from,
                                                const FoldedStacks& stacks) {
  // The nodes by parent, name and kind. The kind is needed because frames of a device may have the
  // name of an operator.
  absl::flat_hash_map<std::pair<uint32_t, std::pair<std::string_view, FrameKind>>, uint32_t> known;
  absl::flat_hash_map<uint32_t, uint32_t> others;  // by parent
  for (uint32_t node = 1; node < stacks.nodes.size(); ++node) {
    const StackFrame& frame = stacks.frames[stacks.nodes[node].frame];
    known.try_emplace({stacks.nodes[node].parent, {frame.name, frame.kind}}, node);
    if (frame.name.starts_with("… and ")) others.try_emplace(stacks.nodes[node].parent, node);
  }
  std::vector<std::optional<uint32_t>> matches(from.nodes.size());
  std::vector<bool> is_whole(from.nodes.size());
  matches[0] = 0;
  is_whole[0] = true;
  for (uint32_t node = 1; node < from.nodes.size(); ++node) {
    const uint32_t parent = from.nodes[node].parent;
    const uint32_t above = *matches[parent];
    matches[node] = above;
    if (!is_whole[parent]) continue;
    const StackFrame& frame = from.frames[from.nodes[node].frame];
    if (const auto it = known.find({above, {frame.name, frame.kind}}); it != known.end()) {
      matches[node] = it->second;
      is_whole[node] = true;
    } else if (const auto other = others.find(above); other != others.end()) {
      matches[node] = other->second;
    }
  }
  return matches;
}

}  // namespace

std::vector<WindowShare> SumStackShares(const Timeline& timeline, const FoldedStacks& stacks,
                                        const StepWindows& windows) {
  FoldedStacks own;
  StackFolder folder(timeline, &own);
  WindowShares sums(&windows);
  ForEachSpan(timeline, [&](SpanId id, const Span& span) {
    if (!span.is_complete() || !windows.At(span.start_ns).has_value()) return;
    const int64_t shared_ns = timeline.columns().shared_ns.at(id);
    const int64_t self_ns = span.is_apart ? 0 : SaturatingDifference(span.self_ns, shared_ns);
    sums.Add(span.start_ns, folder.NodeOf(id, span), {1, self_ns, 0, 0});
  });
  WindowShares matched(&windows);
  const std::vector<std::optional<uint32_t>> matches = MatchNodes(own, stacks);
  for (const WindowShare& share : sums.Take()) {
    matched.Add(windows.intervals[share.window].first, *matches[share.row], share.values);
  }
  return matched.Take();
}

}  // namespace proftrace
