// The vector state in a signal's frame (Intel SDM 1, "XSAVE-managed state"; struct _fpx_sw_bytes in
// arch/x86/include/uapi/asm/sigcontext.h).
#pragma once

#include <absl/status/statusor.h>

#include <array>
#include <cstdint>
#include <vector>

namespace proftrace {

// Where components of the state lie in an area of the standard format; no bytes: there is none.
struct StateComponent {
  uint32_t offset = 0;
  uint32_t bytes = 0;
};
using StateLayout = std::array<StateComponent, 64>;

// Reads the layout that this processor has.
StateLayout ReadStateLayout();

// Makes what rt_sigreturn takes back out of an area as ptrace gives it, with room for all that the
// processor has. The result has no more than the thread may use: the kernel gives the tiles of AMX
// room at their first use, and takes a larger frame for one with x87 and SSE only. kUnavailable: it
// is no area.
absl::StatusOr<std::vector<uint8_t>> MakeFrameState(std::vector<uint8_t> area,
                                                    const StateLayout& layout);

}  // namespace proftrace
