// The args of a row of system activity: for the trace and for events.csv.
#pragma once

#include <string>

#include "userspace/model/timeline.h"

namespace proftrace {

// The inside of a JSON object, without braces.
//
// A call: its arguments in their order, under their names in the manual, but for these that all
// calls share: `fd` and `path` (what the call works on: of a call that gives a file, the path is
// the file's), `path2`, `bytes` (asked for), `address` (of a socket), `timeout_ns`, and
// `deadline_ns` where the time is a moment of a clock. A call without time limit has neither.
// Instead of a structure that could be read, its fields: `flags`, `mode` and `resolve` of openat2;
// `flags`, `exit_signal`, `stack` and `stack_size` of clone3; `address` and `msg_iovlen` of sendmsg
// and recvmsg, `bytes` (moved) of sendmmsg and recvmmsg; `value` of ioctls that are about an int. A
// symbolic link's `target` is the text that was given.
// Then `ret`, as the kernel returned it, and `errno` if it is an error; nothing of both of a call
// that never returned. Pointers and bits without names are texts in hex, flags are texts. Arguments
// that the kernel does not look at (the mode of an open that creates nothing) are left out.
//
// Time off the CPU: `run_queue_ns`, `voluntary`, `uninterruptible`, `disk`, `syscall` if it was in
// one, `waker_pid` and `waker_tid` if it was woken by a thread, `from_cpu`, `to_cpu`, `waker_stack`
// (functions, the innermost first, "a < b < main").
// A fault: `address`, `area`, `path` and `offset` of the mapped file, `write`, `in_kernel`.
// A request: `opcode`, `path`, `offset` unless it is the file's position, `bytes`, `user_data`,
// `ret`, `errno`.
std::string SystemArgs(const SystemTables& tables, const SystemEvent& event);
// Returns that text, with the stack of who ended a wait, where there is one.
std::string SystemArgs(const Timeline& timeline, const SystemEvent& event);

}  // namespace proftrace
