#include "symbols/unwinder_entry.h"

#include <cstring>
#include <vector>

#include "bpf/abi/records.h"
#include "symbols/instruction.h"

namespace proftrace {
namespace {

constexpr size_t kMostBytes = 16;

// The bytes of the only instruction before the return, but for endbr64.
std::optional<Instruction> OnlyInstruction(const CodeImage& image, uint64_t function) {
  uint8_t bytes[kMostBytes];
  const size_t got = image.ReadCode(function, bytes, sizeof(bytes));
  std::vector<Instruction> code = DecodeAll(bytes, got, function);
  if (!code.empty() && code.front().kind == InstructionKind::kEndbr64) code.erase(code.begin());
  if (code.size() < 2 || code[1].kind != InstructionKind::kReturn) return std::nullopt;
  return code.front();
}

// `mov` between memory at rdi + displacement and a register, by its opcode and ModRM byte.
std::optional<int32_t> Displacement(const Instruction& instruction, uint8_t opcode, uint8_t modrm) {
  const uint8_t expected[] = {0x48, opcode, modrm};
  int32_t displacement = 0;
  if (instruction.size != sizeof(expected) + sizeof(displacement) ||
      std::memcmp(instruction.bytes.data(), expected, sizeof(expected)) != 0) {
    return std::nullopt;
  }
  std::memcpy(&displacement, instruction.bytes.data() + sizeof(expected), sizeof(displacement));
  return displacement;
}

}  // namespace

std::optional<RowProbe> FindUnwinderEntry(const CodeImage& image, uint64_t set_ip,
                                          uint64_t get_cfa) {
  const auto setter = OnlyInstruction(image, set_ip);
  const auto getter = OnlyInstruction(image, get_cfa);
  if (!setter || !getter) return std::nullopt;
  const auto address_at = Displacement(*setter, 0x89, 0xb7);     // mov %rsi, address_at(%rdi)
  const auto stack_pointer = Displacement(*getter, 0x8b, 0x87);  // mov stack_pointer(%rdi), %rax
  // struct _Unwind_Context of libgcc: ..., void *cfa; void *ra; ...
  if (!address_at || !stack_pointer || *address_at != *stack_pointer + 8 || *stack_pointer <= 0 ||
      *stack_pointer > INT16_MAX) {
    return std::nullopt;
  }
  RowProbe probe;
  probe.role = abi::PT_ROLE_UNWOUND;
  probe.handle_register = kRdi;
  probe.handle_offset = static_cast<int16_t>(*stack_pointer);
  return probe;
}

}  // namespace proftrace
