#include "symbols/x86/exit_sites.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "symbols/x86/graph_analysis.h"
#include "userspace/base/text.h"

namespace proftrace {
namespace {

// The most sites of one function. Each costs an attachment.
constexpr size_t kMaxSiteSet = 16;

bool IsDispatcherPath(std::string_view name) {
  static constexpr std::string_view kParts[] = {"SlowPath",    "callWithDispatchKey",
                                                "callUnboxed", "BoxedKernelWrapper",
                                                "callBoxed",   "boxAndCall"};
  return std::any_of(std::begin(kParts), std::end(kParts),
                     [&](std::string_view part) { return Contains(name, part); });
}

bool IsNamedWork(std::string_view name) {
  static constexpr std::string_view kParts[] = {
      "_apply_functional", "call_function", "record_function_enter", "AccumulateGrad_apply_impl",
      "6Engine17evaluate_function"};
  if (name.starts_with("_ZN2at4_ops")) return Contains(name, "4callE");
  if (std::any_of(std::begin(kParts), std::end(kParts),
                  [&](std::string_view part) { return Contains(name, part); })) {
    return true;
  }
  if (Contains(name, "13RecordFunction") && Contains(name, "before")) return true;
  // A free function of namespace at, as at::add(…), counts; destructors and accessors of its
  // classes do not.
  if (!name.starts_with("_ZN2at") || name.size() < 7 || name[6] < '0' || name[6] > '9') {
    return false;
  }
  for (const std::string_view other : {"10TensorBase", "6Tensor", "14RecordFunction"}) {
    if (name.substr(6).starts_with(other)) return false;
  }
  return true;
}

bool IsWork(const FlowNode& node, WorkRule rule) {
  if (!node.is_call) return false;
  if (rule == WorkRule::kAnyCall) return node.end != NodeEnd::kDead;
  if (rule == WorkRule::kThroughWord) {
    return node.is_indirect && node.instruction.target != 0 && node.end != NodeEnd::kDead;
  }
  if (IsDispatcherPath(node.callee)) return true;
  if (rule == WorkRule::kNamed) return IsNamedWork(node.callee);
  return node.is_indirect || (node.callee.empty() && node.end != NodeEnd::kDead);
}

using NodeTest = std::function<bool(uint32_t)>;
using Neighbours = std::function<const std::vector<uint32_t>&(uint32_t)>;

class SiteSearch {
 public:
  SiteSearch(const FlowGraph& graph, const NormalFlow& flow, WorkRule rule);

  ExitSites Run() const;

 private:
  std::optional<uint32_t> LastJumpOnChain() const;
  // Return the nodes that pass `test` first or last on each path through the code after the work.
  // Empty: a path has no such node.
  std::vector<uint32_t> FirstCut(const NodeTest& test) const;
  std::vector<uint32_t> LastCut(const NodeTest& test) const;
  // Returns the nodes that pass `test` first on each path from `queue` along `neighbours`. Empty: a
  // path reaches a node for which is_past_end is true before.
  std::vector<uint32_t> Cut(std::vector<uint32_t> queue, const NodeTest& test,
                            const NodeTest& is_past_end, const Neighbours& neighbours) const;
  bool IsPassedExactlyOnce(const std::vector<uint32_t>& sites) const;
  ExitSites Make(ExitRule rule, const std::vector<uint32_t>& nodes) const;

  const FlowGraph& graph_;
  const NormalFlow& flow_;
  // Whether returns may be sites where only some paths have an emulated instruction
  bool takes_returns_;
  std::vector<uint32_t> work_;
  NodeSet before_work_;  // nodes from which work can be reached, those with work included
};

SiteSearch::SiteSearch(const FlowGraph& graph, const NormalFlow& flow, WorkRule rule)
    : graph_(graph), flow_(flow), takes_returns_(rule == WorkRule::kThroughWord) {
  for (uint32_t i = 0; i < graph.size(); ++i) {
    if (flow.live(i) && IsWork(graph.node(i), rule)) work_.push_back(i);
  }
  before_work_ = flow.Reaching(work_);
}

std::optional<uint32_t> SiteSearch::LastJumpOnChain() const {
  const std::vector<uint32_t> chain = flow_.PostDominatorsOfEntry();
  for (size_t i = chain.size(); i-- > 1;) {
    const uint32_t node = chain[i];
    if (before_work_[node]) break;
    const Instruction& instruction = graph_.node(node).instruction;
    if (instruction.kind == InstructionKind::kConditionalJump && instruction.emulated &&
        !flow_.in_loop(node)) {
      return node;
    }
  }
  return std::nullopt;
}

std::vector<uint32_t> SiteSearch::FirstCut(const NodeTest& test) const {
  std::vector<uint32_t> queue;
  if (work_.empty()) {
    queue.push_back(0);
  } else {
    for (uint32_t i = 0; i < flow_.size(); ++i) {
      if (!flow_.live(i) || !before_work_[i]) continue;
      if (flow_.is_exit(i)) return {};  // the function leaves by the work itself
      for (const uint32_t to : flow_.successors(i)) {
        if (!before_work_[to]) queue.push_back(to);
      }
    }
  }
  return Cut(
      std::move(queue), test, [this](uint32_t node) { return flow_.is_exit(node); },
      [this](uint32_t node) -> const std::vector<uint32_t>& { return flow_.successors(node); });
}

std::vector<uint32_t> SiteSearch::LastCut(const NodeTest& test) const {
  return Cut(
      flow_.exits(), test, [this](uint32_t node) { return before_work_[node] || node == 0; },
      [this](uint32_t node) -> const std::vector<uint32_t>& { return flow_.predecessors(node); });
}

std::vector<uint32_t> SiteSearch::Cut(std::vector<uint32_t> queue, const NodeTest& test,
                                      const NodeTest& is_past_end,
                                      const Neighbours& neighbours) const {
  NodeSet seen(flow_.size());
  std::vector<uint32_t> sites;
  while (!queue.empty()) {
    const uint32_t node = queue.back();
    queue.pop_back();
    if (seen[node]) continue;
    seen[node] = true;
    if (test(node)) {
      sites.push_back(node);
      continue;
    }
    if (is_past_end(node)) return {};
    const auto& next = neighbours(node);
    queue.insert(queue.end(), next.begin(), next.end());
  }
  return sites;
}

bool SiteSearch::IsPassedExactlyOnce(const std::vector<uint32_t>& sites) const {
  if (sites.empty() || sites.size() > kMaxSiteSet) return false;
  NodeSet members(flow_.size());
  for (const uint32_t site : sites) members[site] = true;
  return std::none_of(sites.begin(), sites.end(),
                      [&](uint32_t site) { return flow_.LeadsTo(site, members); });
}

ExitSites SiteSearch::Make(ExitRule rule, const std::vector<uint32_t>& nodes) const {
  ExitSites sites{rule, {}};
  for (const uint32_t node : nodes)
    sites.addresses.push_back(graph_.node(node).instruction.address);
  std::sort(sites.addresses.begin(), sites.addresses.end());
  return sites;
}

ExitSites SiteSearch::Run() const {
  if (const auto node = LastJumpOnChain()) return Make(ExitRule::kConditional, {*node});
  for (int level = 0; level < (takes_returns_ ? 4 : 3); ++level) {
    const NodeTest test = [&](uint32_t node) {
      const Instruction& instruction = graph_.node(node).instruction;
      if (level == 3 && graph_.node(node).end == NodeEnd::kReturn) return true;
      if (!instruction.emulated || before_work_[node] || flow_.in_loop(node) || node == 0) {
        return false;
      }
      if (instruction.kind == InstructionKind::kCall) return level == 2;
      if (level == 3) return instruction.kind == InstructionKind::kConditionalJump;
      return instruction.kind == InstructionKind::kConditionalJump || level >= 1;
    };
    for (const auto& nodes : {FirstCut(test), LastCut(test)}) {
      if (IsPassedExactlyOnce(nodes)) return Make(ExitRule::kSiteSet, nodes);
    }
  }
  const auto returns = [&](uint32_t node) { return graph_.node(node).end == NodeEnd::kReturn; };
  if (flow_.exits().size() <= kMaxSiteSet &&
      std::all_of(flow_.exits().begin(), flow_.exits().end(), returns)) {
    return Make(ExitRule::kReturn, flow_.exits());
  }
  return {};
}

}  // namespace

ExitSites FindExitSites(const FlowGraph& graph, WorkRule work) {
  const NormalFlow flow(graph);
  if (!flow.has_exit()) return {};
  if (work == WorkRule::kThroughWord) {
    bool has_work = false;
    for (uint32_t i = 0; i < graph.size(); ++i) has_work |= IsWork(graph.node(i), work);
    if (!has_work) work = WorkRule::kAnyCall;
  }
  return SiteSearch(graph, flow, work).Run();
}

std::vector<uint32_t> MandatoryNodes(const FlowGraph& graph) {
  const NormalFlow flow(graph);
  if (!flow.has_exit()) return {};
  std::vector<uint32_t> nodes = flow.PostDominatorsOfEntry();
  std::erase_if(nodes, [&](uint32_t node) { return flow.in_loop(node); });
  return nodes;
}

namespace {

// Returns the address of the next emulated push behind `node` in straight code, with only register
// moves in between; 0: there is none.
uint64_t FindNextPush(const FlowGraph& graph, const std::vector<uint32_t>& incoming,
                      uint32_t node) {
  constexpr int kLongest = 3;
  for (int steps = 0; steps < kLongest; ++steps) {
    const auto next = graph.successors(node);
    if (next.last - next.first != 1) return 0;
    node = *next.begin();
    const Instruction& instruction = graph.node(node).instruction;
    if (incoming[node] != 1 || graph.node(node).is_call) return 0;
    if (instruction.kind == InstructionKind::kPush) {
      return instruction.emulated ? instruction.address : 0;
    }
    if (!IsRegisterMove(instruction.bytes.data(), instruction.size)) return 0;
  }
  return 0;
}

}  // namespace

std::optional<BeginSite> FindBeginSite(const FlowGraph& graph) {
  std::vector<uint32_t> incoming(graph.size());
  for (uint32_t i = 0; i < graph.size(); ++i) {
    for (const uint32_t to : graph.successors(i)) ++incoming[to];
  }
  constexpr RegisterSet kKept =
      1 << kRcx | 1 << kRdx | 1 << kRsp | 1 << kRsi | 1 << kRdi | 1 << kR8 | 1 << kR9;
  std::optional<BeginSite> first;
  uint32_t node = 0;
  for (size_t steps = 0; steps < graph.size(); ++steps) {
    const Instruction& instruction = graph.node(node).instruction;
    if (incoming[node] != (node == 0 ? 0u : 1u))
      break;  // other code leads here too, so that the place could be passed twice
    if (instruction.kind != InstructionKind::kEndbr64) {
      if (!first) first = BeginSite{instruction.address, instruction.emulated};
      if (instruction.emulated) {
        return BeginSite{instruction.address, true, FindNextPush(graph, incoming, node)};
      }
      const RegisterSet written = WrittenRegisters(instruction);
      if ((written & kKept) != 0) break;
    }
    const auto next = graph.successors(node);
    if (next.last - next.first != 1 || graph.node(node).is_call) break;
    node = *next.begin();
  }
  return first;
}

}  // namespace proftrace
