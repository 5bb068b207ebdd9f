// The Python stacks of a process's threads, read from outside. They are sure to be right only for
// threads that stand still: a running one changes its frames while they are read. Everything is
// bounded, whatever the memory holds.
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
  // The number of the instruction that runs, in units of two bytes; negative as an int32_t: the
  // frame has not begun.
  uint32_t instruction = 0;

  bool operator==(const PythonStackFrame&) const = default;
};

struct PythonThread {
  uint64_t state = 0;        // the address of its PyThreadState
  uint64_t thread_id = 0;    // pthread_self(): the base of its segment fs; 0 = not started yet
  uint32_t native_id = 0;    // its id in its own PID namespace, up to 3.10 as glibc has it, and
                             // with another C library any number; 0 = not known
  uint64_t interpreter = 0;  // its number; 0 = the main one
  uint64_t gil = 0;          // where its interpreter's lock is
  bool has_gil = false;
  std::vector<PythonStackFrame> frames;  // innermost first
  bool is_cut = false;                   // there are more frames further out
  bool failed = false;                   // further out something could not be read
};

struct PythonThreads {
  std::vector<PythonThread> threads;
  uint32_t interpreters = 0;
  uint64_t main_interpreter = 0;  // the address of the PyInterpreterState with number 0
  bool is_whole = true;           // false: a list had no end, or could not be read
};

// What a code object consists of, for a look at it later: as long as these words are the same, it
// is the same code object.
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

// In glibc's struct pthread on x86-64 (2.35 and 2.36 were looked at): `tid`, behind 704 bytes and a
// list; 0 when the thread has ended. Its first word is its own address, in every C library.
inline constexpr uint64_t kPthreadTid = 720;

struct PythonLimits {
  size_t threads = 65536;
  size_t frames = 4096;  // of one thread, innermost ones
  size_t frames_in_all = 1'000'000;
};

// Reads all threads. `layout.stack.interpreters` must be set.
PythonThreads ReadPythonThreads(const TargetMemory& memory, const PythonLayout& layout,
                                const PythonLimits& limits);

std::optional<PythonCodeWords> ReadPythonCodeWords(const TargetMemory& memory,
                                                   const PythonLayout& layout, uint64_t address);

// Reads a code object; nullopt: there is none at `address`. Names are cut at PT_PYTHON_NAME_BYTES;
// a table of more than PT_PYTHON_LINES_BYTES is left out.
std::optional<PythonCodeFacts> ReadPythonCode(const TargetMemory& memory,
                                              const PythonLayout& layout, uint64_t address);

}  // namespace proftrace
