// A thread of a process as one number, for tables.
#pragma once

#include <cstdint>

#include "userspace/model/ids.h"

namespace proftrace {

constexpr uint64_t ThreadKey(Pid pid, Tid tid) { return uint64_t{Raw(pid)} << 32 | Raw(tid); }

}  // namespace proftrace
