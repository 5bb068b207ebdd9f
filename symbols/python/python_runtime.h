// Finds the CPython of a process: its place, its version and the layout of its objects, which is
// checked on the frames of running threads.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <string>
#include <vector>

#include "symbols/process/process_maps.h"
#include "symbols/process/process_memory.h"
#include "symbols/python/python_layout.h"

namespace proftrace {

struct PythonRuntime {
  PythonLayout layout;  // complete, so that `layout.stack` can be given to the BPF programs
  // "3.11.7"; "3.10" where no more is known; "3.14.7t" for a free-threaded build
  std::string version;
  std::string file;               // the file that contains it, as /proc/PID/maps names it
  uint64_t address = 0;           // of _PyRuntime
  uint32_t interpreters = 0;      // more than one: there are subinterpreters
  uint64_t main_interpreter = 0;  // PyInterpreterState
};

// A place where a CPython may be.
struct PythonPlace {
  uint64_t runtime = 0;  // the address of _PyRuntime
  uint32_t version = 0;  // 0x030b = 3.11; 0 = not known
  std::string version_text;
  std::string file;
  bool is_free_threaded = false;  // the file's name says so ("libpython3.13t.so")
};

// The limit of processor time. A CPython takes some milliseconds to find; files that are made to
// take long take seconds each.
constexpr int64_t kLongestPythonSearchNs = 10'000'000'000;

// The places of the symbol _PyRuntime in the files of a process. Files whose names begin with
// "python" or "libpython" are searched first, the others only where these have none.
struct PythonPlaces {
  std::vector<PythonPlace> places;
  size_t left = 0;  // how many files were left out for want of time
};
PythonPlaces FindPythonPlaces(Pid pid, const TargetMemory& memory,
                              const std::vector<MappedFile>& files,
                              int64_t limit_ns = kLongestPythonSearchNs);

// Reads the layout at `place` and checks it on the frames of threads. Tries several times, because
// running threads change their frames meanwhile. Fails with FailedPrecondition where this version
// or build is not supported, or where no thread's frames fit the layout; the message says which.
absl::StatusOr<PythonRuntime> ConfirmPython(const TargetMemory& memory, const PythonPlace& place);

// Does both, and returns the first place that is confirmed. Fails with NotFound where no file of
// the process has a CPython, with FailedPrecondition as ConfirmPython() does for the first place,
// and with DeadlineExceeded where the search took longer than `limit_ns`.
absl::StatusOr<PythonRuntime> FindPythonRuntime(Pid pid, const TargetMemory& memory,
                                                const std::vector<MappedFile>& files,
                                                int64_t limit_ns = kLongestPythonSearchNs);

// Returns the version in a name like "libpython3.13t.so.1.0" or "python3.11"; 0 = it has none.
// `is_free_threaded`: whether the name has the "t" of such builds.
uint32_t PythonVersionOfName(std::string_view name, bool* is_free_threaded);

// Whether one of the interpreters among `files` is a free-threaded build, by its name or by its
// _Py_DebugOffsets. Objects of such builds have a longer head.
bool IsFreeThreadedPython(Pid pid, const TargetMemory& memory,
                          const std::vector<MappedFile>& files);

}  // namespace proftrace
