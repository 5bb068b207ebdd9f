// Reads the Python stacks of a process's threads from outside. A stack is certain to be right only
// if the thread does not run, because a running thread changes its frames while they are read.
// Every walk is bounded, whatever the memory holds.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "symbols/process/process_memory.h"
#include "symbols/python/python_layout.h"

namespace proftrace {

struct PythonStackFrame {
  uint64_t code = 0;  // the address of its code object
  // The number of the running instruction, in units of two bytes. Negative as an int32_t: the frame
  // has not begun.
  uint32_t instruction = 0;

  bool operator==(const PythonStackFrame&) const = default;
};

struct PythonThread {
  uint64_t state = 0;      // the address of its PyThreadState
  uint64_t thread_id = 0;  // pthread_self(): the base of its segment fs; 0 = not started yet
  // Its id in its own PID namespace; 0 = not known. Up to 3.10 it is read from glibc's struct
  // pthread, and may be any number with another C library
  uint32_t native_id = 0;
  uint64_t interpreter = 0;  // the number of its interpreter; 0 = the main one
  uint64_t gil = 0;          // the address of its interpreter's lock
  bool has_gil = false;
  std::vector<PythonStackFrame> frames;  // innermost first
  bool is_cut = false;                   // there are more frames, which were not read
  bool failed = false;                   // a frame further out could not be read
};

struct PythonThreads {
  std::vector<PythonThread> threads;
  uint32_t interpreters = 0;
  uint64_t main_interpreter = 0;  // the address of the PyInterpreterState with number 0
  bool is_whole = true;  // false: a list was longer than the limits allow, or could not be read
};

// Words of a code object, to recognise it later: as long as they are the same, so is the code
// object.
struct PythonCodeWords {
  uint64_t type = 0;
  uint64_t file = 0;  // str objects
  uint64_t name = 0;
  uint64_t qualified_name = 0;
  uint64_t lines = 0;  // a bytes object
  int32_t first_line = 0;

  bool operator==(const PythonCodeWords&) const = default;
};

struct PythonCodeFacts {
  std::string file;
  std::string name;
  std::string qualified_name;  // before 3.11 the same as `name`
  int32_t first_line = 0;
  std::vector<uint8_t> lines;  // co_linetable, or co_lnotab (3.9)
};

// The offset of `tid` in glibc's struct pthread on x86-64, behind 704 bytes and a list (checked for
// 2.35 and 2.36). `tid` is 0 when the thread has ended. The first word of a struct pthread is its
// own address, in every C library.
inline constexpr uint64_t kPthreadTid = 720;

struct PythonLimits {
  size_t threads = 65536;
  size_t frames = 4096;  // the most frames of one thread, the innermost ones
  size_t frames_in_all = 1'000'000;
};

// Reads all threads. `layout.stack.interpreters` must be set.
PythonThreads ReadPythonThreads(const TargetMemory& memory, const PythonLayout& layout,
                                const PythonLimits& limits);

std::optional<PythonCodeWords> ReadPythonCodeWords(const TargetMemory& memory,
                                                   const PythonLayout& layout, uint64_t address);

// Reads a code object; nullopt: there is none at `address`. Cuts names at PT_PYTHON_NAME_BYTES, and
// leaves out a table of lines with more than PT_PYTHON_LINES_BYTES.
std::optional<PythonCodeFacts> ReadPythonCode(const TargetMemory& memory,
                                              const PythonLayout& layout, uint64_t address);

}  // namespace proftrace
