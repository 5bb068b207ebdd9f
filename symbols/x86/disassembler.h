// Decodes the operands of x86-64 instructions with Capstone. Only code that follows data includes
// this header, because it brings in Capstone's types.
#pragma once

#include <capstone/capstone.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "symbols/x86/instruction.h"

namespace proftrace {

// One instruction with its operands. Decoded instructions are kept by their bytes, so that the
// targets of jumps and calls may be those of another address: Instruction::target has the right
// one.
struct Disassembled {
  const cs_insn* instruction = nullptr;
  std::vector<uint16_t> written;    // registers by Capstone's number
  RegisterSet written_general = 0;  // general registers of which any part is written
  bool written_known = false;       // false: it is not known which registers are written

  unsigned id() const { return instruction->id; }
  const cs_x86& operands() const { return instruction->detail->x86; }
};

// Decodes instructions and keeps the results by their bytes, because Capstone makes a text of every
// instruction that it decodes, which takes most of its time, and because compilers use the same
// instructions again and again.
class Disassembler {
 public:
  // Returns the disassembler of the calling thread.
  static Disassembler& OfThread();

  Disassembler();
  ~Disassembler();
  Disassembler(const Disassembler&) = delete;
  Disassembler& operator=(const Disassembler&) = delete;

  // Decodes an instruction. Null: the bytes are no instruction. The result is valid until the next
  // call.
  const Disassembled* Decode(const Instruction& where);

 private:
  struct Entry {
    std::array<uint8_t, kMaxInstructionBytes> bytes{};
    uint8_t size = 0;  // 0 = nothing is kept here
    cs_insn* instruction = nullptr;
    Disassembled decoded;
  };
  static constexpr size_t kEntries = 512;

  csh handle_ = 0;
  std::vector<Entry> entries_;
};

// Returns the hardware number of a general register by Capstone's number (x86_reg): rax 0, rcx 1,
// rdx 2, rbx 3, rsp 4, rbp 5, rsi 6, rdi 7, r8 … r15; -1 for a part of a register and for all other
// registers.
int RegisterNumber(unsigned capstone_register);
// Returns the hardware number of a general register, also for a part of it; -1 for all other
// registers.
int WholeRegisterNumber(unsigned capstone_register);

// Whether the register is ah, bh, ch or dh.
bool IsHighByte(unsigned capstone_register);

}  // namespace proftrace
