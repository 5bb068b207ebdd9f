// Finds the name that code gives a row while a profiler runs, and how to read that name where the
// row begins.
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

// A name: a text in the file, or the place of a text in the target.
struct RowName {
  std::string literal;
  std::optional<abi::pt_place> place;
  // The place of the name where `place` leads through a null pointer.
  std::optional<abi::pt_place> otherwise;
};

// Tells the value that a virtual function returns, for names that are read through it.
using VirtualReturn = ValueWalk::VirtualReturn;

// Finds the name that the code after node `from`, the call that begins a row, gives the row;
// nullopt: the name is not clear. `stops`: functions whose calls begin another row.
std::optional<RowName> FindGivenName(const CodeImage& image, const FlowGraph& graph, uint32_t from,
                                     const std::vector<uint64_t>& stops,
                                     const VirtualReturn& virtual_return = nullptr);

}  // namespace proftrace
