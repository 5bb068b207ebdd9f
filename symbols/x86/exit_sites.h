// Where a function's begin and end can be probed without a return probe.
//
// A return probe would put its own return address on the target's stack, and the C++ unwinder
// cannot pass that: the first exception would end the job. So the end is an ordinary probe, at a
// place that every normal return passes exactly once, after the work. Code that only runs for an
// exception never passes it; such spans are closed by the catch.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "symbols/probe_plan.h"
#include "symbols/x86/flow_graph.h"

namespace proftrace {

// Which calls are the work that a function exists for: no exit site has such a call after it.
enum class WorkRule : uint8_t {
  // Dispatcher entries: each indirect call, the dispatcher's own slow paths, and calls to functions
  // without a name.
  kDispatch,
  // Functions that make indirect calls to clean up (the autograd engine): operators, hooks and node
  // functions, by their names.
  kNamed,
  // Functions of libraries other than torch: every call.
  kAnyCall,
  // Entries of the CUDA Driver: the call through a word of its own, where there is one (else as
  // kAnyCall). Code after it only reports an error, and may be left out of the row.
  kThroughWord,
};

struct ExitSites {
  ExitRule rule = ExitRule::kNone;  // kNone: no safe site, the function must not be probed
  std::vector<uint64_t> addresses;  // ascending; every normal return passes exactly one of them
};

ExitSites FindExitSites(const FlowGraph& graph, WorkRule work);

struct BeginSite {
  uint64_t address = 0;
  bool emulated = false;  // false: the kernel single-steps the instruction
  // A second emulated instruction that always follows, with next to no work in between: two probes
  // there measure what one hit costs. 0 = there is none.
  uint64_t next = 0;
};

// Finds the place for the begin probe: the first instruction (after endbr64), or a later one of the
// entry block that is emulated while the argument registers and the stack pointer still are what
// the caller set. nullopt: the entry is part of a loop.
std::optional<BeginSite> FindBeginSite(const FlowGraph& graph);

// Returns the nodes that every normal return passes exactly once, from the entry on.
std::vector<uint32_t> MandatoryNodes(const FlowGraph& graph);

}  // namespace proftrace
