// How CPython's objects lie in memory, by version. From 3.13 on the interpreter says most of it
// itself, to tools like this one (_Py_DebugOffsets, at the beginning of _PyRuntime); before, the
// offsets are those of the version's own headers.
#pragma once

#include <absl/status/statusor.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "bpf/abi/python_records.h"
#include "symbols/process/process_memory.h"

namespace proftrace {

inline constexpr uint32_t kPython39 = 0x0309;
inline constexpr uint32_t kPython310 = 0x030a;
inline constexpr uint32_t kPython311 = 0x030b;
inline constexpr uint32_t kPython312 = 0x030c;
inline constexpr uint32_t kPython313 = 0x030d;
inline constexpr uint32_t kPython314 = 0x030e;
inline constexpr uint32_t kPython315 = 0x030f;

// What readers copy of a str at once: more than the head of any.
inline constexpr size_t kPythonTextHeadBytes = 80;

// Offsets in bytes.
struct PythonLayout {
  abi::pt_python_layout stack{};       // `interpreters` is 0 until the place of _PyRuntime is known
  uint16_t interpreters_head = 0;      // in _PyRuntime
  uint16_t finalizing = 0;             // there, too: a pointer, not 0 from when it ends
  uint16_t interpreter_id = 0;         // 8 bytes; 0 is the main interpreter's
  uint16_t interpreter_modules = 0;    // to the dict sys.modules
  uint16_t interpreter_variables = 0;  // to the dict of the module sys
  uint16_t interpreter_gil = 0;        // to the pointer to the GIL (from 3.12 on); 0 = none
  uint16_t runtime_gil = 0;            // the GIL in _PyRuntime (up to 3.11); 0 = none
  uint16_t gil_holder = 0;             // in the GIL: the PyThreadState that had it last
  uint16_t gil_locked = 0;             // 4 bytes; 1 = it has it
  uint16_t native_thread_id = 0;       // in a PyThreadState: the thread's id in its own PID
                                       // namespace; 0 = none (up to 3.10)
  uint16_t tuple_items = 0;
  uint16_t shared_keys = 0;  // in a class: to the keys of its instances' attributes
};

// Returns a text such as "3.11".
std::string PythonVersionText(uint32_t version);

// Whether each offset can be used as the readers here, and the kernel's programs, use it: in the
// bytes of a frame or of a str's head that they copy, at an address that a pointer may lie at, near
// enough to its object. A layout comes from the process that it is of, which may say anything.
bool IsUsable(const PythonLayout& layout);

// Whether it is of a free-threaded build, whose objects have a longer head.
inline bool IsFreeThreaded(const PythonLayout& layout) { return layout.stack.object_head != 0; }

// Returns the offsets of 3.9 to 3.12; nullopt: another version.
std::optional<PythonLayout> KnownPythonLayout(uint32_t version);

// Returns what the _Py_DebugOffsets at `runtime` say; nullopt: there are none. Fails with
// FailedPrecondition for a version other than 3.13 to 3.15, its free-threaded build for 3.13, and
// offsets that cannot be.
absl::StatusOr<std::optional<PythonLayout>> ReadPythonLayout(const TargetMemory& memory,
                                                             uint64_t runtime);

// Whether the `_PyRuntime` at `runtime` says that it is of a free-threaded build.
bool SaysFreeThreaded(const TargetMemory& memory, uint64_t runtime);

}  // namespace proftrace
