// Memory that another process has made as a file without a name (memfd), and that we read or write,
// too. The other process can put another file, even one of a third process, behind a descriptor
// number at any moment. Where the file can shrink, whoever has it mapped gets SIGBUS. So the
// descriptor is copied once, and the copy is checked before a byte is written or mapped.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "userspace/base/unique_fd.h"

namespace proftrace {

// Returns a copy of the process's descriptor `number` (pidfd_getfd(2)). Where we may not make that
// call and the descriptor is a memfd, opens the file anew instead. Invalid: errno says why.
UniqueFd CopyDescriptor(uint32_t pid, int number);

struct MemoryRules {
  // The name that the memfd was made with; where `is_prefix`, the begin of that name
  std::string_view name;
  bool is_prefix = false;
  int needed_seals = 0;     // F_SEAL_… that the file must have
  int forbidden_seals = 0;  // F_SEAL_… that the file must not have
  uint64_t least_bytes = 0;
  uint64_t most_bytes = 0;
};

// Returns why the file of `fd` does not keep the rules ("could become smaller"), or an empty text
// where it does: it is a memfd of ordinary memory, open for reading and writing, with the name, the
// seals and the size that `rules` ask for.
std::string WhyNotMemory(int fd, const MemoryRules& rules);

}  // namespace proftrace
