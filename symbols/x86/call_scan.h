// Finds all calls to a few functions, by one pass over the machine code of a file.
#pragma once

#include <cstdint>
#include <vector>

#include "symbols/elf/elf_file.h"

namespace proftrace {

struct CallSite {
  uint64_t address = 0;  // of the call or jmp instruction
  uint64_t target = 0;   // the member of `targets`
};

// What FindCalls() has found. `targets`: addresses of functions, PLT stubs, and GOT slots (for
// `call *slot(%rip)`). Call rel32, jmp rel32 and both indirect forms are found at any byte: one
// match in 2^32 may lie in the middle of another instruction, so users decode. Code that is not
// reached in `limit_ns` of processor time is not scanned.
struct FoundCalls {
  std::vector<CallSite> sites;
  size_t left_out = 0;  // sections that are too large
  bool is_cut = false;  // there was no time for all
};
FoundCalls FindCalls(const ElfFile& file, const std::vector<uint64_t>& targets, int64_t limit_ns);

// Scans a buffer that lies at `address`. Appends to `sites` the calls that begin in the first
// `begin_limit` bytes.
void ScanBuffer(const uint8_t* bytes, size_t count, size_t begin_limit, uint64_t address,
                const std::vector<uint64_t>& targets, std::vector<CallSite>* sites);

}  // namespace proftrace
