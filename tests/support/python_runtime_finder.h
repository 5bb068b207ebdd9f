// The CPython of a process that a test started.
#pragma once

#include <absl/status/statusor.h>

#include "symbols/process/process_maps.h"
#include "symbols/python/python_runtime.h"
#include "tests/support/python_process.h"

namespace proftrace {

inline Pid PidOf(const PythonProcess& process) { return Pid{static_cast<uint32_t>(process.pid())}; }

inline absl::StatusOr<PythonRuntime> FindPythonOf(Pid pid) {
  const auto mappings = ReadMaps(pid);
  if (!mappings.ok()) return mappings.status();
  return FindPythonRuntime(pid, ProcessMemory(pid), GroupByFile(*mappings));
}

}  // namespace proftrace
