#include "symbols/x86/moved_code.h"

#include <absl/status/status.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>
#include <string>

#include "symbols/x86/disassembler.h"
#include "symbols/x86/instruction.h"

namespace proftrace {
namespace {

constexpr uint8_t kGroupFf = 0xff;
constexpr uint8_t kOperandSize = 0x66;
constexpr uint8_t kAddressSize = 0x67;
// The bits in the middle of the ModRM byte that tell calls and jumps with opcode ff apart.
constexpr unsigned kIndirectCall = 2;
constexpr unsigned kFarCall = 3;
constexpr unsigned kIndirectJump = 4;
constexpr unsigned kFarJump = 5;

bool IsRexPrefix(uint8_t byte) { return (byte & 0xf0) == 0x40; }

bool IsLegacyPrefix(uint8_t byte) {
  constexpr uint8_t kPrefixes[] = {0x26, 0x2e, 0x36, 0x3e, 0x64, 0x65,
                                   0x66, 0x67, 0xf0, 0xf2, 0xf3};
  return std::find(std::begin(kPrefixes), std::end(kPrefixes), byte) != std::end(kPrefixes);
}

// Returns the index of the opcode's first byte, behind the prefixes.
size_t OpcodeAt(const Instruction& instruction) {
  size_t at = 0;
  while (at < instruction.size && IsLegacyPrefix(instruction.bytes[at])) ++at;
  if (at < instruction.size && IsRexPrefix(instruction.bytes[at])) ++at;
  return at;
}

bool IsFlow(InstructionKind kind) {
  switch (kind) {
    case InstructionKind::kConditionalJump:
    case InstructionKind::kCountJump:
    case InstructionKind::kJump:
    case InstructionKind::kIndirectJump:
    case InstructionKind::kCall:
    case InstructionKind::kIndirectCall:
    case InstructionKind::kReturn:
      return true;
    default:
      return false;
  }
}

// Returns why a jump, call or return cannot be moved; empty where it can. An operand-size prefix
// makes AMD's processors cut the target to 16 bits, unless a REX prefix overrides it (as in calls
// of __tls_get_addr).
std::string_view WhyFlowNotMovable(const Instruction& instruction) {
  const size_t opcode = OpcodeAt(instruction);
  if (opcode >= instruction.size) return "it is no instruction";
  const auto* const first = instruction.bytes.begin();
  const auto* const last = first + opcode;
  const bool is_wide = opcode > 0 && IsRexPrefix(instruction.bytes[opcode - 1]);
  if (std::find(first, last, kAddressSize) != last ||
      (!is_wide && std::find(first, last, kOperandSize) != last)) {
    return "it is a jump with an unusual prefix";
  }
  const uint8_t* const op = instruction.bytes.data() + opcode;
  if (instruction.kind == InstructionKind::kCountJump) return "it is a loop or jrcxz";
  if (op[0] == 0xca || op[0] == 0xcb) return "it is a far return";
  if (op[0] == kGroupFf) {
    const unsigned extension = op[1] >> 3 & 7;
    if (extension == kFarCall || extension == kFarJump) return "it is a far jump";
    // call *%rsp would jump to another place, because its return address is pushed before the jump.
    if (extension == kIndirectCall && op[1] >> 6 == 3 && (op[1] & 7) == 4 &&
        (opcode == 0 || (op[-1] & 1) == 0)) {
      return "it calls the stack";
    }
  }
  if (instruction.kind == InstructionKind::kCall && instruction.target == instruction.next()) {
    return "it reads the instruction pointer";
  }
  return {};
}

bool IsPlainInstruction(const cs_insn& instruction) {
  switch (instruction.id) {
    case X86_INS_SYSCALL:
    case X86_INS_SYSENTER:
    case X86_INS_SYSEXIT:
    case X86_INS_SYSRET:
    case X86_INS_INT:
    case X86_INS_INT1:
    case X86_INS_INT3:
    case X86_INS_INTO:
    case X86_INS_IN:
    case X86_INS_OUT:
    case X86_INS_INSB:
    case X86_INS_INSW:
    case X86_INS_INSD:
    case X86_INS_OUTSB:
    case X86_INS_OUTSW:
    case X86_INS_OUTSD:
    case X86_INS_CLI:
    case X86_INS_STI:
    case X86_INS_HLT:
    case X86_INS_XBEGIN:
    case X86_INS_XEND:
    case X86_INS_XABORT:
    case X86_INS_UD2:
      return false;
    default:
      break;
  }
  const cs_detail& detail = *instruction.detail;
  // These bytes are VMREAD and VMWRITE, or AMD's EXTRQ and INSERTQ with two more bytes, so that the
  // length is not certain.
  const uint8_t* const opcode = detail.x86.opcode;
  if (opcode[0] == 0x0f && (opcode[1] == 0x78 || opcode[1] == 0x79)) return false;
  return std::none_of(detail.groups, detail.groups + detail.groups_count, [](uint8_t group) {
    return group == X86_GRP_PRIVILEGE || group == X86_GRP_INT || group == X86_GRP_IRET ||
           group == X86_GRP_JUMP || group == X86_GRP_CALL || group == X86_GRP_RET ||
           group == X86_GRP_RTM || group == X86_GRP_BRANCH_RELATIVE;
  });
}

// An operand relative to the instruction pointer: the place and the value of its displacement.
struct RelativeOperand {
  size_t offset = 0;
  int32_t displacement = 0;
};

// Finds such an operand; nullopt: there is none. Fails where the bytes are not as Capstone says.
absl::StatusOr<std::optional<RelativeOperand>> FindRelativeOperand(const Instruction& instruction,
                                                                   const Disassembled& decoded) {
  const cs_x86& x86 = decoded.operands();
  for (uint8_t i = 0; i < x86.op_count; ++i) {
    const cs_x86_op& operand = x86.operands[i];
    if (operand.type != X86_OP_MEM) continue;
    if (operand.mem.base == X86_REG_EIP) return absl::UnimplementedError("it has a short address");
    if (operand.mem.base != X86_REG_RIP) continue;
    RelativeOperand found;
    found.offset = x86.encoding.disp_offset;
    // A ModRM byte with mode 0 and register 5 means 4 bytes relative to the next instruction.
    const size_t modrm = x86.encoding.modrm_offset;
    if (modrm == 0 || found.offset != modrm + 1 || found.offset + 4 > instruction.size ||
        (instruction.bytes[modrm] & 0xc7) != 0x05) {
      return absl::UnimplementedError("its address is not where it should be");
    }
    std::memcpy(&found.displacement, instruction.bytes.data() + found.offset, 4);
    if (found.displacement != operand.mem.disp) {
      return absl::UnimplementedError("its address is not where it should be");
    }
    return found;
  }
  return std::optional<RelativeOperand>();
}

absl::Status TooFar() {
  return absl::OutOfRangeError("what it refers to is further than 2 GiB from there");
}

class Mover {
 public:
  Mover(uint64_t end, uint64_t to) : end_(end), to_(to) {}

  absl::Status Move(const Instruction& instruction);
  absl::Status JumpTo(uint64_t target) {
    bytes_.push_back(kJumpOpcode);
    return AppendDistance(target);
  }
  std::vector<uint8_t> Take() { return std::move(bytes_); }

 private:
  void Append(std::initializer_list<uint8_t> bytes) { bytes_.insert(bytes_.end(), bytes); }
  void AppendWord(uint32_t word);
  // Appends the distance to `target`, the last 4 bytes of an instruction.
  absl::Status AppendDistance(uint64_t target);
  void PushReturnAddress();
  absl::Status MovePlain(const Instruction& instruction);
  absl::Status MoveConditional(const Instruction& instruction);
  absl::Status MoveIndirectCall(const Instruction& instruction);

  const uint64_t end_;  // the address behind the original code
  const uint64_t to_;
  std::vector<uint8_t> bytes_;
};

void Mover::AppendWord(uint32_t word) {
  for (int i = 0; i < 4; ++i) bytes_.push_back(static_cast<uint8_t>(word >> i * 8));
}

absl::Status Mover::AppendDistance(uint64_t target) {
  const auto distance = static_cast<int64_t>(target - (to_ + bytes_.size() + 4));
  if (distance != static_cast<int32_t>(distance)) return TooFar();
  AppendWord(static_cast<uint32_t>(distance));
  return absl::OkStatus();
}

// Leaves flags and all registers but rsp unchanged. Moves the stack pointer first, so that a signal
// in between does not write over the address.
void Mover::PushReturnAddress() {
  Append({0x48, 0x8d, 0x64, 0x24, 0xf8});  // lea -8(%rsp), %rsp
  Append({0xc7, 0x04, 0x24});              // movl $low, (%rsp)
  AppendWord(static_cast<uint32_t>(end_));
  Append({0xc7, 0x44, 0x24, 0x04});  // movl $high, 4(%rsp)
  AppendWord(static_cast<uint32_t>(end_ >> 32));
}

absl::Status Mover::MovePlain(const Instruction& instruction) {
  const Disassembled* decoded = Disassembler::OfThread().Decode(instruction);
  if (decoded == nullptr) return absl::UnimplementedError("it does not decode");
  const auto operand = FindRelativeOperand(instruction, *decoded);
  if (!operand.ok()) return operand.status();
  Instruction moved = instruction;
  moved.address = to_ + bytes_.size();
  if (operand->has_value()) {
    const uint64_t target = instruction.next() + static_cast<int64_t>((*operand)->displacement);
    const auto distance = static_cast<int64_t>(target - moved.next());
    if (distance != static_cast<int32_t>(distance)) return TooFar();
    const auto displacement = static_cast<int32_t>(distance);
    std::memcpy(moved.bytes.data() + (*operand)->offset, &displacement, 4);
    const Disassembled* again = Disassembler::OfThread().Decode(moved);
    if (again == nullptr || again->instruction->size != instruction.size) {
      return absl::UnimplementedError("it does not decode at its new place");
    }
    const auto checked = FindRelativeOperand(moved, *again);
    if (!checked.ok()) return checked.status();
    if (!checked->has_value() ||
        moved.next() + static_cast<int64_t>((*checked)->displacement) != target) {
      return absl::UnimplementedError("its address did not become what it should");
    }
  }
  bytes_.insert(bytes_.end(), moved.bytes.begin(), moved.bytes.begin() + moved.size);
  return absl::OkStatus();
}

// Always uses the long form, and drops prefixes, which are only hints.
absl::Status Mover::MoveConditional(const Instruction& instruction) {
  const size_t opcode = OpcodeAt(instruction);
  const uint8_t first = instruction.bytes[opcode];
  const uint8_t condition = first == 0x0f ? instruction.bytes[opcode + 1] : first;
  Append({0x0f, static_cast<uint8_t>(0x80 | (condition & 0x0f))});
  return AppendDistance(instruction.target);
}

// Moves a call *operand: pushes the return address and jumps through the same operand.
absl::Status Mover::MoveIndirectCall(const Instruction& instruction) {
  PushReturnAddress();
  Instruction jump = instruction;
  const size_t opcode = OpcodeAt(instruction);
  const size_t modrm = opcode + 1;
  jump.bytes[modrm] = static_cast<uint8_t>((jump.bytes[modrm] & 0xc7) | kIndirectJump << 3);
  const unsigned mode = jump.bytes[modrm] >> 6;
  // An operand whose SIB byte has rsp as its base lies 8 bytes further from rsp after the push.
  const bool has_high_base =
      opcode > 0 && IsRexPrefix(jump.bytes[opcode - 1]) && (jump.bytes[opcode - 1] & 1) != 0;
  const bool from_stack = mode != 3 && (jump.bytes[modrm] & 7) == 4 &&
                          (jump.bytes[modrm + 1] & 7) == 4 && !has_high_base;
  if (from_stack) {
    int32_t displacement = 0;
    if (mode == 1) displacement = static_cast<int8_t>(jump.bytes[modrm + 2]);
    if (mode == 2) std::memcpy(&displacement, jump.bytes.data() + modrm + 2, 4);
    if (displacement > std::numeric_limits<int32_t>::max() - 8) return TooFar();
    jump.bytes[modrm] = static_cast<uint8_t>((jump.bytes[modrm] & 0x3f) | 2 << 6);
    bytes_.insert(bytes_.end(), jump.bytes.begin(),
                  jump.bytes.begin() + static_cast<ptrdiff_t>(modrm) + 2);
    AppendWord(static_cast<uint32_t>(displacement + 8));
    return absl::OkStatus();
  }
  return MovePlain(jump);
}

absl::Status Mover::Move(const Instruction& instruction) {
  switch (instruction.kind) {
    case InstructionKind::kConditionalJump:
      return MoveConditional(instruction);
    case InstructionKind::kJump:
      return JumpTo(instruction.target);
    case InstructionKind::kCall:
      PushReturnAddress();
      return JumpTo(instruction.target);
    case InstructionKind::kIndirectCall:
      return MoveIndirectCall(instruction);
    default:
      return MovePlain(instruction);
  }
}

absl::Status At(const Instruction& instruction, uint64_t address, std::string_view reason) {
  return absl::UnimplementedError("the instruction at byte " +
                                  std::to_string(instruction.address - address) +
                                  " cannot be moved: " + std::string(reason));
}

}  // namespace

bool EndsStraightCode(const Instruction& instruction) {
  return IsFlow(instruction.kind) && instruction.kind != InstructionKind::kConditionalJump;
}

std::string_view WhyNotMovable(const Instruction& instruction) {
  const size_t opcode = OpcodeAt(instruction);
  // ud0 and ud1 are recognised by their bytes, because versions of Capstone have different names
  // for them.
  const bool is_undefined =
      opcode + 1 < instruction.size && instruction.bytes[opcode] == 0x0f &&
      (instruction.bytes[opcode + 1] == 0xff || instruction.bytes[opcode + 1] == 0xb9);
  if (instruction.kind == InstructionKind::kTrap || is_undefined) return "it is a trap";
  if (instruction.kind == InstructionKind::kEndbr64) return "it is jumped to";
  if (IsFlow(instruction.kind)) return WhyFlowNotMovable(instruction);
  const Disassembled* decoded = Disassembler::OfThread().Decode(instruction);
  if (decoded == nullptr) return "it does not decode";
  if (!IsPlainInstruction(*decoded->instruction)) return "it is no plain instruction";
  if (!FindRelativeOperand(instruction, *decoded).ok()) return "its address cannot be changed";
  return {};
}

absl::StatusOr<std::vector<uint8_t>> MoveCode(std::span<const uint8_t> code, uint64_t address,
                                              uint64_t to, MovedEnd end) {
  const std::vector<Instruction> instructions = DecodeAll(code.data(), code.size(), address);
  const uint64_t decoded_end = instructions.empty() ? address : instructions.back().next();
  if (decoded_end != address + code.size()) {
    return absl::InvalidArgumentError("the code does not decode");
  }
  Mover mover(address + code.size(), to);
  bool is_over = false;
  for (const Instruction& instruction : instructions) {
    if (is_over) {
      if (instruction.kind != InstructionKind::kNop && instruction.bytes[0] != kBreakpointOpcode) {
        const Disassembled* decoded = Disassembler::OfThread().Decode(instruction);
        if (decoded == nullptr || decoded->id() != X86_INS_NOP) {
          return At(instruction, address, "it is behind the end");
        }
      }
      continue;
    }
    const std::string_view reason = WhyNotMovable(instruction);
    if (!reason.empty()) return At(instruction, address, reason);
    const bool is_call = instruction.kind == InstructionKind::kCall ||
                         instruction.kind == InstructionKind::kIndirectCall;
    if (is_call && &instruction != &instructions.back()) {
      return At(instruction, address, "it returns into the middle");
    }
    if (const absl::Status moved = mover.Move(instruction); !moved.ok()) {
      return At(instruction, address, std::string(moved.message()));
    }
    is_over = EndsStraightCode(instruction);
  }
  if (!is_over && end == MovedEnd::kJumpBack) {
    if (const absl::Status back = mover.JumpTo(address + code.size()); !back.ok()) return back;
  }
  return mover.Take();
}

}  // namespace proftrace
