// Loads a library into a running process and has one of its functions called there, at a safe
// point: by a thread of the process itself that comes by the entry of one of the functions named,
// where it holds neither the allocator's locks nor the loader's. No thread is diverted anywhere
// else. The closest peer calls dlopen from wherever a thread happens to be, and hung 20 of 20
// training jobs that way.
//
// What it does to the process, each taken back at the end or when it goes wrong: a mapping of its
// own near the code, a jump in the entry of each safe point (all threads are stopped while it is
// written: milliseconds), a memfd with the library. Should proftrace be killed anywhere in
// between, the process goes on: stopped threads are let go by the kernel, a thread that was making
// system calls for us returns by itself, a jump that stays leads to code that does nothing after
// its first time, and the next injection takes it away.
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "userspace/inject/loader_places.h"
#include "userspace/model/ids.h"

namespace proftrace {

// An exported function whose callers hold no lock of libc when they enter it.
using SafePoint = FunctionName;

// Returns what every operator and every CUDA launch of a PyTorch job calls first.
std::vector<SafePoint> TorchSafePoints();

struct InjectionRequest {
  Pid pid{};
  std::string library;       // the file's bytes
  std::string library_name;  // of the memfd, seen in /proc/PID/maps: one a build of the library
  std::string function;      // exported by it: int f(void)
  std::vector<SafePoint> safe_points = TorchSafePoints();
  // How long a thread may take to come by, unless `is_cancelled` is set; then how long the function
  // may take to return.
  int64_t arrival_limit_ns = 5'000'000'000;
  const std::atomic<bool>* is_cancelled = nullptr;
  int64_t work_limit_ns = 10'000'000'000;
};

struct InjectionReport {
  int32_t result = 0;           // what the function returned
  int64_t longest_stop_ns = 0;  // from the first thread's interrupt until all go on
  int64_t longest_wait_ns = 0;  // of that: until the last thread stood still
  int64_t total_ns = 0;
  uint32_t stops = 0;      // of all threads: two when nothing was in the way
  uint32_t leftovers = 0;  // of killed injections, taken away before
};

// Fails with one sentence; the process is then as it was, but where the sentence says what stays in
// it.
absl::StatusOr<InjectionReport> InjectLibrary(const InjectionRequest& request);

// Whether it could be done to the process now, as far as that can be told without stopping it: not
// what its seccomp filters allow.
absl::Status CheckInjection(Pid pid);

}  // namespace proftrace
