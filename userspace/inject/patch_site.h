// A place in a target's code where a jump may be put while the target runs: behind the first
// instruction of a function, so that a foreign uprobe or breakpoint at its entry stays whole, and
// behind all places where probes of ours may come while it is there.
#pragma once

#include <absl/status/statusor.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace proftrace {

inline constexpr size_t kJumpBytes = 5;        // jmp rel32
inline constexpr size_t kMostPatchBytes = 24;  // whole instructions that hold a jump

struct PatchSite {
  uint64_t address = 0;  // in the target
  uint8_t size = 0;      // of the instructions that the jump replaces
  std::array<uint8_t, kMostPatchBytes> original{};

  uint64_t end() const { return address + size; }
  // Whether a thread that goes on at `address` would find itself inside the jump.
  bool HasInside(uint64_t other) const { return other > address && other < end(); }
};

// Returns the site of the function at `address` whose code is `code`: instructions that may run
// elsewhere (no jump, call or operand relative to the instruction pointer), into which nothing in
// the function jumps, in one page. Fails with the reason.
absl::StatusOr<PatchSite> FindPatchSite(std::span<const uint8_t> code, uint64_t address);

// Returns the bytes of a jump from the site to `target`, padded with nops to the site's size. Fails
// when that is too far away, or at a distance that no jump must have (jump_distance.h).
absl::StatusOr<std::vector<uint8_t>> JumpTo(const PatchSite& site, uint64_t target);

// Returns how many bytes MakeStub() makes for the site.
size_t StubBytes(const PatchSite& site);

// Makes what the jump leads to: it saves the flags and rax, calls `work`, runs the site's
// instructions, and goes back behind them. `address`: where the stub will be.
absl::StatusOr<std::vector<uint8_t>> MakeStub(const PatchSite& site, uint64_t address,
                                              uint64_t work);

}  // namespace proftrace
