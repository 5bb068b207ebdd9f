// The control flow of one function, from its machine code.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "symbols/elf/code_image.h"
#include "symbols/x86/instruction.h"

namespace proftrace {

enum class NodeEnd : uint8_t {
  kNone,          // goes on to its successors
  kReturn,        // a ret
  kTailCall,      // a jump that leaves the function for good: another function returns for it
  kIndirectTail,  // a jump to an unknown place that is no jump table
  kDead,          // never passed: a trap, or a call that does not return
};

// One instruction.
struct FlowNode {
  Instruction instruction;
  NodeEnd end = NodeEnd::kNone;
  bool is_call = false;      // a call, or a tail call
  bool is_indirect = false;  // … to a place known only at run time
  std::string_view callee;   // its name, where known
};

// The nodes that the entry reaches; node 0 is the entry. Landing pads have no edge into them, so
// code for exceptions drops out by itself.
class FlowGraph {
 public:
  // Builds the graph of the function [start, end). Follows jumps into its cold part and leaves out
  // code that only ends in calls that do not return. Fails when the code does not decode, runs out
  // of the function, or is too large.
  static absl::StatusOr<FlowGraph> Build(const CodeImage& image, uint64_t start, uint64_t end);

  size_t size() const { return nodes_.size(); }
  const FlowNode& node(size_t i) const { return nodes_[i]; }
  struct Range {
    const uint32_t* first;
    const uint32_t* last;
    const uint32_t* begin() const { return first; }
    const uint32_t* end() const { return last; }
  };
  Range successors(size_t i) const {
    return {edges_.data() + edge_begin_[i], edges_.data() + edge_begin_[i + 1]};
  }

 private:
  friend class FlowGraphBuilder;
  std::vector<FlowNode> nodes_;
  std::vector<uint32_t> edge_begin_;
  std::vector<uint32_t> edges_;
};

// Whether the function calls a function that `is_meant` accepts, or leaves for it by a jump.
// `is_meant` gets the mangled name (empty where there is none).
bool CallsAny(const FlowGraph& graph, const std::function<bool(std::string_view)>& is_meant);
// Tells by node whether a path leads from it to one of `goals`; true for the goals themselves.
std::vector<bool> NodesLeadingTo(const FlowGraph& graph, const std::vector<uint32_t>& goals);
// Tells by node whether a path leads to a call of a function whose mangled name `is_goal` accepts.
// A walk that looks for such calls can leave the rest out: where no profiler runs, most of a
// function.
std::vector<bool> NodesLeadingToCalls(const FlowGraph& graph,
                                      const std::function<bool(std::string_view)>& is_goal);

// Whether the function with that mangled name never returns.
bool IsNoReturn(std::string_view name);

}  // namespace proftrace
