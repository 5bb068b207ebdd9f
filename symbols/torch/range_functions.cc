#include "symbols/torch/range_functions.h"

#include "bpf/abi/records.h"

namespace proftrace {
namespace {

struct RangeFunction {
  std::string_view symbol;
  uint8_t role;
};
// Starts a range that has a number and may end on another thread. Without a tool in the process all
// ranges get the same number, so that only a range's start is known, not its end.
constexpr std::string_view kStart = "nvtxRangeStartA";
// The functions of torch/csrc/itt_wrapper.h and nvToolsExt.h.
constexpr RangeFunction kFunctions[] = {
    {"_ZN5torch8profiler14itt_range_pushEPKc", abi::PT_ROLE_RANGE_PUSH},
    {"_ZN5torch8profiler13itt_range_popEv", abi::PT_ROLE_RANGE_POP},
    {"_ZN5torch8profiler8itt_markEPKc", abi::PT_ROLE_RANGE_MARK},
    {"nvtxRangePushA", abi::PT_ROLE_RANGE_PUSH},
    {"nvtxRangePop", abi::PT_ROLE_RANGE_POP},
    {"nvtxMarkA", abi::PT_ROLE_RANGE_MARK},
    {kStart, abi::PT_ROLE_RANGE_MARK},
};

}  // namespace

uint8_t RangeRole(std::string_view symbol) {
  for (const RangeFunction& function : kFunctions) {
    if (symbol == function.symbol) return function.role;
  }
  return 0;
}

std::string_view RangePrefix(std::string_view symbol) {
  return symbol == kStart ? "range_start: " : "";
}

}  // namespace proftrace
