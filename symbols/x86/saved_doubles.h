// Finds where a function keeps its floating-point arguments. A uprobe cannot read vector registers,
// but compiled code stores the arguments that it needs later in its frame before it calls a
// function.
#pragma once

#include <cstdint>
#include <vector>

#include "symbols/x86/flow_graph.h"

namespace proftrace {

struct SavedDouble {
  bool is_saved = false;
  bool by_frame_pointer = false;  // `offset` is from rbp, else from rsp
  int16_t offset = 0;
};

struct SavedDoubles {
  // The last emulated instruction of the entry block: each call of the function passes it once.
  uint64_t address = 0;  // 0 = there is no such instruction, or no argument is saved by then
  std::vector<SavedDouble> saved;  // by register, xmm0, xmm1, …: the places at `address`
};

SavedDoubles FindSavedDoubles(const FlowGraph& graph);

}  // namespace proftrace
