// What is to be known of a process's Python before it is recorded, read by a worker without rights.
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
  PythonRuntime runtime;           // with the place where threads keep their state, if it was found
  uint64_t gil = 0;                // the address of the interpreter's lock; 0 = not known
  std::vector<std::string> paths;  // as ReadPythonPaths()
  // Where threads keep their PyThreadState, as FindPythonStatePlace() has it.
  absl::StatusOr<int32_t> state_place = absl::UnknownError("");
};

// Fails as FindPythonRuntime() does, or where the worker ended early.
absl::StatusOr<PythonReading> ReadPython(Pid pid);

// Returns for each of them what AwaitedPythonLock() does; empty: that could not be read.
std::vector<abi::pt_python_lock> FindPythonLocks(Pid pid, const PythonReading& python,
                                                 const std::vector<abi::pt_begun_wait>& waits);

}  // namespace proftrace
