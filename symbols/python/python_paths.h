// Finds the folders that torch.profiler leaves out of the names of Python files.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "symbols/process/process_memory.h"
#include "symbols/python/python_runtime.h"
#include "userspace/model/ids.h"

namespace proftrace {

// Returns the prefixes that _prefix_regex() in torch/profiler/python_tracer.py would use in the
// process. Each ends with "/", and the first that fits a file's name must be taken. Reads the
// variables of the modules sys, site and torch; a module that is not loaded adds nothing. Leaves
// out paths of more than 4096 bytes, and everything after 16 MiB of sys.path.
std::vector<std::string> ReadPythonPaths(Pid pid, const TargetMemory& memory,
                                         const PythonRuntime& runtime);

// Returns the result of os.path.abspath(path) in a process whose working directory is `folder`.
std::string AbsolutePythonPath(std::string_view path, std::string_view folder);

}  // namespace proftrace
