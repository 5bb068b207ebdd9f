// Finds the name that code gives a row while a profiler runs, and how to read it where the row
// begins.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "bpf/abi/records.h"
#include "symbols/elf/code_image.h"
#include "symbols/x86/flow_graph.h"
#include "symbols/x86/value_walk.h"

namespace proftrace {

// A name: a text of the file, or a text at a place of the target.
struct RowName {
  std::string literal;
  std::optional<abi::pt_place> place;
  // Where the name is if `place` leads through a null pointer.
  std::optional<abi::pt_place> otherwise;
};

// Tells what virtual functions return, where names are read from that.
using VirtualReturn = ValueWalk::VirtualReturn;

// Finds the name that the code after node `from` (a call that begins a row) gives the row; nullopt:
// it is not clear. `stops`: calls of these begin another row.
std::optional<RowName> FindGivenName(const CodeImage& image, const FlowGraph& graph, uint32_t from,
                                     const std::vector<uint64_t>& stops,
                                     const VirtualReturn& virtual_return = nullptr);

}  // namespace proftrace
