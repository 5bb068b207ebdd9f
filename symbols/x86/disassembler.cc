#include "symbols/x86/disassembler.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace proftrace {
namespace {

// Returns the FNV-1a hash of the instruction's bytes.
size_t HashOf(const Instruction& where) {
  uint64_t hash = 0xcbf29ce484222325;
  for (size_t i = 0; i < where.size; ++i) hash = (hash ^ where.bytes[i]) * 0x100000001b3;
  return hash ^ hash >> 32;
}

}  // namespace

Disassembler& Disassembler::OfThread() {
  thread_local Disassembler own;
  return own;
}

Disassembler::Disassembler() : entries_(kEntries) {
  if (cs_open(CS_ARCH_X86, CS_MODE_64, &handle_) != CS_ERR_OK) return;
  cs_option(handle_, CS_OPT_DETAIL, CS_OPT_ON);
}

Disassembler::~Disassembler() {
  for (const Entry& entry : entries_) {
    if (entry.instruction != nullptr) cs_free(entry.instruction, 1);
  }
  if (handle_ != 0) cs_close(&handle_);
}

const Disassembled* Disassembler::Decode(const Instruction& where) {
  if (handle_ == 0 || where.size == 0) return nullptr;
  Entry& entry = entries_[HashOf(where) % kEntries];
  if (entry.size == where.size && entry.bytes == where.bytes) return &entry.decoded;
  entry.size = 0;
  if (entry.instruction == nullptr) entry.instruction = cs_malloc(handle_);
  const uint8_t* at = where.bytes.data();
  size_t left = where.size;
  uint64_t address = where.address;
  if (entry.instruction == nullptr ||
      !cs_disasm_iter(handle_, &at, &left, &address, entry.instruction)) {
    return nullptr;
  }
  Disassembled& decoded = entry.decoded;
  decoded = Disassembled();
  decoded.instruction = entry.instruction;
  cs_regs read;
  cs_regs written;
  uint8_t read_count = 0;
  uint8_t written_count = 0;
  decoded.written_known = cs_regs_access(handle_, entry.instruction, read, &read_count, written,
                                         &written_count) == CS_ERR_OK;
  if (decoded.written_known) decoded.written.assign(written, written + written_count);
  for (const uint16_t reg : decoded.written) {
    const int number = WholeRegisterNumber(reg);
    if (number >= 0) decoded.written_general |= RegisterSet{1} << number;
  }
  entry.bytes = where.bytes;
  entry.size = where.size;
  return &decoded;
}

RegisterSet WrittenRegisters(const Instruction& where) {
  const Disassembled* decoded = Disassembler::OfThread().Decode(where);
  return decoded != nullptr && decoded->written_known ? decoded->written_general : ~RegisterSet{0};
}

int RegisterNumber(unsigned capstone_register) {
  constexpr x86_reg kRegisters[] = {X86_REG_RAX, X86_REG_RCX, X86_REG_RDX, X86_REG_RBX,
                                    X86_REG_RSP, X86_REG_RBP, X86_REG_RSI, X86_REG_RDI,
                                    X86_REG_R8,  X86_REG_R9,  X86_REG_R10, X86_REG_R11,
                                    X86_REG_R12, X86_REG_R13, X86_REG_R14, X86_REG_R15};
  const auto* const it = std::find(std::begin(kRegisters), std::end(kRegisters), capstone_register);
  return it == std::end(kRegisters) ? -1 : static_cast<int>(it - std::begin(kRegisters));
}

bool IsHighByte(unsigned reg) {
  return reg == X86_REG_AH || reg == X86_REG_BH || reg == X86_REG_CH || reg == X86_REG_DH;
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

}  // namespace proftrace
