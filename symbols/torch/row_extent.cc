#include "symbols/torch/row_extent.h"

#include <algorithm>
#include <set>
#include <utility>

#include "symbols/x86/graph_analysis.h"
#include "symbols/x86/known_callees.h"
#include "symbols/x86/value_walk.h"

namespace proftrace {
namespace {

// How many instructions the search for one that the kernel emulates goes on.
constexpr int kMostMoves = 12;

// Whether a node for which is_goal(node) is true can be reached from `from` without passing a node
// of `around`.
template <typename Goal>
bool CanReachAny(const NormalFlow& flow, uint32_t from, const std::vector<uint32_t>& around,
                 Goal&& is_goal) {
  std::vector<bool> seen(flow.size());
  for (const uint32_t node : around) seen[node] = true;
  std::vector<uint32_t> work = {from};
  while (!work.empty()) {
    const uint32_t node = work.back();
    work.pop_back();
    if (seen[node]) continue;
    seen[node] = true;
    if (is_goal(node)) return true;
    work.insert(work.end(), flow.successors(node).begin(), flow.successors(node).end());
  }
  return false;
}

// Whether a normal exit can be reached from `from` without passing a node of `around`.
bool CanLeave(const NormalFlow& flow, uint32_t from, const std::vector<uint32_t>& around) {
  return CanReachAny(flow, from, around, [&flow](uint32_t node) { return flow.is_exit(node); });
}

// Whether only straight code lies between the call `from` and `node`.
bool IsFirstTest(const FlowGraph& graph, uint32_t from, uint32_t node) {
  for (uint32_t at = from; at != node;) {
    const auto next = graph.successors(at);
    if (next.last - next.first != 1 || (at != from && graph.node(at).is_call)) return false;
    at = *next.begin();
  }
  return true;
}

// Returns a shortest path from `from` to an exit.
std::vector<uint32_t> WayOut(const NormalFlow& flow, uint32_t from) {
  std::vector<uint32_t> before(flow.size(), UINT32_MAX);
  std::vector<uint32_t> queue = {from};
  before[from] = from;
  for (size_t at = 0; at < queue.size(); ++at) {
    const uint32_t node = queue[at];
    if (flow.is_exit(node)) {
      std::vector<uint32_t> way;
      for (uint32_t i = node; i != from; i = before[i]) way.push_back(i);
      std::reverse(way.begin(), way.end());
      return way;
    }
    for (const uint32_t next : flow.successors(node)) {
      if (before[next] != UINT32_MAX) continue;
      before[next] = node;
      queue.push_back(next);
    }
  }
  return {};
}

}  // namespace

std::optional<uint32_t> FindMeetingPoint(const FlowGraph& graph, uint32_t from) {
  const NormalFlow flow(graph);
  if (!flow.has_exit() || !flow.live(from)) return std::nullopt;
  uint32_t branch = from;
  while (flow.successors(branch).size() == 1) {
    branch = flow.successors(branch)[0];
    if (graph.node(branch).is_call) return std::nullopt;
  }
  if (flow.successors(branch).size() < 2) return std::nullopt;
  for (uint32_t node : WayOut(flow, branch)) {
    if (CanLeave(flow, branch, {node})) continue;
    // A place that can be reached without passing the begin would end a row that never began.
    const auto is_node = [node](uint32_t other) { return other == node; };
    if (CanReachAny(flow, 0, {from}, is_node)) return std::nullopt;
    for (int moves = 0; moves < kMostMoves && !graph.node(node).instruction.emulated; ++moves) {
      if (graph.node(node).is_call || flow.successors(node).size() != 1) break;
      const uint32_t next = flow.successors(node)[0];
      if (flow.predecessors(next).size() != 1) break;
      node = next;
    }
    return node;
  }
  return std::nullopt;
}

std::vector<uint32_t> FindDestructions(const FlowGraph& graph, uint32_t from) {
  const NormalFlow flow(graph);
  std::vector<uint32_t> ends;
  for (uint32_t node = 0; node < graph.size(); ++node) {
    const std::string_view callee = graph.node(node).is_call ? graph.node(node).callee : "";
    const bool destroys =
        IsOfCallbacks(callee) && (callee.ends_with("D1Ev") || callee.ends_with("D2Ev"));
    if (destroys && flow.live(node)) ends.push_back(node);
  }
  const auto is_end = [&ends](uint32_t node) {
    return std::binary_search(ends.begin(), ends.end(), node);
  };
  const bool each_ends = flow.has_exit() && flow.live(from) && !CanLeave(flow, from, ends);
  if (!each_ends || CanReachAny(flow, 0, {from}, is_end)) return {};
  return ends;
}

std::vector<uint32_t> FindFlagTests(const FlowGraph& graph, uint32_t from) {
  std::optional<std::pair<int, int64_t>> flag;
  std::set<uint32_t> tests;
  ValueWalk walk(graph);
  walk.Run(from, [&](uint32_t node, const ValueState& state) {
    const auto byte = walk.ComparedByteAt(node, state);
    if (!byte || byte->object.offsets.size() != 1) return true;
    const std::pair<int, int64_t> place(byte->object.base, byte->object.offsets[0] + byte->offset);
    if (!flag) {
      flag = place;
    } else if (place == *flag) {
      if (IsFirstTest(graph, from, node)) return true;
      tests.insert(node);
      return false;
    }
    return true;
  });
  std::vector<uint32_t> sites;
  for (uint32_t node : tests) {
    for (int moves = 0; moves < 4; ++moves) {
      if (graph.node(node).instruction.kind == InstructionKind::kConditionalJump) break;
      const auto next = graph.successors(node);
      if (next.last - next.first != 1) return {};
      node = *next.begin();
    }
    if (graph.node(node).instruction.kind != InstructionKind::kConditionalJump) return {};
    sites.push_back(node);
  }
  const NormalFlow flow(graph);
  if (sites.empty() || !flow.has_exit() || CanLeave(flow, from, sites)) return {};
  return sites;
}

}  // namespace proftrace
