// All calls to a few functions, found by one pass over the machine code of a file.
#pragma once

#include <cstdint>
#include <vector>

#include "symbols/elf_file.h"

namespace proftrace {

struct CallSite {
  uint64_t address = 0;  // of the call or jmp instruction
  uint64_t target = 0;   // the member of `targets`
};

// `targets`: addresses of functions, PLT stubs, and GOT slots (for `call *slot(%rip)`). Finds call
// rel32, jmp rel32 and both indirect forms at any byte: a match in the middle of another
// instruction is possible, though one in 2^32; users decode. After `limit_ns` of processor time
// what is left is not scanned.
struct FoundCalls {
  std::vector<CallSite> sites;
  size_t left_out = 0;  // sections that are too large
  bool is_cut = false;  // there was no time for all
};
FoundCalls FindCalls(const ElfFile& file, const std::vector<uint64_t>& targets, int64_t limit_ns);

// The same over a buffer that lies at `address`. Appends to `sites`; only instructions that begin
// before `begin_limit` bytes.
void ScanBuffer(const uint8_t* bytes, size_t count, size_t begin_limit, uint64_t address,
                const std::vector<uint64_t>& targets, std::vector<CallSite>* sites);

}  // namespace proftrace
