#include "symbols/x86/liveness.h"

#include <absl/container/flat_hash_map.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "symbols/x86/instruction_effects.h"

namespace proftrace {
namespace {

constexpr size_t kMaxVisits = 400;

constexpr RegisterSet Bit(unsigned reg) { return RegisterSet{1} << reg; }
constexpr unsigned kR10 = 10;
constexpr unsigned kR11 = 11;
// The registers that a callee may change.
constexpr RegisterSet kScratch = Bit(kRax) | Bit(kRcx) | Bit(kRdx) | Bit(kRsi) | Bit(kRdi) |
                                 Bit(kR8) | Bit(kR9) | Bit(kR10) | Bit(kR11);
// The registers that a call may read: arguments, the count of vector registers (rax) and the static
// chain (r10).
constexpr RegisterSet kArguments = kScratch & ~Bit(kR11);
constexpr RegisterSet kResults = Bit(kRax) | Bit(kRdx);
constexpr RegisterSet kFlags = RegisterSet{1} << 16;  // a bit beside those of the registers

// Returns the registers that a callee may read: those of all arguments, unless its name shows that
// it is a function that cleans up at exits.
RegisterSet ArgumentsOf(std::string_view callee) {
  if (callee == "free" || callee == "_ZdlPv" || callee == "_ZdaPv" || callee == "_Unwind_Resume") {
    return Bit(kRdi);
  }
  if (callee == "_ZdlPvm" || callee == "_ZdaPvm") return Bit(kRdi) | Bit(kRsi);
  if (callee == "__stack_chk_fail") return 0;
  // A destructor has one argument, `this`.
  const bool is_destructor =
      callee.starts_with("_ZN") &&
      (callee.ends_with("D0Ev") || callee.ends_with("D1Ev") || callee.ends_with("D2Ev"));
  return is_destructor ? Bit(kRdi) : kArguments;
}

class Walk {
 public:
  Walk(const CodeImage& image, const FunctionCode& code) : image_(image), code_(code) {}
  RegisterSet LiveFrom(uint64_t address);

 private:
  bool Fetch(uint64_t address, Instruction* out) const;
  void Go(uint64_t address, RegisterSet pending);
  void Visit(const Instruction& instruction, RegisterSet pending);
  void PassCall(const Instruction& call, RegisterSet pending);

  const CodeImage& image_;
  const FunctionCode& code_;
  RegisterSet live_ = 0;
  // An address, and the registers about which nothing is known yet on a path from there
  std::vector<std::pair<uint64_t, RegisterSet>> work_;
  absl::flat_hash_map<uint64_t, RegisterSet> seen_;
};

bool Walk::Fetch(uint64_t address, Instruction* out) const {
  if (const auto index = code_.IndexAt(address)) {
    *out = code_.instructions()[*index];
    return true;
  }
  if (address >= code_.start() && address < code_.end()) return false;
  uint8_t bytes[kMaxInstructionBytes];
  const size_t got = image_.ReadCode(address, bytes, sizeof(bytes));
  const std::vector<Instruction> decoded = DecodeAll(bytes, got, address);
  if (decoded.empty()) return false;
  *out = decoded[0];
  return true;
}

void Walk::Go(uint64_t address, RegisterSet pending) {
  if (pending != 0) work_.emplace_back(address, pending);
}

void Walk::PassCall(const Instruction& call, RegisterSet pending) {
  const bool is_direct = call.kind == InstructionKind::kCall;
  const bool is_stub = is_direct && image_.IsPltStub(call.target);
  std::string_view callee;
  if (is_direct) callee = image_.CalleeName(call.target);
  if (!is_direct && call.target != 0) callee = image_.SlotName(call.target);
  live_ |= pending & ArgumentsOf(callee);
  if ((is_direct && !is_stub) || IsDescriptorCall(call)) Go(call.next(), pending & ~kFlags);
}

void Walk::Visit(const Instruction& instruction, RegisterSet pending) {
  switch (instruction.kind) {
    case InstructionKind::kReturn:
      live_ |= pending & kResults;
      return;
    case InstructionKind::kTrap:
      return;
    case InstructionKind::kConditionalJump:
      live_ |= pending & kFlags;
      Go(instruction.target, pending);
      Go(instruction.next(), pending);
      return;
    case InstructionKind::kJump:
      Go(instruction.target, pending);
      return;
    case InstructionKind::kIndirectJump:
      // The jump is that of an import's stub, or a call in place of a return. Targets of jump
      // tables are not followed.
      live_ |= pending & (instruction.target != 0 ? ArgumentsOf(image_.SlotName(instruction.target))
                                                  : ~RegisterSet{0});
      return;
    case InstructionKind::kCountJump:
      live_ |= pending;
      return;
    case InstructionKind::kCall:
    case InstructionKind::kIndirectCall:
      PassCall(instruction, pending);
      return;
    default:
      break;
  }
  const InstructionEffects effects = EffectsOf(instruction);
  if (!effects.known) {
    live_ |= pending;
    return;
  }
  live_ |= pending & (effects.reads | (effects.reads_flags ? kFlags : 0));
  Go(instruction.next(),
     pending & ~(effects.replaces | (effects.replaces_flags ? kFlags : RegisterSet{0})));
}

RegisterSet Walk::LiveFrom(uint64_t address) {
  Go(address, kScratch | kFlags);
  size_t visits = 0;
  while (!work_.empty()) {
    const auto [at, wanted] = work_.back();
    work_.pop_back();
    RegisterSet& seen = seen_[at];
    const RegisterSet pending = wanted & ~seen & ~live_;
    seen |= pending;
    if (pending == 0) continue;
    Instruction instruction;
    if (++visits > kMaxVisits || !Fetch(at, &instruction)) {
      live_ |= pending;
      continue;
    }
    Visit(instruction, pending);
  }
  return live_;
}

// Returns the registers that the function itself writes.
RegisterSet WrittenBy(const FunctionCode& code) {
  RegisterSet written = 0;
  for (const Instruction& instruction : code.instructions()) {
    const InstructionEffects effects = EffectsOf(instruction);
    if (effects.known) written |= effects.changes;
  }
  return written;
}

}  // namespace

DeadRegisters FindDeadRegisters(const CodeImage& image, const FunctionCode& code,
                                uint64_t address) {
  const RegisterSet live = Walk(image, code).LiveFrom(address);
  RegisterSet dead = kScratch & ~live;
  if (!code.calls_elsewhere()) dead &= WrittenBy(code);
  return {dead, (live & kFlags) != 0};
}

}  // namespace proftrace
