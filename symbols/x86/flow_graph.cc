#include "symbols/x86/flow_graph.h"

#include <absl/container/flat_hash_map.h>
#include <absl/container/flat_hash_set.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <span>

#include "symbols/x86/jump_table.h"
#include "userspace/base/text.h"

#include "userspace/base/text.h"

namespace proftrace {
namespace {

// The largest operator function seen has 24 kB, the TorchScript interpreter 70 kB. Dominators take
// quadratic time in code that is made for it. These limits keep the analysis of one function below
// about a second.
constexpr uint64_t kMaxFunctionBytes = 128 * 1024;
constexpr size_t kMaxParts = 64;
constexpr size_t kMaxNodes = 40000;
constexpr size_t kMaxEscapes = 500;     // jumps out of one function that are followed
constexpr size_t kMaxJumpTables = 200;  // in one function
// How many instructions are looked at behind a jump that leaves the function, to see where it
// leads.
constexpr size_t kMaxEscapeInstructions = 400;
constexpr size_t kEscapeBlockBytes = 400;
constexpr uint64_t kMaxEscapeDistance = 4096;
constexpr size_t kColdPartBytes = 3000;

}  // namespace

bool IsNoReturn(std::string_view name) {
  if (name.empty()) return false;
  static constexpr std::string_view kNames[] = {
      "_Unwind_Resume",
      "__cxa_throw",
      "__cxa_rethrow",
      "__stack_chk_fail",
      "abort",
      "exit",
      "_exit",
      "__assert_fail",
      "_ZSt9terminatev",
      "__clang_call_terminate",
      "__cxa_throw_bad_array_new_length",
  };
  static constexpr std::string_view kPrefixes[] = {
      "__cxa_bad_",
      "__cxa_throw_bad_array",
      "_ZN3c106detail14torchCheckFail",
      "_ZN3c106detail23torchInternalAssertFail",
      "_ZNK3c106IValue23reportToTensorTypeError",
  };
  if (std::find(std::begin(kNames), std::end(kNames), name) != std::end(kNames)) return true;
  for (const std::string_view prefix : kPrefixes) {
    if (name.starts_with(prefix)) return true;
  }
  // Functions std::__throw_… have mangled names as _ZSt20__throw_length_errorPKc.
  return name.starts_with("_ZSt") && Contains(name.substr(0, 24), "__throw_");
}

class FlowGraphBuilder {
 public:
  FlowGraphBuilder(const CodeImage& image, uint64_t start, uint64_t end)
      : image_(image), start_(start), end_(end) {}
  absl::StatusOr<FlowGraph> Run();

 private:
  enum class Escape { kBack, kDead, kTail };

  // One stretch of decoded code. Instructions lie in `code_` one after the other.
  struct Part {
    uint64_t begin;
    uint64_t end;  // of the last decoded instruction
    std::vector<uint8_t> bytes;
    std::vector<Instruction> code;
  };

  bool AddPart(uint64_t begin, uint64_t end);
  const Part* PartAt(uint64_t address) const;
  const Instruction* InstructionAt(uint64_t address) const;
  bool InRange(uint64_t address) const { return PartAt(address) != nullptr; }

  Escape FollowEscape(uint64_t target) const;
  // Returns where a jump to `target` leads: back into the function, to a tail call, or to code that
  // never returns.
  Escape Resolve(uint64_t target, std::string_view* callee);
  void Visit(uint32_t index);
  void VisitJump(FlowNode* node);
  std::vector<uint64_t> JumpTargets(const Instruction& jump) const;
  uint32_t NodeFor(uint64_t address);
  uint32_t TailNode(uint64_t target, std::string_view callee);
  void AddEdge(uint64_t address);

  const CodeImage& image_;
  uint64_t start_;
  uint64_t end_;
  std::vector<Part> parts_;
  std::vector<FlowNode> nodes_;
  absl::flat_hash_map<uint64_t, uint32_t> index_;
  absl::flat_hash_map<uint64_t, uint32_t> tails_;
  std::vector<uint32_t> pending_;  // edges of the node being visited
  bool broken_ = false;
  size_t escapes_ = 0;
  size_t jump_tables_ = 0;
};

bool FlowGraphBuilder::AddPart(uint64_t begin, uint64_t end) {
  if (parts_.size() >= kMaxParts || end <= begin) return false;
  Part part;
  part.begin = begin;
  part.bytes.resize(std::min<uint64_t>(end - begin, kMaxFunctionBytes));
  part.bytes.resize(image_.ReadCode(begin, part.bytes.data(), part.bytes.size()));
  part.code = DecodeAll(part.bytes.data(), part.bytes.size(), begin);
  if (part.code.empty()) return false;
  part.end = part.code.back().next();
  parts_.push_back(std::move(part));
  return true;
}

const FlowGraphBuilder::Part* FlowGraphBuilder::PartAt(uint64_t address) const {
  for (const Part& part : parts_) {
    if (address >= part.begin && address < part.end) return &part;
  }
  return nullptr;
}

const Instruction* FlowGraphBuilder::InstructionAt(uint64_t address) const {
  const Part* part = PartAt(address);
  if (part == nullptr) return nullptr;
  const auto found =
      std::lower_bound(part->code.begin(), part->code.end(), address,
                       [](const Instruction& i, uint64_t a) { return i.address < a; });
  return found != part->code.end() && found->address == address ? &*found : nullptr;
}

FlowGraphBuilder::Escape FlowGraphBuilder::FollowEscape(uint64_t target) const {
  absl::flat_hash_set<uint64_t> seen;
  std::vector<uint64_t> work = {target};
  size_t count = 0;
  Escape result = Escape::kDead;
  while (!work.empty() && count < kMaxEscapeInstructions) {
    const uint64_t block = work.back();
    work.pop_back();
    if (seen.contains(block)) continue;
    uint8_t bytes[kEscapeBlockBytes];
    const size_t got = image_.ReadCode(block, bytes, sizeof(bytes));
    for (const Instruction& instruction : DecodeAll(bytes, got, block)) {
      if (++count > kMaxEscapeInstructions || !seen.insert(instruction.address).second) break;
      const InstructionKind kind = instruction.kind;
      if (kind == InstructionKind::kReturn) return Escape::kTail;
      if (kind == InstructionKind::kTrap) break;
      if (kind == InstructionKind::kCall && IsNoReturn(image_.CalleeName(instruction.target)))
        break;
      if (kind == InstructionKind::kIndirectCall && instruction.target != 0 &&
          IsNoReturn(image_.SlotName(instruction.target))) {
        break;
      }
      if (kind == InstructionKind::kConditionalJump || kind == InstructionKind::kJump) {
        const uint64_t to = instruction.target;
        if (InRange(to)) {
          result = Escape::kBack;
        } else if (image_.IsPltStub(to)) {
          if (!IsNoReturn(image_.CalleeName(to))) return Escape::kTail;
        } else if (to - target < kMaxEscapeDistance || target - to < kMaxEscapeDistance) {
          work.push_back(to);
        }
      }
      if (kind == InstructionKind::kJump || kind == InstructionKind::kIndirectJump) break;
    }
  }
  return result;
}

FlowGraphBuilder::Escape FlowGraphBuilder::Resolve(uint64_t target, std::string_view* callee) {
  if (InRange(target)) return Escape::kBack;
  *callee = image_.CalleeName(target);
  if (image_.IsPltStub(target)) return IsNoReturn(*callee) ? Escape::kDead : Escape::kTail;
  const auto function = image_.FunctionAt(target);
  if (function && !function->name.empty()) {
    if (Contains(function->name, ".cold")) {
      return AddPart(function->start, function->end) ? Escape::kBack : Escape::kTail;
    }
    if (function->start == target) {
      return IsNoReturn(function->name) ? Escape::kDead : Escape::kTail;
    }
  }
  if (++escapes_ > kMaxEscapes) {
    broken_ = true;
    return Escape::kTail;
  }
  const Escape escape = FollowEscape(target);
  if (escape != Escape::kBack) return escape;
  const uint64_t end = function ? function->end : target + kColdPartBytes;
  return AddPart(target, end) ? Escape::kBack : Escape::kTail;
}

uint32_t FlowGraphBuilder::NodeFor(uint64_t address) {
  const auto [it, is_new] = index_.try_emplace(address, static_cast<uint32_t>(nodes_.size()));
  if (is_new) {
    FlowNode node;
    if (const Instruction* instruction = InstructionAt(address)) {
      node.instruction = *instruction;
    } else {
      // The address is in the range, but no decoded instruction begins there, so that the code is
      // not what it seems.
      broken_ = true;
      node.end = NodeEnd::kDead;
    }
    nodes_.push_back(node);
  }
  return it->second;
}

uint32_t FlowGraphBuilder::TailNode(uint64_t target, std::string_view callee) {
  const auto [it, is_new] = tails_.try_emplace(target, static_cast<uint32_t>(nodes_.size()));
  if (is_new) {
    FlowNode node;
    node.end = NodeEnd::kTailCall;
    node.is_call = true;
    node.callee = callee;
    nodes_.push_back(node);
  }
  return it->second;
}

void FlowGraphBuilder::AddEdge(uint64_t address) {
  const uint32_t to = NodeFor(address);
  if (std::find(pending_.begin(), pending_.end(), to) == pending_.end()) pending_.push_back(to);
}

std::vector<uint64_t> FlowGraphBuilder::JumpTargets(const Instruction& jump) const {
  const Part* part = PartAt(jump.address);
  if (part == nullptr) return {};
  const auto at = std::lower_bound(part->code.begin(), part->code.end(), jump.address,
                                   [](const Instruction& i, uint64_t a) { return i.address < a; });
  if (at == part->code.end()) return {};
  JumpTable table = ReadJumpTable(image_, std::span(part->code.begin(), at + 1));
  size_t count = 0;
  while (count < table.count && InstructionAt(table.targets[count]) != nullptr) ++count;
  table.targets.resize(count);
  return table.targets;
}

void FlowGraphBuilder::VisitJump(FlowNode* node) {
  const Instruction& jump = node->instruction;
  std::string_view callee;
  switch (Resolve(jump.target, &callee)) {
    case Escape::kBack:
      AddEdge(jump.target);
      break;
    case Escape::kDead:
      node->end = NodeEnd::kDead;
      break;
    case Escape::kTail:
      node->end = NodeEnd::kTailCall;
      node->is_call = true;
      node->callee = callee;
      break;
  }
}

void FlowGraphBuilder::Visit(uint32_t index) {
  FlowNode node = nodes_[index];  // nodes_ may grow
  const Instruction instruction = node.instruction;
  bool falls_through = false;
  switch (instruction.kind) {
    case InstructionKind::kReturn:
      node.end = NodeEnd::kReturn;
      break;
    case InstructionKind::kTrap:
      node.end = NodeEnd::kDead;
      break;
    case InstructionKind::kJump:
      VisitJump(&node);
      break;
    case InstructionKind::kIndirectJump: {
      if (++jump_tables_ > kMaxJumpTables) broken_ = true;
      const std::vector<uint64_t> targets =
          broken_ ? std::vector<uint64_t>() : JumpTargets(instruction);
      for (const uint64_t target : targets) AddEdge(target);
      if (targets.empty()) {
        node.callee = instruction.target != 0 ? image_.SlotName(instruction.target) : "";
        node.is_call = true;
        node.is_indirect = node.callee.empty();
        node.end = node.is_indirect ? NodeEnd::kIndirectTail : NodeEnd::kTailCall;
        if (IsNoReturn(node.callee)) node.end = NodeEnd::kDead;
      }
      break;
    }
    case InstructionKind::kConditionalJump:
    case InstructionKind::kCountJump: {
      std::string_view callee;
      const Escape escape = Resolve(instruction.target, &callee);
      if (escape == Escape::kBack) AddEdge(instruction.target);
      if (escape == Escape::kTail) pending_.push_back(TailNode(instruction.target, callee));
      falls_through = true;
      break;
    }
    case InstructionKind::kCall:
    case InstructionKind::kIndirectCall:
      node.is_call = true;
      node.callee = instruction.kind == InstructionKind::kCall
                        ? image_.CalleeName(instruction.target)
                        : (instruction.target != 0 ? image_.SlotName(instruction.target) : "");
      node.is_indirect = instruction.kind == InstructionKind::kIndirectCall && node.callee.empty();
      // A call that is the last instruction of the code cannot return.
      if (IsNoReturn(node.callee) || !InRange(instruction.next())) {
        node.end = NodeEnd::kDead;
      } else {
        falls_through = true;
      }
      break;
    default:
      falls_through = true;
  }
  if (falls_through) {
    if (InRange(instruction.next())) {
      AddEdge(instruction.next());
    } else {
      broken_ = true;  // control runs out of the function, whose size must be wrong
    }
  }
  nodes_[index] = node;
}

absl::StatusOr<FlowGraph> FlowGraphBuilder::Run() {
  if (end_ <= start_ || end_ - start_ > kMaxFunctionBytes) {
    return absl::InvalidArgumentError("no plausible size");
  }
  if (!AddPart(start_, end_) || parts_[0].begin != start_) {
    return absl::InvalidArgumentError("its code cannot be read");
  }
  NodeFor(start_);
  FlowGraph graph;
  for (uint32_t i = 0; i < nodes_.size(); ++i) {
    if (nodes_.size() > kMaxNodes) return absl::InvalidArgumentError("too large");
    graph.edge_begin_.push_back(static_cast<uint32_t>(graph.edges_.size()));
    pending_.clear();
    if (nodes_[i].end == NodeEnd::kNone) Visit(i);
    if (broken_) return absl::InvalidArgumentError("its code does not decode as one function");
    graph.edges_.insert(graph.edges_.end(), pending_.begin(), pending_.end());
  }
  graph.edge_begin_.push_back(static_cast<uint32_t>(graph.edges_.size()));
  graph.nodes_ = std::move(nodes_);
  return graph;
}

std::vector<bool> NodesLeadingTo(const FlowGraph& graph, const std::vector<uint32_t>& goals) {
  std::vector<std::vector<uint32_t>> before(graph.size());
  for (uint32_t i = 0; i < graph.size(); ++i) {
    for (const uint32_t to : graph.successors(i)) before[to].push_back(i);
  }
  std::vector<bool> leading(graph.size());
  for (const uint32_t goal : goals) leading[goal] = true;
  std::vector<uint32_t> work = goals;
  while (!work.empty()) {
    const uint32_t node = work.back();
    work.pop_back();
    for (const uint32_t from : before[node]) {
      if (leading[from]) continue;
      leading[from] = true;
      work.push_back(from);
    }
  }
  return leading;
}

bool CallsAny(const FlowGraph& graph, const std::function<bool(std::string_view)>& is_meant) {
  for (uint32_t i = 0; i < graph.size(); ++i) {
    if (is_meant(graph.node(i).callee)) return true;
  }
  return false;
}

std::vector<bool> NodesLeadingToCalls(const FlowGraph& graph,
                                      const std::function<bool(std::string_view)>& is_goal) {
  std::vector<uint32_t> goals;
  for (uint32_t i = 0; i < graph.size(); ++i) {
    if (graph.node(i).is_call && is_goal(graph.node(i).callee)) goals.push_back(i);
  }
  return NodesLeadingTo(graph, goals);
}

absl::StatusOr<FlowGraph> FlowGraph::Build(const CodeImage& image, uint64_t start, uint64_t end) {
  return FlowGraphBuilder(image, start, end).Run();
}

}  // namespace proftrace
