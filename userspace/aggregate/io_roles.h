// Tells what system calls and io_uring's requests do with bytes: opens, reads and writes of files,
// pipes and sockets, and how many bytes they moved.
#pragma once

#include <cstdint>

#include "userspace/model/system_event.h"

namespace proftrace {

enum class IoRole : uint8_t {
  kNone = 0,  // everything else
  kOpen = 1,  // gives a file by its path
  kRead = 2,
  kWrite = 3,
  kMove = 4,  // both, from one file to another (sendfile)
};

struct IoFacts {
  IoRole role = IoRole::kNone;
  int64_t bytes = 0;  // moved, as the kernel returned them; 0 of one that failed or never returned
};

// Returns the role and bytes of a call or a request; kNone and 0 for any other event. recvmmsg and
// sendmmsg return how many messages they moved: their bytes are those that `tables` have. From any
// thread.
IoFacts IoOf(const SystemTables& tables, const SystemEvent& event);

// Whether the event is I/O of files or of the network: a call of that class, or a request.
bool IsIo(const SystemEvent& event);

// Whether a call or a request failed. One that never returned did not.
bool HasFailed(const SystemEvent& event);

}  // namespace proftrace
