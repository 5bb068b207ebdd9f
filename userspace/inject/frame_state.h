// Makes the vector state for a signal's frame (Intel SDM 1, "XSAVE-managed state"; struct
// _fpx_sw_bytes in arch/x86/include/uapi/asm/sigcontext.h).
#pragma once

#include <absl/status/statusor.h>

#include <array>
#include <cstdint>
#include <vector>

namespace proftrace {

// Where a component of the state lies in an area of the standard format; 0 bytes: there is no such
// component.
struct StateComponent {
  uint32_t offset = 0;
  uint32_t bytes = 0;
};
using StateLayout = std::array<StateComponent, 64>;

// Reads this processor's layout.
StateLayout ReadStateLayout();

// Makes the state that rt_sigreturn takes back, from an area as ptrace gives it, which has room for
// all components of the processor. The result has only the components that the thread may use: the
// kernel gives AMX tiles room at their first use, and would take a larger frame for one with only
// x87 and SSE. Fails with kUnavailable if `area` is too short to be such an area.
absl::StatusOr<std::vector<uint8_t>> MakeFrameState(std::vector<uint8_t> area,
                                                    const StateLayout& layout);

}  // namespace proftrace
