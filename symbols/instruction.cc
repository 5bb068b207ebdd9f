#include "symbols/instruction.h"

#include <capstone/capstone.h>

#include <algorithm>
#include <cstring>
#include <iterator>

namespace proftrace {
namespace {

// One Capstone handle and its instruction buffer.
class Decoder {
 public:
  explicit Decoder(bool detail) {
    if (cs_open(CS_ARCH_X86, CS_MODE_64, &handle_) != CS_ERR_OK) return;
    if (detail) cs_option(handle_, CS_OPT_DETAIL, CS_OPT_ON);
    instruction_ = cs_malloc(handle_);
  }
  ~Decoder() {
    if (instruction_ != nullptr) cs_free(instruction_, 1);
    if (handle_ != 0) cs_close(&handle_);
  }
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;

  bool Next(const uint8_t** bytes, size_t* count, uint64_t* address) {
    return instruction_ != nullptr && cs_disasm_iter(handle_, bytes, count, address, instruction_);
  }
  const cs_insn& instruction() const { return *instruction_; }
  csh handle() const { return handle_; }

 private:
  csh handle_ = 0;
  cs_insn* instruction_ = nullptr;
};

int32_t LoadInt32(const uint8_t* at) {
  int32_t value;
  std::memcpy(&value, at, sizeof(value));
  return value;
}

bool IsLegacyPrefix(uint8_t byte) {
  switch (byte) {
    case 0x26:
    case 0x2e:
    case 0x36:
    case 0x3e:
    case 0x64:
    case 0x65:
    case 0x66:
    case 0x67:
    case 0xf0:
    case 0xf2:
    case 0xf3:
      return true;
    default:
      return false;
  }
}

void ClassifyGroupFf(const uint8_t* op, size_t left, Instruction* out) {
  if (left < 2) return;
  const unsigned extension = (op[1] >> 3) & 7;
  if (extension == 2 || extension == 3) out->kind = InstructionKind::kIndirectCall;
  if (extension == 4 || extension == 5) out->kind = InstructionKind::kIndirectJump;
  const bool is_flow = extension >= 2 && extension <= 5;
  // mod 00, rm 101: relative to the instruction pointer.
  if (is_flow && (op[1] & 0xc7) == 0x05 && left == 6) {
    out->target = out->next() + static_cast<int64_t>(LoadInt32(op + 2));
  }
}

// `op`: at the opcode, after prefixes. `plain`: there were none.
void ClassifyOpcode(const uint8_t* op, size_t left, bool plain, Instruction* out) {
  const auto short_target = [&] { return out->next() + static_cast<int8_t>(op[left - 1]); };
  const auto near_target = [&] {
    return out->next() + static_cast<int64_t>(LoadInt32(op + left - 4));
  };
  if (op[0] >= 0x50 && op[0] <= 0x57 && left == 1) {
    out->kind = InstructionKind::kPush;
    out->emulated = plain;
  } else if (op[0] == 0x90 && left == 1) {
    out->kind = InstructionKind::kNop;
    out->emulated = plain;
  } else if (op[0] >= 0x70 && op[0] <= 0x7f && left == 2) {
    out->kind = InstructionKind::kConditionalJump;
    out->target = short_target();
    out->emulated = plain;
  } else if (op[0] >= 0xe0 && op[0] <= 0xe3 && left == 2) {
    out->kind = InstructionKind::kCountJump;
    out->target = short_target();
  } else if (op[0] == 0xeb && left == 2) {
    out->kind = InstructionKind::kJump;
    out->target = short_target();
    out->emulated = plain;
  } else if (op[0] == 0xe9 && left == 5) {
    out->kind = InstructionKind::kJump;
    out->target = near_target();
    out->emulated = plain;
  } else if (op[0] == 0xe8 && left == 5) {
    out->kind = InstructionKind::kCall;
    out->target = near_target();
    out->emulated = plain;
  } else if (op[0] == 0xc3 || op[0] == 0xc2 || op[0] == 0xcb || op[0] == 0xca) {
    out->kind = InstructionKind::kReturn;
  } else if (op[0] == 0xcc || op[0] == 0xf4) {
    out->kind = InstructionKind::kTrap;
  } else if (op[0] == 0xff) {
    ClassifyGroupFf(op, left, out);
  } else if (op[0] == 0x0f && left >= 2) {
    if (op[1] >= 0x80 && op[1] <= 0x8f && left == 6) {
      out->kind = InstructionKind::kConditionalJump;
      out->target = near_target();
      out->emulated = plain;
    } else if (op[1] == 0x0b) {
      out->kind = InstructionKind::kTrap;
    }
  }
}

void Classify(const uint8_t* bytes, Instruction* out) {
  static constexpr uint8_t kEndbr64Bytes[] = {0xf3, 0x0f, 0x1e, 0xfa};
  if (out->size == 4 && std::memcmp(bytes, kEndbr64Bytes, 4) == 0) {
    out->kind = InstructionKind::kEndbr64;
    return;
  }
  size_t at = 0;
  while (at < out->size && IsLegacyPrefix(bytes[at])) ++at;
  bool plain = at == 0;
  if (at < out->size && (bytes[at] & 0xf0) == 0x40) {
    // REX. push r8…r15 (41 5x) is emulated like the others.
    const bool is_push = plain && bytes[at] == 0x41 && out->size == 2 && (bytes[1] & 0xf8) == 0x50;
    plain = is_push;
    ++at;
  }
  if (at < out->size) ClassifyOpcode(bytes + at, out->size - at, plain, out);
}

}  // namespace

std::vector<Instruction> DecodeAll(const uint8_t* bytes, size_t count, uint64_t address) {
  thread_local Decoder decoder(/*detail=*/false);
  std::vector<Instruction> out;
  out.reserve(count / 4 + 1);
  while (count > 0) {
    const uint8_t* at = bytes;
    if (!decoder.Next(&bytes, &count, &address)) break;
    Instruction instruction;
    instruction.address = decoder.instruction().address;
    instruction.size = static_cast<uint8_t>(decoder.instruction().size);
    std::copy_n(at, instruction.size, instruction.bytes.begin());
    Classify(at, &instruction);
    out.push_back(instruction);
  }
  return out;
}

bool IsRegisterMove(const uint8_t* bytes, size_t count) {
  const size_t rex = count > 0 && (bytes[0] & 0xf0) == 0x40 ? 1 : 0;
  if (count != rex + 2) return false;
  const bool is_move = bytes[rex] == 0x89 || bytes[rex] == 0x8b;  // mov r/m, r and mov r, r/m
  return is_move && bytes[rex + 1] >> 6 == 3;                     // both are registers
}

int RegisterNumber(unsigned capstone_register) {
  constexpr x86_reg kRegisters[] = {X86_REG_RAX, X86_REG_RCX, X86_REG_RDX, X86_REG_RBX,
                                    X86_REG_RSP, X86_REG_RBP, X86_REG_RSI, X86_REG_RDI,
                                    X86_REG_R8,  X86_REG_R9,  X86_REG_R10, X86_REG_R11,
                                    X86_REG_R12, X86_REG_R13, X86_REG_R14, X86_REG_R15};
  const auto* const it = std::find(std::begin(kRegisters), std::end(kRegisters), capstone_register);
  return it == std::end(kRegisters) ? -1 : static_cast<int>(it - std::begin(kRegisters));
}

int WholeRegisterNumber(unsigned reg) {
  switch (reg) {
    case X86_REG_RAX:
    case X86_REG_EAX:
    case X86_REG_AX:
    case X86_REG_AL:
    case X86_REG_AH:
      return 0;
    case X86_REG_RCX:
    case X86_REG_ECX:
    case X86_REG_CX:
    case X86_REG_CL:
    case X86_REG_CH:
      return 1;
    case X86_REG_RDX:
    case X86_REG_EDX:
    case X86_REG_DX:
    case X86_REG_DL:
    case X86_REG_DH:
      return 2;
    case X86_REG_RBX:
    case X86_REG_EBX:
    case X86_REG_BX:
    case X86_REG_BL:
    case X86_REG_BH:
      return 3;
    case X86_REG_RSP:
    case X86_REG_ESP:
    case X86_REG_SP:
    case X86_REG_SPL:
      return 4;
    case X86_REG_RBP:
    case X86_REG_EBP:
    case X86_REG_BP:
    case X86_REG_BPL:
      return 5;
    case X86_REG_RSI:
    case X86_REG_ESI:
    case X86_REG_SI:
    case X86_REG_SIL:
      return 6;
    case X86_REG_RDI:
    case X86_REG_EDI:
    case X86_REG_DI:
    case X86_REG_DIL:
      return 7;
    case X86_REG_R8:
    case X86_REG_R8D:
    case X86_REG_R8W:
    case X86_REG_R8B:
      return 8;
    case X86_REG_R9:
    case X86_REG_R9D:
    case X86_REG_R9W:
    case X86_REG_R9B:
      return 9;
    case X86_REG_R10:
    case X86_REG_R10D:
    case X86_REG_R10W:
    case X86_REG_R10B:
      return 10;
    case X86_REG_R11:
    case X86_REG_R11D:
    case X86_REG_R11W:
    case X86_REG_R11B:
      return 11;
    case X86_REG_R12:
    case X86_REG_R12D:
    case X86_REG_R12W:
    case X86_REG_R12B:
      return 12;
    case X86_REG_R13:
    case X86_REG_R13D:
    case X86_REG_R13W:
    case X86_REG_R13B:
      return 13;
    case X86_REG_R14:
    case X86_REG_R14D:
    case X86_REG_R14W:
    case X86_REG_R14B:
      return 14;
    case X86_REG_R15:
    case X86_REG_R15D:
    case X86_REG_R15W:
    case X86_REG_R15B:
      return 15;
    default:
      return -1;
  }
}

RegisterSet WrittenRegisters(const uint8_t* bytes, size_t count, uint64_t address) {
  thread_local Decoder decoder(/*detail=*/true);
  constexpr RegisterSet kAll = ~RegisterSet{0};
  if (!decoder.Next(&bytes, &count, &address)) return kAll;
  cs_regs read;
  cs_regs written;
  uint8_t read_count = 0;
  uint8_t written_count = 0;
  if (cs_regs_access(decoder.handle(), &decoder.instruction(), read, &read_count, written,
                     &written_count) != CS_ERR_OK) {
    return kAll;
  }
  RegisterSet set = 0;
  for (uint8_t i = 0; i < written_count; ++i) {
    const int number = WholeRegisterNumber(written[i]);
    if (number >= 0) set |= RegisterSet{1} << number;
  }
  return set;
}

}  // namespace proftrace
