#include "symbols/x86/instruction_effects.h"

#include <algorithm>
#include <string_view>

#include "symbols/x86/disassembler.h"

namespace proftrace {
namespace {

// How a mnemonic uses its operands.
enum class Form : uint8_t {
  kUnknown,
  kMove,     // the first operand is replaced, and the others are read
  kUpdate,   // the first operand is read and written
  kCompare,  // only flags are written
  kExchange,
  kPush,
  kPop,
};

enum class FlagUse : uint8_t { kNone, kSome, kAll, kRead };

struct Mnemonic {
  Form form = Form::kUnknown;
  FlagUse flags = FlagUse::kNone;  // kSome: some flags are written or become undefined
  RegisterSet implicit_reads = 0;
  RegisterSet implicit_replaces = 0;
};

constexpr RegisterSet Bit(unsigned reg) { return RegisterSet{1} << reg; }

bool HasGroup(const cs_insn& instruction, std::initializer_list<uint8_t> groups) {
  const cs_detail& detail = *instruction.detail;
  return std::any_of(detail.groups, detail.groups + detail.groups_count, [&](uint8_t group) {
    return std::find(groups.begin(), groups.end(), group) != groups.end();
  });
}

bool IsVector(const cs_insn& instruction) {
  return HasGroup(instruction, {X86_GRP_SSE1, X86_GRP_SSE2, X86_GRP_SSE3, X86_GRP_SSSE3,
                                X86_GRP_SSE41, X86_GRP_SSE42, X86_GRP_AVX, X86_GRP_AVX2});
}

// Describes vector instructions. None of them reads flags. Instructions that use registers which
// are not among their operands are unknown.
Mnemonic VectorMnemonic(unsigned id) {
  switch (id) {
    case X86_INS_PCMPESTRI:
    case X86_INS_PCMPESTRM:
    case X86_INS_PCMPISTRI:
    case X86_INS_PCMPISTRM:
    case X86_INS_VPCMPESTRI:
    case X86_INS_VPCMPESTRM:
    case X86_INS_VPCMPISTRI:
    case X86_INS_VPCMPISTRM:
    case X86_INS_MASKMOVDQU:
    case X86_INS_MASKMOVQ:
    case X86_INS_VMASKMOVDQU:
    case X86_INS_MONITOR:
    case X86_INS_MWAIT:
      return {};
    case X86_INS_UCOMISS:
    case X86_INS_UCOMISD:
    case X86_INS_COMISS:
    case X86_INS_COMISD:
    case X86_INS_VUCOMISS:
    case X86_INS_VUCOMISD:
    case X86_INS_VCOMISS:
    case X86_INS_VCOMISD:
    case X86_INS_PTEST:
    case X86_INS_VPTEST:
      return {Form::kCompare, FlagUse::kAll};
    default:
      return {Form::kUpdate, FlagUse::kNone};
  }
}

Mnemonic MnemonicOf(const cs_insn& instruction) {
  switch (instruction.id) {
    case X86_INS_MOV:
    case X86_INS_MOVABS:
    case X86_INS_MOVZX:
    case X86_INS_MOVSX:
    case X86_INS_MOVSXD:
    case X86_INS_LEA:
      return {Form::kMove, FlagUse::kNone};
    case X86_INS_ADD:
    case X86_INS_SUB:
    case X86_INS_AND:
    case X86_INS_OR:
    case X86_INS_XOR:
    case X86_INS_NEG:
      return {Form::kUpdate, FlagUse::kAll};
    case X86_INS_CMP:
    case X86_INS_TEST:
      return {Form::kCompare, FlagUse::kAll};
    case X86_INS_ADC:
    case X86_INS_SBB:
      return {Form::kUpdate, FlagUse::kRead};
    case X86_INS_INC:
    case X86_INS_DEC:
    case X86_INS_SHL:
    case X86_INS_SHR:
    case X86_INS_SAR:
    case X86_INS_ROL:
    case X86_INS_ROR:
    case X86_INS_BTS:
    case X86_INS_BTR:
    case X86_INS_BTC:
    case X86_INS_BSF:
    case X86_INS_BSR:
    case X86_INS_TZCNT:
    case X86_INS_LZCNT:
    case X86_INS_POPCNT:
      return {Form::kUpdate, FlagUse::kSome};
    case X86_INS_BT:
      return {Form::kCompare, FlagUse::kSome};
    case X86_INS_NOT:
    case X86_INS_BSWAP:
      return {Form::kUpdate, FlagUse::kNone};
    case X86_INS_IMUL:
      // With one operand, the instruction also uses rax and rdx.
      if (instruction.detail->x86.op_count > 1) return {Form::kUpdate, FlagUse::kSome};
      return {Form::kCompare, FlagUse::kSome, Bit(kRax)};
    case X86_INS_MUL:
      return {Form::kCompare, FlagUse::kSome, Bit(kRax)};
    case X86_INS_DIV:
    case X86_INS_IDIV:
      return {Form::kCompare, FlagUse::kSome, Bit(kRax) | Bit(kRdx)};
    case X86_INS_CDQE:
    case X86_INS_CWDE:
      return {Form::kCompare, FlagUse::kNone, Bit(kRax)};
    case X86_INS_CQO:
    case X86_INS_CDQ:
      return {Form::kCompare, FlagUse::kNone, Bit(kRax), Bit(kRdx)};
    case X86_INS_CMPXCHG:
      return {Form::kExchange, FlagUse::kSome, Bit(kRax)};
    case X86_INS_XADD:
    case X86_INS_XCHG:
      return {Form::kExchange, FlagUse::kSome};
    case X86_INS_PUSH:
      return {Form::kPush, FlagUse::kNone};
    case X86_INS_POP:
      return {Form::kPop, FlagUse::kNone};
    case X86_INS_NOP:
    case X86_INS_ENDBR64:
      return {Form::kCompare, FlagUse::kNone};
    default:
      break;
  }
  // All setcc and cmovcc instructions read flags and do nothing else unusual; they are recognised
  // by their names.
  const std::string_view name = instruction.mnemonic;
  if (name.starts_with("set") && instruction.detail->x86.op_count == 1) {
    return {Form::kUpdate, FlagUse::kRead};
  }
  if (name.starts_with("cmov")) return {Form::kUpdate, FlagUse::kRead};
  return IsVector(instruction) ? VectorMnemonic(instruction.id) : Mnemonic();
}

// Returns how the instruction changes the stack pointer, also for unknown instructions; nullopt:
// not known.
std::optional<int32_t> StackChange(const Disassembled& decoded) {
  if (!decoded.written_known) return std::nullopt;
  const cs_x86& x86 = decoded.operands();
  const unsigned id = decoded.id();
  const cs_x86_op& first = x86.operands[0];
  const bool changes_stack_register = x86.op_count > 0 && first.type == X86_OP_REG &&
                                      WholeRegisterNumber(first.reg) == static_cast<int>(kRsp);
  if (id == X86_INS_PUSH) return x86.op_count == 1 ? -std::max<int32_t>(first.size, 2) : 0;
  if (id == X86_INS_POP && !changes_stack_register) return first.size;
  if (id == X86_INS_PUSHFQ) return -8;
  if (id == X86_INS_POPFQ) return 8;
  if ((decoded.written_general >> kRsp & 1) == 0 && !changes_stack_register) return 0;
  if (x86.op_count != 2 || first.reg != X86_REG_RSP) return std::nullopt;
  const cs_x86_op& second = x86.operands[1];
  int64_t change = 0;
  if ((id == X86_INS_ADD || id == X86_INS_SUB) && second.type == X86_OP_IMM) {
    change = id == X86_INS_ADD ? second.imm : -second.imm;
  } else if (id == X86_INS_LEA && second.mem.base == X86_REG_RSP &&
             second.mem.index == X86_REG_INVALID) {
    change = second.mem.disp;
  } else {
    return std::nullopt;
  }
  if (change != static_cast<int32_t>(change)) return std::nullopt;
  return static_cast<int32_t>(change);
}

RegisterSet OperandRegisters(const cs_x86_op& operand) {
  RegisterSet set = 0;
  const auto add = [&set](unsigned reg) {
    const int number = WholeRegisterNumber(reg);
    if (number >= 0) set |= Bit(static_cast<unsigned>(number));
  };
  if (operand.type == X86_OP_REG) add(operand.reg);
  if (operand.type == X86_OP_MEM) {
    add(operand.mem.base);
    add(operand.mem.index);
  }
  return set;
}

std::optional<MemoryPlace> PlaceOf(const cs_x86_op& operand) {
  const int base = RegisterNumber(operand.mem.base);
  if (base < 0 || operand.mem.index != X86_REG_INVALID || operand.mem.segment != X86_REG_INVALID ||
      operand.size == 0) {
    return std::nullopt;
  }
  return MemoryPlace{static_cast<unsigned>(base), operand.mem.disp, operand.size};
}

// Whether the instruction is a xor or sub of a register with itself.
bool MakesZero(const cs_insn& instruction) {
  const cs_x86& x86 = instruction.detail->x86;
  return (instruction.id == X86_INS_XOR || instruction.id == X86_INS_SUB) && x86.op_count == 2 &&
         x86.operands[0].type == X86_OP_REG && x86.operands[1].type == X86_OP_REG &&
         x86.operands[0].reg == x86.operands[1].reg && x86.operands[0].size >= 4;
}

bool IsVectorRegister(unsigned reg) {
  return WholeRegisterNumber(reg) < 0 && reg != X86_REG_EFLAGS && reg != X86_REG_RIP;
}

}  // namespace

InstructionEffects EffectsOf(const Instruction& instruction) {
  InstructionEffects effects;
  const Disassembled* decoded = Disassembler::OfThread().Decode(instruction);
  if (decoded == nullptr) {
    effects.changes = ~RegisterSet{0};
    effects.writes_memory = effects.writes_vectors = true;
    effects.stack_change.reset();
    return effects;
  }
  const cs_x86& x86 = decoded->operands();
  const Mnemonic mnemonic = MnemonicOf(*decoded->instruction);
  const Form form = mnemonic.form;
  effects.known = form != Form::kUnknown;
  effects.stack_change = StackChange(*decoded);
  effects.changes = decoded->written_known ? decoded->written_general : ~RegisterSet{0};
  effects.reads = mnemonic.implicit_reads;
  effects.replaces = mnemonic.implicit_replaces;
  effects.reads_flags = mnemonic.flags == FlagUse::kRead;
  effects.replaces_flags = mnemonic.flags == FlagUse::kAll;
  effects.writes_below_stack = form == Form::kPush;
  effects.writes_memory = !effects.known;
  effects.writes_vectors =
      !decoded->written_known ||
      std::any_of(decoded->written.begin(), decoded->written.end(), IsVectorRegister);
  const bool is_zero = MakesZero(*decoded->instruction);
  for (uint8_t i = 0; i < x86.op_count; ++i) {
    const cs_x86_op& operand = x86.operands[i];
    const RegisterSet used = OperandRegisters(operand);
    const bool is_result =
        (i == 0 && form != Form::kCompare && form != Form::kPush) || form == Form::kExchange;
    if (operand.type == X86_OP_REG && is_result) {
      effects.changes |= used;
      effects.writes_vectors |= used == 0;
    }
    if (operand.type == X86_OP_MEM && is_result) {
      effects.writes_memory = true;
      effects.written = effects.known ? PlaceOf(operand) : std::nullopt;
    }
    const bool is_replaced = operand.type == X86_OP_REG && i == 0 && operand.size >= 4 &&
                             (form == Form::kMove || form == Form::kPop || is_zero);
    if (is_replaced) {
      effects.replaces |= used;
    } else if (!is_zero) {
      effects.reads |= used;
    }
  }
  effects.replaces &= ~effects.reads;
  return effects;
}

}  // namespace proftrace
