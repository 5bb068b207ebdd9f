// Finds where a function keeps its arguments at a later instruction: compiled code moves those that
// it needs after a call into registers that calls leave alone, or into its frame. They are followed
// byte by byte along every path to it, so what is found holds whichever path was taken.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "symbols/x86/flow_graph.h"

namespace proftrace {

// Bytes of an argument register, as they were at the entry, that lie side by side.
struct KeptPiece {
  // Numbers of sources: before kVectorSource as in enum pt_register, from it on xmm0 … xmm7, then
  // the words that the addresses in the general registers point to.
  static constexpr uint8_t kVectorSource = 6;
  static constexpr uint8_t kPointeeSource = 14;
  static constexpr uint8_t kSources = 20;

  uint8_t source = 0;
  uint8_t first = 0;  // its first byte; 0 = the lowest
  uint8_t count = 0;
  bool in_frame = false;
  // In the frame: bytes from the stack pointer there. Else 8 × the hardware number of a register,
  // plus the byte in it.
  int16_t place = 0;

  bool operator==(const KeptPiece&) const = default;
};

struct KeptArguments {
  std::vector<KeptPiece> pieces;  // by source, then by first byte; no byte twice
  // How many words of the arguments on the stack (from the one above the return address on) are as
  // the caller left them.
  uint16_t stack_words = 0;

  // Returns where bytes [first, first + count) of a source are.
  std::optional<KeptPiece> Find(uint8_t source, unsigned first, unsigned count) const;
};

// Returns what is kept at the instruction `node`. Assumes what compilers keep to: a store through a
// pointer that does not come from the frame does not change the frame's own copies.
KeptArguments FindKeptArguments(const FlowGraph& graph, uint32_t node);

}  // namespace proftrace
