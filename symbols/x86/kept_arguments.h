// Finds where a function keeps its arguments at a later instruction. Compiled code moves arguments
// that it needs after a call into registers that calls do not change, or into its frame. The
// arguments are followed byte by byte along every path to the instruction, so that the result is
// right whichever path was taken.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "symbols/x86/flow_graph.h"

namespace proftrace {

// Bytes of a source, as they were at the entry, that lie side by side now.
struct KeptPiece {
  // The numbers of sources: first the general registers as in enum pt_register, from kVectorSource
  // on xmm0 … xmm7, then the words to which the addresses in the general registers point.
  static constexpr uint8_t kVectorSource = 6;
  static constexpr uint8_t kPointeeSource = 14;
  static constexpr uint8_t kSources = 20;

  uint8_t source = 0;
  uint8_t first = 0;  // the number of the first byte in the source; 0 = the lowest
  uint8_t count = 0;
  bool in_frame = false;
  // In the frame: the distance from the stack pointer at the instruction, in bytes. Else 8 × the
  // hardware number of a register, plus the number of the byte in it.
  int16_t place = 0;

  bool operator==(const KeptPiece&) const = default;
};

struct KeptArguments {
  std::vector<KeptPiece> pieces;  // ordered by source and first byte; no byte is in two pieces
  // How many words of the arguments on the stack, from the first above the return address on, are
  // as the caller left them.
  uint16_t stack_words = 0;

  // Returns where the bytes [first, first + count) of a source are; nullopt: they are not kept side
  // by side.
  std::optional<KeptPiece> Find(uint8_t source, unsigned first, unsigned count) const;
};

// Returns the arguments that are kept at the instruction `node`. Assumes, as is true of compiled
// code, that a store through a pointer which does not come from the frame does not change the
// frame's own copies.
KeptArguments FindKeptArguments(const FlowGraph& graph, uint32_t node);

}  // namespace proftrace
