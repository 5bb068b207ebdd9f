// Recognises functions by which a job marks ranges for other profilers: Intel's ITT, as
// libtorch_cpu wraps it for torch.profiler.itt and emit_itt, and NVIDIA's NVTX, which is a library
// (libnvToolsExt) or a header whose functions are local to libtorch_python (torch.cuda.nvtx,
// emit_nvtx).
#pragma once

#include <cstdint>
#include <string_view>

namespace proftrace {

// Returns the enum pt_role of a probe at the function's entry; 0 for any other symbol.
uint8_t RangeRole(std::string_view symbol);
// Returns the text that goes before the name with which the function is called.
std::string_view RangePrefix(std::string_view symbol);

}  // namespace proftrace
