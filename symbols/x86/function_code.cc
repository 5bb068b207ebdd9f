#include "symbols/x86/function_code.h"

#include <absl/status/status.h>

#include <algorithm>
#include <span>

#include "symbols/x86/disassembler.h"
#include "symbols/x86/jump_table.h"

namespace proftrace {
namespace {

// The largest function that is read, as in the flow graph. The TorchScript interpreter has 70 kB.
constexpr uint64_t kMaxBytes = 128 * 1024;
constexpr size_t kLookBack = 12;
constexpr uint8_t kGroupFf = 0xff;

// Returns the ModRM byte of an indirect jump; the SIB byte lies behind it.
const uint8_t* ModRmOf(const Instruction& jump) {
  for (size_t i = 0; i + 1 < jump.size; ++i) {
    if (jump.bytes[i] == kGroupFf) return jump.bytes.data() + i + 1;
  }
  return nullptr;
}

// Whether the operand is a word in memory without an index: an import, or a slot of a vtable. A
// jump table has an index.
bool IsPlainSlot(const cs_x86_op& operand) {
  return operand.type == X86_OP_MEM && operand.mem.index == X86_REG_INVALID;
}

// Whether the instruction is a pop of rbx, rbp or r12 to r15, as at the end of a frame.
bool RestoresRegister(const Instruction& instruction) {
  const auto& bytes = instruction.bytes;
  if (instruction.size == 1) return bytes[0] == 0x5b || bytes[0] == 0x5d;
  return instruction.size == 2 && bytes[0] == 0x41 && bytes[1] >= 0x5c && bytes[1] <= 0x5f;
}

// Whether the indirect jump that is the last of `code` calls a function in place of a return.
bool IsTailCall(std::span<const Instruction> code) {
  const Instruction& jump = code.back();
  const uint8_t* const modrm = ModRmOf(jump);
  if (modrm == nullptr) return false;
  if (*modrm >> 6 != 3) {
    const bool has_sib = (*modrm & 7) == 4;
    return !has_sib || (modrm[1] >> 3 & 7) == 4;
  }
  const bool has_high_register = modrm - 2 >= jump.bytes.data() && (modrm[-2] & 0xf1) == 0x41;
  const int reg = (*modrm & 7) | (has_high_register ? 8 : 0);
  const bool is_scratch = reg < 12 && reg != static_cast<int>(kRbp) && reg != 3;
  if (is_scratch && code.size() > 1 && RestoresRegister(code[code.size() - 2])) return true;
  for (size_t steps = 1; steps <= kLookBack && steps < code.size(); ++steps) {
    const Instruction& before = code[code.size() - 1 - steps];
    if ((WrittenRegisters(before) >> reg & 1) == 0) continue;
    const Disassembled* decoded = Disassembler::OfThread().Decode(before);
    if (decoded == nullptr || decoded->operands().op_count != 2) return false;
    const bool is_load = decoded->id() == X86_INS_MOV || decoded->id() == X86_INS_LEA;
    return is_load && IsPlainSlot(decoded->operands().operands[1]);
  }
  return false;
}

// Whether an operand is at a negative distance from the stack pointer.
bool NamesBelowStack(const Instruction& instruction) {
  const auto& bytes = instruction.bytes;
  // A quick test comes first: such an operand has a ModRM byte with a SIB byte and a displacement,
  // and the SIB byte 0x24, which most instructions do not have.
  bool may = false;
  for (size_t i = 1; i + 2 < instruction.size && !may; ++i) {
    if (bytes[i + 1] != 0x24) continue;
    const unsigned form = bytes[i] & 0xc7;
    may = (form == 0x44 && bytes[i + 2] >= 0x80) ||
          (form == 0x84 && i + 5 < instruction.size && bytes[i + 5] >= 0x80);
  }
  if (!may) return false;
  const Disassembled* decoded = Disassembler::OfThread().Decode(instruction);
  if (decoded == nullptr) return true;
  const cs_x86& x86 = decoded->operands();
  return std::any_of(x86.operands, x86.operands + x86.op_count, [](const cs_x86_op& operand) {
    return operand.type == X86_OP_MEM && operand.mem.base == X86_REG_RSP && operand.mem.disp < 0;
  });
}

}  // namespace

absl::StatusOr<FunctionCode> FunctionCode::Read(const CodeImage& image, uint64_t start,
                                                uint64_t end) {
  if (end <= start || end - start > kMaxBytes) {
    return absl::OutOfRangeError("its function is too large");
  }
  std::vector<uint8_t> bytes(end - start);
  bytes.resize(image.ReadCode(start, bytes.data(), bytes.size()));
  FunctionCode code;
  code.start_ = start;
  code.end_ = end;
  code.instructions_ = DecodeAll(bytes.data(), bytes.size(), start);
  if (code.instructions_.empty() || code.instructions_.back().next() != end) {
    return absl::InvalidArgumentError("its function's code does not decode");
  }
  for (size_t i = 0; i < code.instructions_.size(); ++i) {
    const Instruction& instruction = code.instructions_[i];
    if (instruction.kind == InstructionKind::kIndirectJump) {
      if (const absl::Status added = code.AddTableTargets(image, i); !added.ok()) return added;
    } else if (instruction.kind != InstructionKind::kIndirectCall && instruction.target >= start &&
               instruction.target < end) {
      code.targets_.push_back(instruction.target);
    }
  }
  code.AddTargets({});
  code.LookAtCalls(image);
  return code;
}

absl::Status FunctionCode::AddTableTargets(const CodeImage& image, size_t jump) {
  const std::span<const Instruction> code(instructions_.data(), jump + 1);
  const JumpTable table = ReadJumpTable(image, code);
  size_t added = 0;
  for (size_t i = 0; i < table.targets.size(); ++i) {
    if (IndexAt(table.targets[i])) {
      targets_.push_back(table.targets[i]);
      ++added;
    } else if (i >= table.count || table.count == table.targets.size()) {
      break;  // the words behind are not part of the table
    }
  }
  if (added > 0 || IsTailCall(code)) return absl::OkStatus();
  return absl::NotFoundError("its function jumps to places that are not known");
}

std::optional<size_t> FunctionCode::IndexAt(uint64_t address) const {
  const auto found =
      std::lower_bound(instructions_.begin(), instructions_.end(), address,
                       [](const Instruction& i, uint64_t a) { return i.address < a; });
  if (found == instructions_.end() || found->address != address) return std::nullopt;
  return static_cast<size_t>(found - instructions_.begin());
}

bool FunctionCode::IsTarget(uint64_t address) const {
  return std::binary_search(targets_.begin(), targets_.end(), address);
}

bool FunctionCode::HasTargetInside(uint64_t first, uint64_t last) const {
  const auto after = std::upper_bound(targets_.begin(), targets_.end(), first);
  return after != targets_.end() && *after < last;
}

void FunctionCode::AddTargets(const std::vector<uint64_t>& addresses) {
  targets_.insert(targets_.end(), addresses.begin(), addresses.end());
  std::sort(targets_.begin(), targets_.end());
  targets_.erase(std::unique(targets_.begin(), targets_.end()), targets_.end());
}

void FunctionCode::LookAtCalls(const CodeImage& image) {
  bool has_calls = false;
  for (const Instruction& instruction : instructions_) {
    if (instruction.kind == InstructionKind::kIndirectCall) {
      has_calls = true;
      calls_elsewhere_ |= !IsDescriptorCall(instruction);
    } else if (instruction.kind == InstructionKind::kCall) {
      has_calls = true;
      calls_elsewhere_ |= image.IsPltStub(instruction.target) &&
                          image.CalleeName(instruction.target) != "__tls_get_addr";
    }
  }
  may_use_red_zone_ =
      !has_calls || std::any_of(instructions_.begin(), instructions_.end(), NamesBelowStack);
}

bool IsDescriptorCall(const Instruction& instruction) {
  return instruction.size == 2 && instruction.bytes[0] == kGroupFf && instruction.bytes[1] == 0x10;
}

}  // namespace proftrace
