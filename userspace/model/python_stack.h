// Python stacks (--with-stack): which frames of Python ran when a row began. Stacks are nodes of a
// tree, so that stacks with the same outer frames share these: each node is a frame, and its parent
// is the frame that called it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "userspace/model/ids.h"

namespace proftrace {

// An index into Timeline::python_frames().
enum class StackId : uint32_t {};
inline constexpr StackId kNoStack{0};  // not recorded, or no Python ran on the thread
inline constexpr StackId kNoOwnStack{~uint32_t{0}};

constexpr uint32_t Raw(StackId id) { return static_cast<uint32_t>(id); }

// A code object: a function, a lambda, the body of a class or of a module.
struct PythonCode {
  Pid pid{};
  std::string file;  // as torch.profiler has it: without the folder of sys.path that it lies in
  std::string name;  // co_name
  std::string qualified_name;  // co_qualname; before Python 3.11 the same as `name`
  int32_t first_line = 0;      // co_firstlineno
  // torch.nn.Module.__call__, whatever its function is called in this version of torch.
  bool is_module_call = false;
};

// An nn.Module that was seen running. 0 in PythonFrame::module means none.
struct PythonModule {
  Pid pid{};
  uint64_t object = 0;     // the module's address
  uint64_t type = 0;       // the address of its class
  std::string class_name;  // "Linear"
  // The number that torch.profiler gives to the instance among those of its class in a process:
  // they count from 0 in the order of their first calls. Two classes of the same name are counted
  // separately (PythonIDVisitor, profiler_python.cpp).
  uint32_t number = 0;
  // The module's name in named_modules() of the outermost module whose call it ran in:
  // "encoder.layers.0.linear1"; empty for that outermost module itself.
  std::string path;
  bool has_path = false;  // false: it was not found in any other module
};

// A frame of a stack. The first entry of the table belongs to kNoStack and means nothing.
struct PythonFrame {
  StackId parent = kNoStack;  // the frame that called it; kNoStack: it is the outermost
  uint32_t code = 0;          // an index into Timeline::python_codes()
  uint32_t instruction = 0;   // the running instruction of the code, in units of two bytes
  int32_t line = 0;           // of that instruction; 0 = not known
  uint32_t module = 0;        // 1 + index into Timeline::python_modules(); 0 = no nn.Module's call
  uint32_t depth = 0;         // 1 = outermost
};

// Returns `file` without the first of `paths` (Target::python_paths) that it begins with.
std::string_view WithoutPythonPath(std::string_view file, const std::vector<std::string>& paths);

// Returns whether the file, with all its folders, is of the standard library or of an installed
// package.
bool IsInstalledPython(std::string_view file);

// Returns whether a code object is CPython's own one that runs around a constructor
// (_Py_InitCleanup, from 3.12 on). Its frames are not shown, because Python does not show them
// either.
bool IsHiddenPythonCode(std::string_view file, std::string_view name);

// Returns the characters of a str as UTF-8: `width` bytes each (1: Latin-1, 2 or 4: code points). A
// number that is no character (a lone surrogate, or a number past U+10FFFF) becomes U+FFFD.
std::string PythonTextToUtf8(std::span<const uint8_t> characters, size_t width);

// Two frames that are the same place in the same code, called from the same place, are one node:
// calls of a function in a loop cannot be told apart by it.

}  // namespace proftrace
