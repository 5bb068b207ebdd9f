#include "symbols/x86/argument_state.h"

namespace proftrace {
namespace {

// The argument registers in the order of enum pt_register.
constexpr unsigned kArgumentRegisters[] = {kRdi, kRsi, kRdx, kRcx, kR8, kR9};
constexpr unsigned kLostRegisters[] = {kRax, kRcx, kRdx, kRsi, kRdi, kR8, kR9, 10, 11};
// How many bytes of an object a callee may change whose address it gets. No object that is made of
// arguments is larger.
constexpr size_t kObjectBytes = 64;

}  // namespace

ArgumentState::ArgumentState() {
  stack_offsets_.fill(kNoOffset);
  stack_offsets_[kRsp] = 0;
  for (unsigned i = 0; i < KeptPiece::kPointeeSource; ++i) {
    const size_t at = i < KeptPiece::kVectorSource
                          ? kArgumentRegisters[i] * 8
                          : kWideAt + (i - KeptPiece::kVectorSource) * kWideBytes;
    for (unsigned byte = 0; byte < 8; ++byte) row_[at + byte] = ContentOf(i, byte);
  }
  std::fill(row_.begin() + kEntryAt, row_.end(), kCallers);
}

bool ArgumentState::Meet(const ArgumentState& other) {
  unsigned lost = 0;
  for (size_t i = 0; i < kRowBytes; ++i) {
    const Content met = row_[i] == other.row_[i] ? row_[i] : kUnknown;
    lost |= static_cast<unsigned>(met ^ row_[i]);
    row_[i] = met;
  }
  for (unsigned i = 0; i < kRegisters; ++i) {
    if (stack_offsets_[i] == other.stack_offsets_[i] || stack_offsets_[i] == kNoOffset) continue;
    stack_offsets_[i] = kNoOffset;
    lost = 1;
  }
  return lost != 0;
}

std::optional<ArgumentState::Place> ArgumentState::InStack(unsigned reg, int64_t offset,
                                                           size_t bytes) const {
  if (stack_offsets_[reg] == kNoOffset) return std::nullopt;
  const int64_t at = static_cast<int64_t>(kEntryAt) + stack_offsets_[reg] + offset;
  if (at < static_cast<int64_t>(kFrameAt) || at + static_cast<int64_t>(bytes) > int64_t{kRowBytes})
    return std::nullopt;
  return Place{static_cast<size_t>(at), bytes};
}

void ArgumentState::Copy(const Place& to, const std::optional<Place>& from) {
  std::array<Content, kWideBytes> content{};
  if (to.bytes > content.size()) {
    Forget(to.at, to.bytes);
    return;
  }
  if (from) std::copy_n(&row_[from->at], std::min(from->bytes, to.bytes), content.begin());
  // Copies of the caller's words on the stack are not followed.
  std::replace(content.begin(), content.end(), kCallers, kUnknown);
  std::copy_n(content.begin(), to.bytes, &row_[to.at]);
}

std::optional<uint8_t> ArgumentState::WholeArgument(unsigned reg) const {
  const Content first = row_[reg * 8];
  if (first == kUnknown || first == kCallers || first % 8 != 1) return std::nullopt;
  const auto source = static_cast<uint8_t>(first / 8);
  if (source >= KeptPiece::kVectorSource) return std::nullopt;
  for (unsigned i = 1; i < 8; ++i) {
    if (row_[reg * 8 + i] != first + i) return std::nullopt;
  }
  return source;
}

void ArgumentState::PutPointee(const Place& to, uint8_t source) {
  for (unsigned i = 0; i < to.bytes && i < 8; ++i) {
    row_[to.at + i] = ContentOf(KeptPiece::kPointeeSource + source, i);
  }
}

void ArgumentState::PassCall(bool may_change_objects) {
  for (const unsigned reg : kArgumentRegisters) {
    if (stack_offsets_[reg] == kNoOffset || !may_change_objects) continue;
    const int64_t begin = int64_t{kEntryAt} + stack_offsets_[reg];
    const int64_t first = std::max<int64_t>(begin, kFrameAt);
    const int64_t last = std::min(begin + int64_t{kObjectBytes}, int64_t{kRowBytes});
    if (first < last) Forget(static_cast<size_t>(first), static_cast<size_t>(last - first));
  }
  for (const unsigned reg : kLostRegisters) ForgetRegister(reg);
  Forget(kWideAt, kFrameAt - kWideAt);
  // The callee's frame lies below the stack pointer.
  const int64_t top = stack_offsets_[kRsp] == kNoOffset ? int64_t{kEntryAt}
                                                        : int64_t{kEntryAt} + stack_offsets_[kRsp];
  if (top > int64_t{kFrameAt}) {
    Forget(kFrameAt, std::min<size_t>(static_cast<size_t>(top), kRowBytes) - kFrameAt);
  }
}

void ArgumentState::ForgetAll() {
  row_.fill(kUnknown);
  stack_offsets_.fill(kNoOffset);
}

}  // namespace proftrace
