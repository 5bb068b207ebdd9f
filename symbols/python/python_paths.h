// The folders that torch.profiler leaves out of the names of Python files.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "symbols/process/process_memory.h"
#include "symbols/python/python_runtime.h"
#include "userspace/model/ids.h"

namespace proftrace {

// Returns what torch/profiler/python_tracer.py, _prefix_regex() gives in the process: each ends
// with "/", and the first one that fits is taken. Reads the variables of the modules sys, site and
// torch; those of them that are not loaded add nothing. Leaves out paths of more than 4096 bytes,
// and what is beyond 16 MiB of sys.path.
std::vector<std::string> ReadPythonPaths(Pid pid, const TargetMemory& memory,
                                         const PythonRuntime& runtime);

// Returns os.path.abspath() of a process whose working directory is `folder`.
std::string AbsolutePythonPath(std::string_view path, std::string_view folder);

}  // namespace proftrace
