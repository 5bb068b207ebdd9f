// Finds the function of CPython that collects garbage. Its name is local to the interpreter and has
// changed (collect, gc_collect_main, with suffixes of the compiler), and interpreters are stripped;
// but with gc.DEBUG_STATS the function prints what it does, so that it is recognised by the code
// that refers to the printed text (Modules/gcmodule.c, Python/gc.c and Python/gc_free_threading.c,
// 3.7 to 3.13).
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "symbols/elf/module_image.h"
#include "symbols/torch/function_analysis.h"

namespace proftrace {

// A file that defines this symbol is an interpreter with a collector.
inline constexpr std::string_view kCollectorEntry = "PyGC_Collect";

// Returns the functions that refer to that text, ascending by address: mostly one, but the compiler
// may have made several copies. `analysis` builds their graphs. Takes some ten milliseconds.
std::vector<FunctionRange> FindCollectors(const ModuleImage& image, FunctionAnalysis* analysis);

}  // namespace proftrace
