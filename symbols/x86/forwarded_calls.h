// Finds calls that are made through small functions which pass on their arguments. Compilers make
// such functions of inline ones. A file without local symbols has no names for them, so that they
// are recognised by their code.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "symbols/elf/code_image.h"
#include "symbols/x86/flow_graph.h"
#include "symbols/x86/value_walk.h"

namespace proftrace {

class ForwardedCalls {
 public:
  // Whether calls of the function with this mangled name are looked for.
  using IsGoal = std::function<bool(std::string_view callee)>;
  // `image` and `graph` must outlive the object.
  ForwardedCalls(const CodeImage& image, const FlowGraph& graph, IsGoal is_goal);
  ForwardedCalls(const ForwardedCalls&) = delete;
  ForwardedCalls& operator=(const ForwardedCalls&) = delete;

  // Whether a path leads from the node to a call of a goal; true for such a call itself.
  bool LeadsToOne(uint32_t node) const { return leading_[node]; }

  // Makes the walk recognise functions without a name that make strings.
  void TellNames(ValueWalk* walk);

  // Calls `visitor` with each goal that the node calls, directly or through a small function, and
  // with the state at that call. Returns false where the node calls no goal.
  using Visitor = std::function<void(std::string_view callee, const ValueState& state)>;
  bool Visit(const ValueWalk& walk, uint32_t node, const ValueState& state,
             const Visitor& visitor) const;

 private:
  const FlowGraph* SmallFunctionAt(uint64_t address);
  std::string_view NameOf(uint64_t address);
  bool IsForwarder(const FlowGraph& function);

  const CodeImage& image_;
  const FlowGraph& graph_;
  IsGoal is_goal_;
  std::vector<bool> leading_;
  // By address. Null: the function is not small, or could not be read.
  std::map<uint64_t, std::unique_ptr<const FlowGraph>> functions_;
  std::map<uint64_t, const FlowGraph*> forwarders_;
};

}  // namespace proftrace
