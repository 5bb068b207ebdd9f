// Loads a library into a running process and has one of its functions called there, at a safe
// point: by a thread of the process itself when it enters one of the named functions, where it
// holds neither the allocator's locks nor the loader's. No thread is diverted at any other place.
// The closest peer calls dlopen from wherever a thread happens to be, and hung 20 of 20 training
// jobs that way.
//
// Three things are done to the process, and each is undone at the end or on an error (only the
// loaded library stays): a mapping is made near the code, a jump is written behind the first
// instruction of each safe point (all threads are stopped meanwhile, for milliseconds), and a memfd
// holds the library. If proftrace is killed at any moment, the process goes on: the kernel lets
// stopped threads go, a thread that was making system calls for us returns by itself, a jump that
// stays leads to code that does nothing after its first time, and the next injection takes the jump
// away.
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

// Returns the function that every operator of a PyTorch job calls first, and frequent calls of the
// CUDA Runtime and Driver.
std::vector<SafePoint> TorchSafePoints();

struct InjectionRequest {
  Pid pid{};
  std::string library;  // the bytes of its file
  // The memfd's name in /proc/PID/maps, another one for each build of the library.
  std::string library_name;
  std::string function;  // exported by it: int f(void)
  std::vector<SafePoint> safe_points = TorchSafePoints();
  // How long to wait until a thread comes by. Setting `is_cancelled` (may be null) ends that wait.
  int64_t arrival_limit_ns = 5'000'000'000;
  const std::atomic<bool>* is_cancelled = nullptr;
  int64_t work_limit_ns = 10'000'000'000;  // how long the function may take to return
};

struct InjectionReport {
  int32_t result = 0;           // what the function returned
  int64_t longest_stop_ns = 0;  // from the first thread's interrupt until all go on
  int64_t longest_wait_ns = 0;  // the part of that until the last thread stood still
  int64_t total_ns = 0;
  // How often all threads were stopped. It is three times at least: for the jumps, for taking them
  // away, and for unmapping the region.
  uint32_t stops = 0;
  uint32_t leftovers = 0;  // injections that were killed, whose parts were taken away before
};

// Loads the library and has the function called. Fails with one sentence; the process is then as it
// was, unless the sentence says what stays in it.
absl::StatusOr<InjectionReport> InjectLibrary(const InjectionRequest& request);

// Checks whether an injection is possible now, as far as that can be told without stopping a
// thread. Seccomp filters are not checked.
absl::Status CheckInjection(Pid pid);

}  // namespace proftrace
