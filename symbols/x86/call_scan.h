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

// The result of FindCalls(). `targets` are addresses of functions, PLT stubs, and GOT slots (for
// `call *slot(%rip)`). Call rel32, jmp rel32 and both indirect forms are looked for at every byte.
// One match in 2^32 may lie in the middle of another instruction, so that users must decode the
// code around. Code that is not reached in `limit_ns` of processor time is not scanned.
struct FoundCalls {
  std::vector<CallSite> sites;
  size_t left_out = 0;  // how many sections were left out because they are too large
  bool is_cut = false;  // the time was over before all code was scanned
};
FoundCalls FindCalls(const ElfFile& file, const std::vector<uint64_t>& targets, int64_t limit_ns);

// Scans a buffer that lies at `address`. Appends to `sites` the calls that begin in the first
// `begin_limit` bytes.
void ScanBuffer(const uint8_t* bytes, size_t count, size_t begin_limit, uint64_t address,
                const std::vector<uint64_t>& targets, std::vector<CallSite>* sites);

}  // namespace proftrace
