// Finds where frames of TorchScript's interpreter get an at::RecordFunction, and where they end.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "symbols/elf/code_image.h"
#include "symbols/x86/flow_graph.h"

namespace proftrace {

struct FrameSlot {
  uint32_t node = 0;   // an instruction at which `frame` is the frame's register
  uint8_t frame = 0;   // its hardware number
  int64_t offset = 0;  // from the frame to the pointer to the at::RecordFunction
};

// Finds the slot into which the code behind `call` stores an object of the heap. Where the frame's
// address lies on the stack at the call, the node is an instruction before it, with nothing but
// straight code between them.
std::optional<FrameSlot> FindFrameSlot(const FlowGraph& graph, uint32_t call);

struct FrameEnd {
  uint64_t address = 0;  // the jump that skips the destruction where there is no at::RecordFunction
  uint8_t reg = 0;       // the frame is at this register (by its hardware number) + offset
  int64_t offset = 0;
};

// Finds the places near `maker` that destroy a std::unique_ptr to an object with a virtual
// destructor. The pointer lies at `slot` bytes in an object that a register points to (or to the
// end of it). `maker` is the function that fills such a slot: the compiler keeps the functions of
// one source file together. A place that belongs to another class does no harm, because the content
// of the destroyed object shows its class (struct pt_pair_record).
std::vector<FrameEnd> FindFrameEnds(const CodeImage& image, const FunctionRange& maker,
                                    int64_t slot);

}  // namespace proftrace
