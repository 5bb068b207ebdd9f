// Whether a process runs the code of its files: after jumps were taken out of it, and for `doctor`.
#pragma once

#include <absl/status/statusor.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "userspace/model/ids.h"

namespace proftrace {

struct CodeAudit {
  // Places that differ from their file, where neither a breakpoint (0xcc) nor a jump to memory of
  // the process's own explains it: a thread that comes there runs into something that is no code.
  size_t torn = 0;
  std::string first_file;  // of the first of them; its path comes from the target
  uint64_t first_offset = 0;
  size_t breakpoints = 0;  // uprobes, or a debugger's
  size_t jumps = 0;        // to memory of the process's own: a debugger's or a hooking library's
};

// Compares the pages of code that the process has made its own with their files. Reads only; a page
// that cannot be read is passed over. Fails where the process's map cannot be read (kNoTarget,
// kNotPermitted).
absl::StatusOr<CodeAudit> AuditCode(Pid pid);

// Checks the code: OK where nothing is torn; else a sentence that says where, and what to do.
absl::Status CheckCode(Pid pid);

}  // namespace proftrace
