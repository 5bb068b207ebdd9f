// Where the bytes of a function's arguments lie, in registers and on the stack, right before one of
// its instructions runs. Used by kept_arguments.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>

#include "symbols/x86/instruction.h"
#include "symbols/x86/kept_arguments.h"

namespace proftrace {

// The content of a byte of storage: a byte of a source (1 + 8 × the source's number in KeptPiece +
// the byte's number in it), or one of these.
using Content = uint8_t;
inline constexpr Content kUnknown = 0;
inline constexpr Content kCallers = 255;  // as the caller left it on its part of the stack

inline Content ContentOf(unsigned source, unsigned byte) {
  return static_cast<Content>(1 + 8 * source + byte);
}

class ArgumentState {
 public:
  static constexpr unsigned kRegisters = 16;
  // All storage is one row of bytes: general registers, vector registers, the frame and as the
  // caller left it on its part of the stack. Bytes further away are not followed.
  static constexpr size_t kWideBytes = 16;
  static constexpr size_t kWideAt = kRegisters * 8;
  static constexpr size_t kFrameAt = kWideAt + kRegisters * kWideBytes;
  static constexpr size_t kFrameBytes = 2048;
  static constexpr size_t kEntryAt = kFrameAt + kFrameBytes;  // where rsp points at the entry
  static constexpr size_t kReturnAddressBytes = 8;
  static constexpr size_t kMostStackWords = 64;
  static constexpr size_t kRowBytes = kEntryAt + kReturnAddressBytes + 8 * kMostStackWords;
  static constexpr int32_t kNoOffset = std::numeric_limits<int32_t>::min();

  struct Place {
    size_t at = 0;  // in the row
    size_t bytes = 0;
  };

  // Makes the state at the function's entry.
  ArgumentState();

  // Keeps only the contents that are the same in both states. Returns whether anything was lost.
  bool Meet(const ArgumentState& other);

  Content at(size_t i) const { return row_[i]; }
  // Returns how far from the entry's rsp `reg` points, if it points into the stack; else kNoOffset.
  int32_t stack_offset(unsigned reg) const { return stack_offsets_[reg]; }
  void set_stack_offset(unsigned reg, int64_t offset) {
    const bool fits = offset > -(1 << 20) && offset < (1 << 20);
    stack_offsets_[reg] = fits ? static_cast<int32_t>(offset) : kNoOffset;
  }
  // Returns the place in the row at `reg` + `offset`, where `reg` points into the stack; nullopt:
  // the place is not in the row.
  std::optional<Place> InStack(unsigned reg, int64_t offset, size_t bytes) const;

  void Forget(size_t at, size_t bytes) {
    std::fill_n(row_.begin() + static_cast<ptrdiff_t>(at), bytes, kUnknown);
  }
  void ForgetRegister(unsigned reg) {
    Forget(reg * 8, 8);
    stack_offsets_[reg] = kNoOffset;
  }
  void ForgetStack() { Forget(kFrameAt, kRowBytes - kFrameAt); }
  // Copies the contents of `from` to `to`; where `to` is longer, the rest of it becomes unknown.
  void Copy(const Place& to, const std::optional<Place>& from);
  // Forgets everything.
  void ForgetAll();
  // Applies a call. `may_change_objects`: the callee may change objects whose address it gets.
  void PassCall(bool may_change_objects);
  // Returns the number of the argument register whose whole value `reg` holds; nullopt: it holds no
  // such value.
  std::optional<uint8_t> WholeArgument(unsigned reg) const;
  // Notes that `to` holds the word that argument `source` points to.
  void PutPointee(const Place& to, uint8_t source);

 private:
  std::array<Content, kRowBytes> row_{};
  std::array<int32_t, kRegisters> stack_offsets_;
};

}  // namespace proftrace
