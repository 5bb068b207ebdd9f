// Builds the control flow graph of one function from its machine code.
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
  kNone,    // control goes on to its successors
  kReturn,  // a ret
  // A jump that leaves the function for good, so that another function returns in its place
  kTailCall,
  kIndirectTail,  // a jump to an unknown place that is no jump table
  kDead,          // never passed: a trap, or a call that does not return
};

// One instruction.
struct FlowNode {
  Instruction instruction;
  NodeEnd end = NodeEnd::kNone;
  bool is_call = false;      // a call, or a tail call
  bool is_indirect = false;  // a call of a place that is known only at run time
  std::string_view callee;   // its name, where known
};

// The instructions that can be reached from the entry, which is node 0. Nothing in the code leads
// to landing pads, so that code for exceptions is not part of the graph.
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
// `is_meant` gets the mangled name of each called function, or an empty text where it has none.
bool CallsAny(const FlowGraph& graph, const std::function<bool(std::string_view)>& is_meant);
// Returns for each node whether a path leads from it to one of `goals`; true for the goals
// themselves.
std::vector<bool> NodesLeadingTo(const FlowGraph& graph, const std::vector<uint32_t>& goals);
// Returns for each node whether a path leads from it to a call of a function whose mangled name
// `is_goal` accepts. A walk that looks for such calls can leave out all other nodes, which are most
// of a function where no profiler runs.
std::vector<bool> NodesLeadingToCalls(const FlowGraph& graph,
                                      const std::function<bool(std::string_view)>& is_goal);

// Whether the function with that mangled name never returns.
bool IsNoReturn(std::string_view name);

}  // namespace proftrace
