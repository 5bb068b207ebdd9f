// The nn.Modules below one, as named_modules() names them, read from the job's memory.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "symbols/process/process_memory.h"
#include "symbols/python/python_layout.h"

namespace proftrace {

struct PythonModuleNode {
  uint64_t object = 0;     // its address
  uint64_t type = 0;       // and its type's
  uint64_t parent = 0;     // the module that it hangs in; 0 for the root
  std::string path;        // "encoder.layers.0"; empty for the root
  std::string class_name;  // "Linear"
};

struct PythonModuleTree {
  std::vector<PythonModuleNode> modules;  // in the order of named_modules(), the root first
  bool is_whole = true;                   // false: there is more than was read
};

struct PythonModuleLimits {
  size_t modules = 100'000;
  size_t depth = 1000;
  size_t path_bytes = 4096;
  size_t bytes = size_t{1} << 30;        // that are read
  size_t kept_bytes = size_t{64} << 20;  // of names and paths
};

// Reads the nn.Module at the address `root` and those below it. An instance that hangs in several
// places has the first place's name (torch/nn/modules/module.py, named_modules). What is no module
// has no children.
PythonModuleTree ReadPythonModules(const TargetMemory& memory, const PythonLayout& layout,
                                   uint64_t root, const PythonModuleLimits& limits);

}  // namespace proftrace
