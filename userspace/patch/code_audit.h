// Compares the code that a process runs with its files: after jumps were taken out of the process,
// and for `doctor`.
#pragma once

#include <absl/status/statusor.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "userspace/model/ids.h"

namespace proftrace {

struct CodeAudit {
  // The number of places that differ from their file, where neither a breakpoint (0xcc) nor a jump
  // to the process's own memory explains the difference. A thread that comes there runs into bytes
  // that are no code.
  size_t torn = 0;
  std::string first_file;     // the file of the first torn place; the path comes from the target
  uint64_t first_offset = 0;  // of the first torn place in its file, in bytes
  size_t breakpoints = 0;     // set by uprobes, or by a debugger
  size_t jumps = 0;  // jumps to the process's own memory, of a debugger or a hooking library
};

// Compares the pages of code that the process has made its own with their files. Reads only; a page
// that cannot be read is passed over. Fails where the process's map cannot be read (kNoTarget,
// kNotPermitted).
absl::StatusOr<CodeAudit> AuditCode(Pid pid);

// Returns OK if no place is torn. Otherwise fails with a sentence that says where the first torn
// place is, and what to do.
absl::Status CheckCode(Pid pid);

}  // namespace proftrace
