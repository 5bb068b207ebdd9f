// The CPython of a process: where it is, its version, and how its objects lie, checked on what
// runs.
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
  PythonLayout layout;            // `layout.stack` is ready for the BPF programs
  std::string version;            // "3.11.7"; "3.10" where only that is known; "3.14.7t" where it
                                  // is a free-threaded build
  std::string file;               // the file that has it, as /proc/PID/maps names it
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
  bool is_free_threaded = false;  // by its name ("libpython3.13t.so")
};

// In processor time: a CPython takes some milliseconds, files that are made to take long seconds
// each.
constexpr int64_t kLongestPythonSearchNs = 10'000'000'000;

// The places of the symbol _PyRuntime in the files of a process: those named python first; the
// others are only looked into when there is none.
struct PythonPlaces {
  std::vector<PythonPlace> places;
  size_t left = 0;  // files for which there was no time
};
PythonPlaces FindPythonPlaces(Pid pid, const TargetMemory& memory,
                              const std::vector<MappedFile>& files,
                              int64_t limit_ns = kLongestPythonSearchNs);

// Reads the layout there is at `place` and checks it on a thread's frames, several times: threads
// that run change them meanwhile. FailedPrecondition: this version or build is not supported, or
// what lies there does not fit it; the message says which.
absl::StatusOr<PythonRuntime> ConfirmPython(const TargetMemory& memory, const PythonPlace& place);

// Does both and returns the first place that is confirmed. NotFound: no file of the process is a
// CPython's; FailedPrecondition: as above, for the first place; DeadlineExceeded: it took longer
// than `limit_ns`.
absl::StatusOr<PythonRuntime> FindPythonRuntime(Pid pid, const TargetMemory& memory,
                                                const std::vector<MappedFile>& files,
                                                int64_t limit_ns = kLongestPythonSearchNs);

// Returns the version that a name like "libpython3.13t.so.1.0" or "python3.11" says; 0 = none.
// `is_free_threaded`: the name has the t of such builds.
uint32_t PythonVersionOfName(std::string_view name, bool* is_free_threaded);

// Whether one of the interpreters among `files` is a free-threaded build, by its name or by what it
// says of itself (_Py_DebugOffsets): its objects have a longer head.
bool IsFreeThreadedPython(Pid pid, const TargetMemory& memory,
                          const std::vector<MappedFile>& files);

}  // namespace proftrace
