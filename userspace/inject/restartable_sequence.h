// A thread that is stopped in a restartable sequence (rseq(2): tcmalloc's caches are such code).
#pragma once

#include <sys/user.h>

#include "userspace/inject/writable_memory.h"

namespace proftrace {

// Does to the registers of a thread in such a sequence what the kernel does when it preempts one:
// it goes on at the sequence's abort handler. The kernel itself would not, once the thread has been
// elsewhere for a call of ours: it forgets the sequence then, and the thread would end it with what
// it had read before, on whatever processor. Linux 5.13 and later tell where a thread keeps it.
void LeaveRestartableSequence(int tid, const WritableMemory& memory, user_regs_struct* registers);

}  // namespace proftrace
