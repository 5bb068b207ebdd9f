// A place in a target's code at which a jump may be put while the target runs. It lies behind the
// first instruction of a function, so that a foreign uprobe or breakpoint at the entry stays whole,
// and behind all places at which probes of ours may be set while the jump is there.
#pragma once

#include <absl/status/statusor.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace proftrace {

inline constexpr size_t kJumpBytes = 5;        // jmp rel32
inline constexpr size_t kMostPatchBytes = 24;  // the most that a jump may replace

struct PatchSite {
  uint64_t address = 0;  // in the target
  uint8_t size = 0;      // of the instructions that the jump replaces
  std::array<uint8_t, kMostPatchBytes> original{};

  uint64_t end() const { return address + size; }
  // Whether a thread that continues at `other` would be inside of the jump.
  bool HasInside(uint64_t other) const { return other > address && other < end(); }
};

// Returns the site of the function at `address` with the bytes `code`: instructions in one page
// that do the same at another address (no jump, no call, no operand relative to the instruction
// pointer), and into which no jump of the function leads. Fails with the reason.
absl::StatusOr<PatchSite> FindPatchSite(std::span<const uint8_t> code, uint64_t address);

// Returns the bytes of a jump from the site to `target`, filled up with nops to the site's size.
// Fails if the target is too far away, or at a distance that no jump must have (jump_distance.h).
absl::StatusOr<std::vector<uint8_t>> JumpTo(const PatchSite& site, uint64_t target);

// Returns how many bytes MakeStub() makes for the site.
size_t StubBytes(const PatchSite& site);

// Makes the code that the jump leads to: it saves the flags and rax, calls `work`, runs the site's
// instructions, and jumps back behind them. `address` is the stub's address.
absl::StatusOr<std::vector<uint8_t>> MakeStub(const PatchSite& site, uint64_t address,
                                              uint64_t work);

}  // namespace proftrace
