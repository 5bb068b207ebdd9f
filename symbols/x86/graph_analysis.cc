#include "symbols/x86/graph_analysis.h"

#include <algorithm>

namespace proftrace {

NormalFlow::NormalFlow(const FlowGraph& graph)
    : live_(graph.size()),
      in_loop_(graph.size()),
      is_exit_(graph.size()),
      successors_(graph.size()),
      predecessors_(graph.size()) {
  FindLive(graph);
  if (has_exit()) FindLoops();
}

void NormalFlow::FindLive(const FlowGraph& graph) {
  std::vector<std::vector<uint32_t>> before(graph.size());
  for (uint32_t i = 0; i < graph.size(); ++i) {
    for (const uint32_t to : graph.successors(i)) before[to].push_back(i);
    const NodeEnd end = graph.node(i).end;
    if (end == NodeEnd::kReturn || end == NodeEnd::kTailCall || end == NodeEnd::kIndirectTail) {
      exits_.push_back(i);
      is_exit_[i] = true;
      live_[i] = true;
    }
  }
  std::vector<uint32_t> work = exits_;
  while (!work.empty()) {
    const uint32_t node = work.back();
    work.pop_back();
    for (const uint32_t from : before[node]) {
      if (live_[from]) continue;
      live_[from] = true;
      work.push_back(from);
    }
  }
  for (uint32_t i = 0; i < graph.size(); ++i) {
    if (!live_[i]) continue;
    for (const uint32_t to : graph.successors(i)) {
      if (!live_[to]) continue;
      successors_[i].push_back(to);
      predecessors_[to].push_back(i);
    }
  }
}

// Finds loops by Tarjan's strongly connected components, without recursion. Every live node is
// reached from the entry.
void NormalFlow::FindLoops() {
  constexpr uint32_t kUnseen = UINT32_MAX;
  std::vector<uint32_t> order(size(), kUnseen);
  std::vector<uint32_t> low(size(), 0);
  std::vector<bool> on_stack(size());
  std::vector<uint32_t> stack;
  std::vector<std::pair<uint32_t, uint32_t>> calls = {{0, 0}};  // node, next successor
  uint32_t counter = 0;
  while (!calls.empty()) {
    auto& [node, next] = calls.back();
    if (next == 0) {
      order[node] = low[node] = counter++;
      stack.push_back(node);
      on_stack[node] = true;
    }
    if (next < successors_[node].size()) {
      const uint32_t to = successors_[node][next++];
      if (order[to] == kUnseen) {
        calls.emplace_back(to, 0);
      } else if (on_stack[to]) {
        low[node] = std::min(low[node], order[to]);
      }
      continue;
    }
    const uint32_t done = node;
    calls.pop_back();
    if (!calls.empty()) low[calls.back().first] = std::min(low[calls.back().first], low[done]);
    if (low[done] != order[done]) continue;
    const bool alone = stack.back() == done;
    const auto& own = successors_[done];
    const bool loops = !alone || std::find(own.begin(), own.end(), done) != own.end();
    while (true) {
      const uint32_t member = stack.back();
      stack.pop_back();
      on_stack[member] = false;
      in_loop_[member] = loops;
      if (member == done) break;
    }
  }
}

// The algorithm is that of Cooper, Harvey, Kennedy: "A Simple, Fast Dominance Algorithm", on the
// reversed graph with one virtual exit.
std::vector<uint32_t> NormalFlow::PostDominatorsOfEntry() const {
  const uint32_t exit = static_cast<uint32_t>(size());
  constexpr uint32_t kNone = UINT32_MAX;
  // Nodes in postorder of the reversed graph, so that its reverse begins with the virtual exit.
  std::vector<uint32_t> postorder;
  std::vector<bool> seen(size() + 1);
  std::vector<std::pair<uint32_t, size_t>> stack = {{exit, 0}};
  seen[exit] = true;
  while (!stack.empty()) {
    auto& [node, next] = stack.back();
    const std::vector<uint32_t>& list = node == exit ? exits_ : predecessors_[node];
    if (next < list.size()) {
      const uint32_t to = list[next++];
      if (!seen[to]) {
        seen[to] = true;
        stack.emplace_back(to, 0);
      }
    } else {
      postorder.push_back(node);
      stack.pop_back();
    }
  }
  std::vector<uint32_t> rank(size() + 1, 0);
  for (uint32_t i = 0; i < postorder.size(); ++i) rank[postorder[i]] = i;
  std::vector<uint32_t> dominator(size() + 1, kNone);
  dominator[exit] = exit;
  const auto intersect = [&](uint32_t a, uint32_t b) {
    while (a != b) {
      while (rank[a] < rank[b]) a = dominator[a];
      while (rank[b] < rank[a]) b = dominator[b];
    }
    return a;
  };
  bool changed = true;
  while (changed) {
    changed = false;
    for (size_t i = postorder.size(); i-- > 0;) {
      const uint32_t node = postorder[i];
      if (node == exit) continue;
      uint32_t best = is_exit_[node] ? exit : kNone;
      for (const uint32_t to : successors_[node]) {
        if (dominator[to] == kNone) continue;
        best = best == kNone ? to : intersect(best, to);
      }
      if (best != kNone && dominator[node] != best) {
        dominator[node] = best;
        changed = true;
      }
    }
  }
  std::vector<uint32_t> chain;
  for (uint32_t node = 0; node != exit && node != kNone && chain.size() <= size();
       node = dominator[node]) {
    chain.push_back(node);
  }
  return chain;
}

NodeSet NormalFlow::Reaching(const std::vector<uint32_t>& targets) const {
  NodeSet reaching(size());
  std::vector<uint32_t> work;
  for (const uint32_t target : targets) {
    if (!live_[target] || reaching[target]) continue;
    reaching[target] = true;
    work.push_back(target);
  }
  while (!work.empty()) {
    const uint32_t node = work.back();
    work.pop_back();
    for (const uint32_t from : predecessors_[node]) {
      if (reaching[from]) continue;
      reaching[from] = true;
      work.push_back(from);
    }
  }
  return reaching;
}

bool NormalFlow::LeadsTo(uint32_t from, const NodeSet& to) const {
  NodeSet seen(size());
  std::vector<uint32_t> work = successors_[from];
  while (!work.empty()) {
    const uint32_t node = work.back();
    work.pop_back();
    if (seen[node]) continue;
    seen[node] = true;
    if (to[node]) return true;
    work.insert(work.end(), successors_[node].begin(), successors_[node].end());
  }
  return false;
}

}  // namespace proftrace
