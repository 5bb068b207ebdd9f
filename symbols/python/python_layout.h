// The layout of CPython's objects in memory, by version. From 3.13 on the interpreter itself
// publishes most offsets for tools like this one (_Py_DebugOffsets, at the beginning of
// _PyRuntime). For earlier versions the offsets are taken from their headers.
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

// How many bytes of a str readers copy at once: more than the head of any str.
inline constexpr size_t kPythonTextHeadBytes = 80;

// Offsets in bytes.
struct PythonLayout {
  abi::pt_python_layout stack{};   // `interpreters` is 0 until the place of _PyRuntime is known
  uint16_t interpreters_head = 0;  // in _PyRuntime
  uint16_t finalizing = 0;  // in _PyRuntime: a pointer that is not 0 once Python has begun to end
  uint16_t interpreter_id = 0;         // 8 bytes; the main interpreter has the id 0
  uint16_t interpreter_modules = 0;    // the pointer to the dict sys.modules
  uint16_t interpreter_variables = 0;  // the pointer to the dict of the module sys
  uint16_t interpreter_gil = 0;        // the pointer to the GIL (from 3.12 on); 0 = none
  uint16_t runtime_gil = 0;            // the GIL in _PyRuntime (up to 3.11); 0 = none
  uint16_t gil_holder = 0;  // in the GIL: the pointer to the PyThreadState that had the GIL last
  uint16_t gil_locked = 0;  // in the GIL: 4 bytes; 1 = the holder has it now
  uint16_t native_thread_id = 0;  // in a PyThreadState: the thread's id in its own PID
                                  // namespace; 0 = none (up to 3.10)
  uint16_t tuple_items = 0;
  uint16_t shared_keys = 0;  // in a class: the pointer to the keys of its instances' attributes
};

// Returns a text such as "3.11".
std::string PythonVersionText(uint32_t version);

// Whether the readers here and the BPF programs can safely use each offset: it lies inside of the
// bytes that they copy of a frame or of a str's head, is aligned for its type, and is near its
// object. A layout may come from the target, which can state any offset.
bool IsUsable(const PythonLayout& layout);

// Whether the layout is that of a free-threaded build, whose objects have a longer head.
inline bool IsFreeThreaded(const PythonLayout& layout) { return layout.stack.object_head != 0; }

// Returns the layout of a version from 3.9 to 3.12; nullopt: it is another version.
std::optional<PythonLayout> KnownPythonLayout(uint32_t version);

// Returns the layout in the _Py_DebugOffsets at `runtime`; nullopt: there are none. Fails with
// FailedPrecondition for a version other than 3.13 to 3.15, for the free-threaded build of 3.13,
// and for impossible offsets.
absl::StatusOr<std::optional<PythonLayout>> ReadPythonLayout(const TargetMemory& memory,
                                                             uint64_t runtime);

// Whether the _PyRuntime at `runtime` states that it belongs to a free-threaded build.
bool SaysFreeThreaded(const TargetMemory& memory, uint64_t runtime);

}  // namespace proftrace
