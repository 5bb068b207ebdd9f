// What is written into a recording about a process and its threads.
#pragma once

#include <vector>

#include "userspace/model/ids.h"
#include "userspace/model/recording.h"
#include "userspace/wire/metadata.h"

namespace proftrace {

// What /proc says. A process that has gone by now has only its pid.
Target DescribeProcess(Pid pid);

// Its living threads with their names.
std::vector<ThreadEntry> ReadThreads(Pid pid);

// Its living children, their children, and so on.
std::vector<Pid> ReadDescendants(Pid pid);

// Whether it maps a file that may be libtorch: cheap, to be asked often.
bool HasTorch(Pid pid);

}  // namespace proftrace
