// Answers what the search for exit sites asks of a function's control flow.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "symbols/x86/flow_graph.h"

namespace proftrace {

using NodeSet = std::vector<bool>;  // by node index

// A FlowGraph reduced to the nodes from which a normal exit (ret or tail call) can be reached.
class NormalFlow {
 public:
  explicit NormalFlow(const FlowGraph& graph);

  bool has_exit() const { return !exits_.empty() && live_[0]; }
  size_t size() const { return live_.size(); }
  bool live(uint32_t node) const { return live_[node]; }
  bool in_loop(uint32_t node) const { return in_loop_[node]; }
  const std::vector<uint32_t>& exits() const { return exits_; }
  bool is_exit(uint32_t node) const { return is_exit_[node]; }
  const std::vector<uint32_t>& successors(uint32_t node) const { return successors_[node]; }
  const std::vector<uint32_t>& predecessors(uint32_t node) const { return predecessors_[node]; }

  // Returns the entry's post-dominators, the entry first: each path from the entry to an exit
  // passes all of them.
  std::vector<uint32_t> PostDominatorsOfEntry() const;
  // Returns the nodes from which a member of `targets` can be reached, the members included.
  NodeSet Reaching(const std::vector<uint32_t>& targets) const;
  // Whether a path of at least one edge leads from `from` to a member of `to`.
  bool LeadsTo(uint32_t from, const NodeSet& to) const;

 private:
  void FindLive(const FlowGraph& graph);
  void FindLoops();

  std::vector<bool> live_;
  std::vector<bool> in_loop_;
  std::vector<bool> is_exit_;
  std::vector<uint32_t> exits_;
  std::vector<std::vector<uint32_t>> successors_;
  std::vector<std::vector<uint32_t>> predecessors_;
};

}  // namespace proftrace
