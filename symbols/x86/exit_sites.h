// Finds places where a function's begin and end can be probed without a return probe.
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

// Decides which calls are the work for which a function exists. No such call may come after an exit
// site.
enum class WorkRule : uint8_t {
  // For entries of the dispatcher: each indirect call, the dispatcher's own slow paths, and calls
  // of functions without a name.
  kDispatch,
  // For functions that make indirect calls to clean up (the autograd engine): calls of operators,
  // hooks and node functions, by their names.
  kNamed,
  // For functions of other libraries than torch: every call.
  kAnyCall,
  // For entries of the CUDA Driver: calls through a word of the library's own, if there are any
  // (else as kAnyCall). Code after such a call only reports an error, and may be left out of the
  // row.
  kThroughWord,
};

struct ExitSites {
  // kNone: there is no safe site, so that the function must not be probed
  ExitRule rule = ExitRule::kNone;
  std::vector<uint64_t> addresses;  // ascending; every normal return passes exactly one of them
};

ExitSites FindExitSites(const FlowGraph& graph, WorkRule work);

struct BeginSite {
  uint64_t address = 0;
  bool emulated = false;  // false: the kernel single-steps the instruction
  // The address of a second emulated instruction that always follows, with next to no work in
  // between, so that two probes measure the cost of one hit. 0 = there is none.
  uint64_t next = 0;
};

// Finds the place for the begin probe: the first instruction (after endbr64), or a later one of the
// entry block that is emulated while the argument registers and the stack pointer still are what
// the caller set. nullopt: the entry is part of a loop.
std::optional<BeginSite> FindBeginSite(const FlowGraph& graph);

// Returns the nodes that every normal return passes exactly once, from the entry on.
std::vector<uint32_t> MandatoryNodes(const FlowGraph& graph);

}  // namespace proftrace
