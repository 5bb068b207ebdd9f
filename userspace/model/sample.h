// Samples (--sample): what threads did at regular moments, running or not, with the frames of
// Python and of C that ran then. Stacks of wakers (--waker-stacks) have their frames here, too.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "userspace/model/ids.h"

namespace proftrace {

enum class SampleFrameKind : uint8_t {
  kPython = 0,
  kNative = 1,
  kKernel = 2,  // a system call
};

struct SampleFunction {
  Pid pid{};
  SampleFrameKind kind = SampleFrameKind::kPython;
  // co_name; co_name of a Python function; the demangled name of a C++ function, without
  // parameters; the name of a system call. Empty where the file has no symbol there.
  std::string name;
  std::string file;        // Python: as PythonCode::file; native code: the path
  int32_t first_line = 0;  // only of a Python function
  // The file of a Python function lies in a folder of the standard library or of installed
  // packages.
  bool is_installed = false;
};

// A node of the tree of frames. Its parent is the frame that called it and has a smaller number.
// The first node means nothing.
struct SampleFrame {
  uint32_t parent = 0;  // 0: it is the outermost
  uint32_t function = 0;
  int32_t line = 0;  // the running line; 0 = not known
};

enum class SampleState : uint8_t {
  kRunning = 0,
  kRunnable = 1,  // it waits for a CPU
  kSleeping = 2,
  kUninterruptible = 3,  // it sleeps, and no signal wakes it
  kStopped = 4,          // by a signal or a debugger
};

// `count` looks at a thread that all found the same: one every `period_ns`, the first at `time_ns`.
struct Sample {
  int64_t time_ns = 0;  // CLOCK_MONOTONIC
  int64_t period_ns = 0;
  uint32_t count = 0;
  uint32_t frame = 0;     // the innermost one; 0 = nothing could be read
  SpanId span = kNoSpan;  // the innermost span that was open on the thread
  ThreadIndex thread{};
  int32_t call = -1;  // the system call that the thread was in; -1 = none
  SampleState state = SampleState::kRunning;
  bool native_cut = false;  // native frames end before the outermost one
  bool python_cut = false;  // Python frames end before the outermost one
};

struct Samples {
  std::vector<SampleFunction> functions;
  std::vector<SampleFrame> frames = std::vector<SampleFrame>(1);
  std::vector<Sample> samples;  // in order of time
};

}  // namespace proftrace
