#include "userspace/aggregate/folded_stacks.h"

#include "userspace/aggregate/stack_folder.h"
#include "userspace/base/saturating.h"

#include <absl/container/flat_hash_map.h>

#include <algorithm>

namespace proftrace {
namespace {

struct PathSums {
  int64_t self_ns = 0;
  uint64_t count = 0;
};

// Calls visit(id, span) for each span whose end was seen, and counts all by label on the way.
template <typename Visitor>
void ForEachComplete(const Timeline& timeline, SpanCounts* counts, Visitor&& visit) {
  std::vector<uint64_t> by_label(timeline.labels().size());
  const SpanStore& spans = timeline.spans();
  for (uint32_t chunk = 0; chunk < spans.chunk_count(); ++chunk) {
    const uint32_t first = chunk * SpanStore::kChunkItems;
    const uint32_t last = std::min(spans.size() - first, SpanStore::kChunkItems) + first;
    for (uint32_t index = first; index < last; ++index) {
      const Span& span = spans.at(index);
      ++by_label[Raw(span.label)];
      if (span.is_complete()) visit(SpanId{index}, span);
    }
    spans.Release(chunk);
  }
  for (size_t label = 0; label < by_label.size(); ++label) {
    counts->by_kind[static_cast<size_t>(timeline.labels()[label].kind)] += by_label[label];
  }
}

// `sums`: StackNode or PathSums.
template <typename Sums>
void AddSpan(const Span& span, Sums* sums) {
  ++sums->count;
  if (!span.is_async) sums->self_ns = SaturatingSum(sums->self_ns, span.self_ns);
}

// Sums by the Timeline's own paths.
std::vector<PathSums> SumPaths(const Timeline& timeline, SpanCounts* counts) {
  std::vector<PathSums> sums(timeline.paths().size());
  ForEachComplete(timeline, counts,
                  [&](SpanId, const Span& span) { AddSpan(span, &sums[Raw(span.path)]); });
  return sums;
}

// The tree of the Timeline's paths, without overloads, with the sums of each. `is_left_out`: by
// path.
void FoldPaths(const Timeline& timeline, const std::vector<PathSums>& sums,
               const std::vector<bool>& is_left_out, FoldedStacks* stacks) {
  absl::flat_hash_map<std::string_view, uint32_t> frame_ids;
  std::vector<uint32_t> frame_of_label;
  for (const Label& label : timeline.labels()) {
    const auto [it, inserted] =
        frame_ids.try_emplace(label.name, static_cast<uint32_t>(stacks->frames.size()));
    if (inserted) stacks->frames.push_back(label.name);
    frame_of_label.push_back(it->second);
  }

  // A path's parent has a smaller id, so its node is there already.
  std::vector<uint32_t> node_of_path(timeline.paths().size());
  absl::flat_hash_map<uint64_t, uint32_t> node_ids;
  stacks->nodes.emplace_back();
  for (size_t path = 1; path < timeline.paths().size(); ++path) {
    if (!is_left_out.empty() && is_left_out[path]) continue;
    const PathNode& source = timeline.paths()[path];
    const uint32_t parent = node_of_path[Raw(source.parent)];
    const uint32_t frame = frame_of_label[Raw(source.label)];
    const uint64_t key = (uint64_t{parent} << 32) | frame;
    const auto [it, inserted] =
        node_ids.try_emplace(key, static_cast<uint32_t>(stacks->nodes.size()));
    if (inserted) stacks->nodes.push_back(StackNode{parent, frame});
    node_of_path[path] = it->second;
  }
  for (size_t path = 0; path < sums.size(); ++path) {
    StackNode& node = stacks->nodes[node_of_path[path]];
    node.self_ns = SaturatingSum(node.self_ns, sums[path].self_ns);
    node.count += sums[path].count;
  }
}

void SumTotals(FoldedStacks* stacks) {
  for (size_t index = stacks->nodes.size(); index-- > 0;) {
    StackNode& node = stacks->nodes[index];
    node.total_ns = SaturatingSum(node.total_ns, node.self_ns);
    if (index > 0)
      stacks->nodes[node.parent].total_ns =
          SaturatingSum(stacks->nodes[node.parent].total_ns, node.total_ns);
  }
}

}  // namespace

const PythonCode* CodeOf(const Timeline& timeline, const FoldedStacks& stacks, uint32_t frame) {
  const uint32_t code = frame < stacks.codes.size() ? stacks.codes[frame] : 0;
  return code == 0 ? nullptr : &timeline.python_codes()[code - 1];
}

std::vector<uint32_t> PathOf(const FoldedStacks& stacks, uint32_t node) {
  std::vector<uint32_t> path;
  for (; node != 0; node = stacks.nodes[node].parent) path.push_back(node);
  return path;
}

void BuildFoldedStacks(const Timeline& timeline, FoldedStacks* stacks, SpanCounts* counts) {
  if (timeline.columns().stack.exists()) {
    StackFolder folder(timeline, stacks);
    ForEachComplete(timeline, counts, [&](SpanId id, const Span& span) {
      AddSpan(span, &stacks->nodes[folder.NodeOf(id)]);
    });
  } else {
    FoldPaths(timeline, SumPaths(timeline, counts), {}, stacks);
  }
  SumTotals(stacks);
}

namespace {

// Calls visit(span, activity) for the work of devices, with the span that asked for it, if any.
template <typename Visitor>
void ForEachWork(const Timeline& timeline, Visitor&& visit) {
  const DeviceActivityStore& activities = timeline.device_activities();
  for (uint32_t i = 0; i < activities.size(); ++i) {
    const DeviceActivity& activity = activities.at(i);
    if (!IsDeviceWork(activity.kind)) continue;
    visit(activity.op != kNoSpan ? activity.op : activity.call, activity);
  }
}

template <typename Sums>
void AddWork(const DeviceActivity& activity, Sums* sums) {
  sums->self_ns = SaturatingSum(sums->self_ns, activity.duration_ns);
  ++sums->count;
}

// The paths of the Timeline on which work was asked for.
void FoldPathsWithWork(const Timeline& timeline, PathSums* without_call, FoldedStacks* stacks) {
  std::vector<PathSums> sums(timeline.paths().size());
  ForEachWork(timeline, [&](SpanId span, const DeviceActivity& activity) {
    AddWork(activity, span == kNoSpan ? without_call : &sums[Raw(timeline.span(span).path)]);
  });
  std::vector<bool> is_left_out(sums.size(), true);
  for (size_t path = sums.size(); path-- > 1;) {
    if (sums[path].count > 0) is_left_out[path] = false;
    if (!is_left_out[path]) is_left_out[Raw(timeline.paths()[path].parent)] = false;
  }
  FoldPaths(timeline, sums, is_left_out, stacks);
}

}  // namespace

FoldedStacks BuildDeviceStacks(const Timeline& timeline) {
  FoldedStacks stacks;
  PathSums without_call;
  if (timeline.columns().stack.exists()) {
    StackFolder folder(timeline, &stacks);
    ForEachWork(timeline, [&](SpanId span, const DeviceActivity& activity) {
      if (span == kNoSpan) {
        AddWork(activity, &without_call);
      } else {
        AddWork(activity, &stacks.nodes[folder.NodeOf(span)]);
      }
    });
  } else {
    FoldPathsWithWork(timeline, &without_call, &stacks);
  }
  if (without_call.count > 0) {
    StackNode& node = stacks.nodes.emplace_back();
    node.frame = static_cast<uint32_t>(stacks.frames.size());
    node.self_ns = without_call.self_ns;
    node.count = without_call.count;
    stacks.frames.emplace_back(kNoCallFrame);
  }
  SumTotals(&stacks);
  return stacks;
}

}  // namespace proftrace
