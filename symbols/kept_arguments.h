// Where a function keeps its arguments at a later instruction of it: compiled code moves those that
// it needs after a call into registers that calls leave alone, or into its frame. Followed byte by
// byte along every way that leads there, so what is found holds whichever way was taken.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "symbols/flow_graph.h"

namespace proftrace {

// Bytes of an argument register, as it was at the entry, that lie side by side.
struct KeptPiece {
  // Before kVectorSource as enum pt_register, from it on xmm0 … xmm7; then the words that the
  // addresses in the general registers point to.
  static constexpr uint8_t kVectorSource = 6;
  static constexpr uint8_t kPointeeSource = 14;
  static constexpr uint8_t kSources = 20;

  uint8_t source = 0;
  uint8_t first = 0;  // of its bytes; 0 = the lowest
  uint8_t count = 0;
  bool in_frame = false;
  // In the frame: bytes from the stack pointer there. Else 8 × the hardware number of a register,
  // and the byte in it.
  int16_t place = 0;

  bool operator==(const KeptPiece&) const = default;
};

struct KeptArguments {
  std::vector<KeptPiece> pieces;  // by source, then by first byte; no byte twice
  // So many words of the arguments on the stack (from the one above the return address on) are as
  // the caller left them.
  uint16_t stack_words = 0;

  // Where bytes [first, first + count) of a source are.
  std::optional<KeptPiece> Find(uint8_t source, unsigned first, unsigned count) const;
};

// At the instruction `node`. Assumes of the code what compilers keep to: a store through a pointer
// that does not come from the frame does not change the frame's own copies.
KeptArguments FindKeptArguments(const FlowGraph& graph, uint32_t node);

}  // namespace proftrace
