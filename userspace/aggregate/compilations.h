// Finds when torch.compile compiled, by TorchDynamo's own rows. TorchDynamo looks for code that
// fits the inputs, and runs that code in a row of its own. Where there was no such code, it
// compiles between the two:
//
//   | TorchDynamo Cache Lookup |  compiles: what runs there is its own  | Torch-Compiled Region:
//   0/7 |
//
// The number behind the slash grows with each version of the same code.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "userspace/model/timeline.h"

namespace proftrace {

struct Compilation {
  int64_t start_ns = 0;
  int64_t end_ns = 0;  // when the code's own row begins, for the first time
  LabelId region{};    // that row's
};

// Returns whether the row is that of code that torch.compile has made.
bool IsCompiledRegion(std::string_view name);

// Returns the compilations of each thread in order, by ThreadIndex; an empty list: there are none
// at all. Passes over all spans where the timeline has such rows.
std::vector<std::vector<Compilation>> FindCompilations(const Timeline& timeline);

// Returns whether the thread of these compilations compiles at that time: what runs then is no work
// of the loop. `over`: how many of them are over, 0 before the first call; calls come in order of
// time.
bool IsCompiling(const std::vector<Compilation>& compilations, int64_t time_ns, size_t* over);

}  // namespace proftrace
