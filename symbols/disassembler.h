// The operands of x86-64 instructions, by Capstone. Only the code that follows data needs them:
// this header brings Capstone's types.
#pragma once

#include <capstone/capstone.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "symbols/instruction.h"

namespace proftrace {

// One instruction in full. Of jumps and calls the operands are not of this place: Instruction has
// where they lead.
struct Disassembled {
  const cs_insn* instruction = nullptr;
  std::vector<uint16_t> written;    // registers by Capstone's number
  RegisterSet written_general = 0;  // general registers of which any part is written
  bool written_known = false;       // else nothing is known of what it writes

  unsigned id() const { return instruction->id; }
  const cs_x86& operands() const { return instruction->detail->x86; }
};

// Capstone makes a text of every instruction that it decodes, which takes most of its time, and
// compilers repeat themselves: what was decoded is kept by its bytes.
class Disassembler {
 public:
  // The calling thread's own.
  static Disassembler& OfThread();

  Disassembler();
  ~Disassembler();
  Disassembler(const Disassembler&) = delete;
  Disassembler& operator=(const Disassembler&) = delete;

  // Nothing where the bytes are no instruction. Valid until the next call.
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

// The number of a general register by Capstone's for it (x86_reg): rax 0, rcx 1, rdx 2, rbx 3, rsp
// 4, rbp 5, rsi 6, rdi 7, r8 … r15; -1 for a part of one, and for all others.
int RegisterNumber(unsigned capstone_register);
// Likewise, of the register that it is a part of.
int WholeRegisterNumber(unsigned capstone_register);

// ah, bh, ch, dh.
bool IsHighByte(unsigned capstone_register);

}  // namespace proftrace
