// Reads the facts about a process's Python that are needed before it is recorded, in a worker
// without rights.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "bpf/abi/system_records.h"
#include "symbols/python/python_runtime.h"
#include "userspace/model/ids.h"

namespace proftrace {

struct PythonReading {
  PythonRuntime runtime;  // with the place where threads keep their PyThreadState, if it was found
  uint64_t gil = 0;       // the address of the interpreter's lock; 0 = not known
  std::vector<std::string> paths;  // the result of ReadPythonPaths()
  // Where threads keep their PyThreadState: the result of FindPythonStatePlace().
  absl::StatusOr<int32_t> state_place = absl::UnknownError("");
};

// Reads the facts. Fails as FindPythonRuntime() does, and where the worker ended early.
absl::StatusOr<PythonReading> ReadPython(Pid pid);

// Returns the result of AwaitedPythonLock() for each of `waits`; empty: they could not be read.
std::vector<abi::pt_python_lock> FindPythonLocks(Pid pid, const PythonReading& python,
                                                 const std::vector<abi::pt_begun_wait>& waits);

}  // namespace proftrace
