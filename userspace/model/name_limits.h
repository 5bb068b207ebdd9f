// How many different names a recording may have. Names that never repeat (a step's number in an
// annotation, a function that exec() makes, a kernel that is compiled for each shape) come without
// an end: those after the first ones are one name of their kind, and it is told that they are.
#pragma once

#include <cstddef>

namespace proftrace {

// Names of a kind: labels of rows, functions of Python, modules, sampled functions, kernels.
// PyTorch has 3000 names of its own.
inline constexpr size_t kMostNames = size_t{1} << 17;
// Paths of names, and stacks.
inline constexpr size_t kMostPaths = size_t{1} << 20;
inline constexpr char kOtherNames[] = "<other names>";

}  // namespace proftrace
