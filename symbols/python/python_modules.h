// Reads the tree of nn.Modules below a module from the job's memory, with the names that
// named_modules() gives them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "symbols/process/process_memory.h"
#include "symbols/python/python_layout.h"

namespace proftrace {

struct PythonModuleNode {
  uint64_t object = 0;     // its address
  uint64_t type = 0;       // the address of its class
  uint64_t parent = 0;     // the address of the module that holds it; 0 for the root
  std::string path;        // "encoder.layers.0"; empty for the root
  std::string class_name;  // "Linear"
};

struct PythonModuleTree {
  std::vector<PythonModuleNode> modules;  // in the order of named_modules(), the root first
  bool is_whole = true;                   // false: not all modules were read
};

struct PythonModuleLimits {
  size_t modules = 100'000;
  size_t depth = 1000;
  size_t path_bytes = 4096;
  size_t bytes = size_t{1} << 30;        // the most bytes that are read
  size_t kept_bytes = size_t{64} << 20;  // the most bytes of names and paths
};

// Reads the nn.Module at the address `root` and those below it. A module that several others hold
// gets the name of its first place (torch/nn/modules/module.py, named_modules). An object that is
// no module counts as one without children.
PythonModuleTree ReadPythonModules(const TargetMemory& memory, const PythonLayout& layout,
                                   uint64_t root, const PythonModuleLimits& limits);

}  // namespace proftrace
