#include "symbols/x86/instruction.h"

#include <capstone/capstone.h>

#include <algorithm>
#include <cstring>

namespace proftrace {
namespace {

// A Capstone handle with its instruction buffer.
class Decoder {
 public:
  Decoder() {
    if (cs_open(CS_ARCH_X86, CS_MODE_64, &handle_) != CS_ERR_OK) return;
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
  // With mod 00 and rm 101, the operand is relative to the instruction pointer.
  if (is_flow && (op[1] & 0xc7) == 0x05 && left == 6) {
    out->target = out->next() + static_cast<int64_t>(LoadInt32(op + 2));
  }
}

// Sets the kind and the target. `op`: the opcode, behind the prefixes. `plain`: there are no
// prefixes.
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
  } else if (op[0] == kJumpOpcode && left == 5) {
    out->kind = InstructionKind::kJump;
    out->target = near_target();
    out->emulated = plain;
  } else if (op[0] == 0xe8 && left == 5) {
    out->kind = InstructionKind::kCall;
    out->target = near_target();
    out->emulated = plain;
  } else if (op[0] == 0xc3 || op[0] == 0xc2 || op[0] == 0xcb || op[0] == 0xca) {
    out->kind = InstructionKind::kReturn;
  } else if (op[0] == kBreakpointOpcode || op[0] == 0xf4) {
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
    // These bytes have a REX prefix. push r8…r15 (41 5x) is emulated like other pushes.
    const bool is_push = plain && bytes[at] == 0x41 && out->size == 2 && (bytes[1] & 0xf8) == 0x50;
    plain = is_push;
    ++at;
  }
  if (at < out->size) ClassifyOpcode(bytes + at, out->size - at, plain, out);
}

}  // namespace

std::vector<Instruction> DecodeAll(const uint8_t* bytes, size_t count, uint64_t address) {
  thread_local Decoder decoder;
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

}  // namespace proftrace
