// x86-64 instructions, with the facts that matter for control flow and for uprobes.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace proftrace {

enum class InstructionKind : uint8_t {
  kOther,
  kPush,
  kNop,
  kEndbr64,
  kConditionalJump,
  kCountJump,  // jrcxz, loop…: a conditional jump that the kernel does not emulate
  kJump,
  kIndirectJump,
  kCall,
  kIndirectCall,
  kReturn,
  kTrap,  // ud2, hlt, int3: never passed
};

inline constexpr size_t kMaxInstructionBytes = 15;
inline constexpr uint8_t kBreakpointOpcode = 0xcc;  // int3
inline constexpr uint8_t kJumpOpcode = 0xe9;        // jmp rel32

struct Instruction {
  uint64_t address = 0;
  // The target of a direct jump or call. For an indirect one through memory at a fixed place, the
  // address of that slot; else 0.
  uint64_t target = 0;
  uint8_t size = 0;                                   // in bytes; 0 = no instruction
  std::array<uint8_t, kMaxInstructionBytes> bytes{};  // the first `size` of them
  InstructionKind kind = InstructionKind::kOther;
  // The kernel's uprobe code emulates it in the trap (arch/x86/kernel/uprobes.c: push, one-byte
  // nop, jcc, jmp, call rel32); every other one is single-stepped, at ten times the price.
  bool emulated = false;

  uint64_t next() const { return address + size; }
};

// Decodes `bytes` from the start on, one instruction after the other, up to the first bytes that
// are no instruction. Capstone gives the boundaries; the other facts are read from the opcode
// bytes.
std::vector<Instruction> DecodeAll(const uint8_t* bytes, size_t count, uint64_t address);

// General registers by their hardware numbers.
inline constexpr unsigned kRax = 0;
inline constexpr unsigned kRcx = 1;
inline constexpr unsigned kRdx = 2;
inline constexpr unsigned kRsp = 4;
inline constexpr unsigned kRbp = 5;
inline constexpr unsigned kRsi = 6;
inline constexpr unsigned kRdi = 7;
inline constexpr unsigned kR8 = 8;
inline constexpr unsigned kR9 = 9;

// Whether the instruction copies one general register to another and does nothing else.
bool IsRegisterMove(const uint8_t* bytes, size_t count);

// A set of general registers, as bits (1 << number). WrittenRegisters() returns those that an
// instruction of straight-line code may write.
using RegisterSet = uint32_t;
RegisterSet WrittenRegisters(const Instruction& where);

}  // namespace proftrace
