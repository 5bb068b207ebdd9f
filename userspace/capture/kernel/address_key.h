// The key of the BPF programs' maps whose entries are for an address in a process.
#pragma once

#include <cstdint>

namespace proftrace {

// Has the layout of struct address_key (bpf/shared/registers.bpf.h).
struct AddressKey {
  uint64_t address;
  uint64_t tgid;
};

}  // namespace proftrace
