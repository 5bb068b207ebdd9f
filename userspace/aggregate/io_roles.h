// Tells which system calls and io_uring's requests open, read or write files, pipes and sockets,
// and how many bytes they moved.
#pragma once

#include <cstdint>

#include "userspace/model/system_event.h"

namespace proftrace {

enum class IoRole : uint8_t {
  kNone = 0,  // everything else
  kOpen = 1,  // returns a file by its path
  kRead = 2,
  kWrite = 3,
  kMove = 4,  // reads one file and writes another one (sendfile)
};

struct IoFacts {
  IoRole role = IoRole::kNone;
  // Moved, as the kernel returned them; 0 where the call failed or never returned.
  int64_t bytes = 0;
};

// Returns the role and bytes of a call or a request; kNone and 0 for any other event. recvmmsg and
// sendmmsg return how many messages they moved, so their bytes are looked up in `tables`. May be
// called from any thread.
IoFacts IoOf(const SystemTables& tables, const SystemEvent& event);

// Returns whether the event is I/O of files or of the network: a call of such a class, or a
// request.
bool IsIo(const SystemEvent& event);

// Returns whether a call or a request failed. Calls that never returned did not fail.
bool HasFailed(const SystemEvent& event);

}  // namespace proftrace
