// Writes the args of a row of system activity, for the trace and events.csv.
#pragma once

#include <string>

#include "userspace/model/timeline.h"

namespace proftrace {

// Returns the members of a JSON object, without its braces.
//
// A call has its arguments in their order, under their names in the manual, except for these common
// names: `fd` and `path` (the file that the call works on; for a call that returns a file, that
// file's path), `path2`, `bytes` (asked for), `address` (of a socket), `timeout_ns`, and
// `deadline_ns` where the time is a moment of a clock. A call without a time limit has neither of
// the two. A structure that could be read is replaced by its fields: `flags`, `mode` and `resolve`
// of openat2; `flags`, `exit_signal`, `stack` and `stack_size` of clone3; `address` and
// `msg_iovlen` of sendmsg and recvmsg, `bytes` (moved) of sendmmsg and recvmmsg; `value` of ioctls
// whose argument is an int. A symbolic link's `target` is the text that was passed. Then come
// `ret`, as the kernel returned it, and `errno` if it is an error; a call that never returned has
// neither. Pointers and bits without names are texts in hex, flags are texts. Arguments that the
// kernel does not look at (the mode of an open that creates nothing) are left out.
//
// Time off the CPU has `run_queue_ns`, `voluntary`, `uninterruptible`, `disk`, `syscall` if the
// thread was in one, `waker_pid` and `waker_tid` if a thread woke it, `from_cpu`, `to_cpu`,
// `waker_stack` (functions, the innermost first, "a < b < main"). A fault has `address`, `area`,
// `path` and `offset` of the mapped file, `write`, `in_kernel`. A request has `opcode`, `path`,
// `offset` unless it is the file's position, `bytes`, `user_data`, `ret`, `errno`.
std::string SystemArgs(const SystemTables& tables, const SystemEvent& event);
// Returns the same text, with the stack of the thread that ended a wait where it is known.
std::string SystemArgs(const Timeline& timeline, const SystemEvent& event);

}  // namespace proftrace
