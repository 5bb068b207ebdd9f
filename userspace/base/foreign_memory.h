// Memory that another process has made as a file without a name (memfd), and that we read or write,
// too. The other process can exchange what a number stands for, at any moment, for another file,
// one of another process among them; and where a file can shrink, whoever has it mapped gets
// SIGBUS. So the descriptor is copied once, and looked at before a byte is written or mapped.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "userspace/base/unique_fd.h"

namespace proftrace {

// Returns a copy of what the process has open under `number` (pidfd_getfd(2)); where that call is
// not allowed to us, and it is a memfd, the file opened anew. Invalid: errno says why not.
UniqueFd CopyDescriptor(uint32_t pid, int number);

struct MemoryRules {
  std::string_view name;  // that it was made with; of `is_prefix`: what that begins with
  bool is_prefix = false;
  int needed_seals = 0;     // F_SEAL_…: it must have these
  int forbidden_seals = 0;  // and none of these
  uint64_t least_bytes = 0;
  uint64_t most_bytes = 0;
};

// "could become smaller": why it is not what it should be; empty where it is: a file of ordinary
// memory without a name in any directory, open for reading and writing, of the name, with the seals
// and of the size.
std::string WhyNotMemory(int fd, const MemoryRules& rules);

}  // namespace proftrace
