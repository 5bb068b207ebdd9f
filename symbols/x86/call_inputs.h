// Says which of an operator's arguments a probe reads, and where: at the entry in the places of the
// calling convention, or later where the function keeps them.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "bpf/abi/records.h"
#include "symbols/x86/kept_arguments.h"

namespace proftrace {

struct CallInputs {
  std::vector<abi::pt_argument> arguments;
  uint16_t first_word = 0;  // see pt_signature
  uint16_t stack_words = 0;
  uint64_t begin = 0;  // see pt_signature
};

// Returns how to read `arguments`, as PlaceArguments() returns them, at the entry. nullopt: they
// take too many words of the stack.
std::optional<CallInputs> InputsAtEntry(std::vector<abi::pt_argument> arguments);

// Returns how to read `arguments` at a later instruction, where the stack pointer is `frame_words`
// words below that of the entry and the arguments lie as `kept` says. nullopt: an argument that
// torch shows is not found there.
std::optional<CallInputs> InputsAtCall(std::vector<abi::pt_argument> arguments,
                                       const KeptArguments& kept, uint32_t frame_words);

}  // namespace proftrace
