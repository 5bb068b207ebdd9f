#include "symbols/x86/forwarded_calls.h"

#include <algorithm>
#include <utility>

#include "symbols/x86/known_callees.h"

namespace proftrace {
namespace {

constexpr uint64_t kMostBytes = 512;
// The name that NameOf() gives to functions that make strings: the constructor of std::string from
// the begin and the end of a text.
constexpr std::string_view kMadeString =
    "_ZNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEE12_M_constructIPKcEEvT_S8_";
constexpr std::string_view kCreate =
    "_ZNSt7__cxx1112basic_stringIcSt11char_traitsIcESaIcEE9_M_createERmm";

bool IsDirectCall(const FlowNode& node) {
  return node.is_call && !node.is_indirect && node.instruction.target != 0;
}

}  // namespace

ForwardedCalls::ForwardedCalls(const CodeImage& image, const FlowGraph& graph, IsGoal is_goal)
    : image_(image), graph_(graph), is_goal_(std::move(is_goal)) {
  std::vector<uint32_t> goals;
  for (uint32_t i = 0; i < graph.size(); ++i) {
    const FlowNode& node = graph.node(i);
    bool leads = node.is_call && is_goal_(node.callee);
    if (!leads && IsDirectCall(node) && node.callee.empty()) {
      const uint64_t target = node.instruction.target;
      const FlowGraph* function = SmallFunctionAt(target);
      leads = function != nullptr && IsForwarder(*function);
      if (leads) forwarders_.emplace(target, function);
    }
    if (leads) goals.push_back(i);
  }
  leading_ = NodesLeadingTo(graph, goals);
}

const FlowGraph* ForwardedCalls::SmallFunctionAt(uint64_t address) {
  const auto [found, is_new] = functions_.try_emplace(address);
  if (is_new && !image_.IsPltStub(address)) {
    const auto range = image_.FunctionAt(address);
    if (range && range->start == address && range->name.empty() &&
        range->end - address <= kMostBytes) {
      auto graph = FlowGraph::Build(image_, range->start, range->end);
      if (graph.ok()) found->second = std::make_unique<const FlowGraph>(*std::move(graph));
    }
  }
  return found->second.get();
}

// Returns kMadeString for a function that makes a string, and an empty name for any other.
std::string_view ForwardedCalls::NameOf(uint64_t address) {
  const FlowGraph* function = SmallFunctionAt(address);
  if (function == nullptr) return {};
  bool creates = false;
  for (uint32_t i = 0; i < function->size(); ++i) {
    const FlowNode& node = function->node(i);
    if (!node.is_call || node.end == NodeEnd::kDead) continue;
    if (node.callee != kCreate && node.callee != "memcpy") return {};
    creates |= node.callee == kCreate;
  }
  return creates ? kMadeString : std::string_view();
}

// Whether the function calls a goal, and otherwise only functions that copy strings. A function
// that makes a row of its own calls others, and is no forwarder.
bool ForwardedCalls::IsForwarder(const FlowGraph& function) {
  bool found = false;
  for (uint32_t i = 0; i < function.size(); ++i) {
    const FlowNode& node = function.node(i);
    if (!node.is_call || node.end == NodeEnd::kDead) continue;
    if (is_goal_(node.callee)) {
      found = true;
    } else if (!IsOfStrings(node.callee) &&
               (!IsDirectCall(node) || NameOf(node.instruction.target).empty())) {
      return false;
    }
  }
  return found;
}

void ForwardedCalls::TellNames(ValueWalk* walk) {
  walk->set_callee_names([this](uint64_t address) { return NameOf(address); });
}

bool ForwardedCalls::Visit(const ValueWalk& walk, uint32_t node, const ValueState& state,
                           const Visitor& visitor) const {
  const FlowNode& call = graph_.node(node);
  if (!call.is_call) return false;
  if (is_goal_(call.callee)) {
    visitor(call.callee, state);
    return true;
  }
  const auto found = forwarders_.find(call.instruction.target);
  if (!call.callee.empty() || found == forwarders_.end()) return false;
  const FlowGraph& function = *found->second;
  bool any = false;
  walk.RunCalled(function, state, [&](uint32_t inner, const ValueState& at) {
    if (!function.node(inner).is_call || !is_goal_(function.node(inner).callee)) return true;
    any = true;
    visitor(function.node(inner).callee, at);
    return false;
  });
  return any;
}

}  // namespace proftrace
