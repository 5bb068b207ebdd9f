// Handles a thread that is stopped in a restartable sequence (rseq(2)), such as the code of
// tcmalloc's caches.
#pragma once

#include <sys/user.h>

#include "userspace/inject/writable_memory.h"

namespace proftrace {

// Changes the registers of a thread in such a sequence as the kernel does when it preempts the
// thread: it continues at the sequence's abort handler. The kernel itself would not do that after
// the thread has made a call for us: it forgets the sequence then, and the thread would complete it
// with values it had read before, on whatever processor. Linux 5.13 and later tell where a thread
// keeps its sequence.
void LeaveRestartableSequence(int tid, const WritableMemory& memory, user_regs_struct* registers);

}  // namespace proftrace
