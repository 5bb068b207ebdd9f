// Handles a thread that is stopped in a restartable sequence (rseq(2)), such as the code of
// tcmalloc's caches.
#pragma once

#include <sys/user.h>

#include "userspace/inject/writable_memory.h"

namespace proftrace {

// Changes the registers of a thread in such a sequence as the kernel does when it preempts the
// thread: it continues at the sequence's abort handler. The kernel itself would not do that after
// the thread has made a call for us, because the kernel forgets the sequence then. The thread would
// complete the sequence with values that it had read before, on whatever processor. Linux 5.13 and
// later tell where a thread keeps its sequence; on older kernels nothing is changed.
void LeaveRestartableSequence(int tid, const WritableMemory& memory, user_regs_struct* registers);

}  // namespace proftrace
