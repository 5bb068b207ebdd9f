#include "userspace/inject/patch_site.h"

#include <absl/status/status.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <string>

#include "symbols/x86/disassembler.h"
#include "symbols/x86/instruction.h"
#include "userspace/inject/jump_distance.h"

namespace proftrace {
namespace {

constexpr uint64_t kPageBytes = 4096;
constexpr size_t kMostBetweenPushes = 2;  // the most register moves before a second probe
constexpr uint8_t kNop = 0x90;
constexpr uint8_t kCall = 0xe8;
// lea -128(%rsp), %rsp; pushfq; push %rax. The stack pointer is moved past the red zone by lea,
// because lea does not change the flags.
constexpr std::array<uint8_t, 7> kEnter = {0x48, 0x8d, 0x64, 0x24, 0x80, 0x9c, 0x50};
// pop %rax; popfq; lea 128(%rsp), %rsp.
constexpr std::array<uint8_t, 10> kLeave = {0x58, 0x9d, 0x48, 0x8d, 0xa4,
                                            0x24, 0x80, 0x00, 0x00, 0x00};

// Whether the instruction does the same at another address.
bool IsMovable(const Instruction& instruction) {
  switch (instruction.kind) {
    case InstructionKind::kOther:
    case InstructionKind::kPush:
    case InstructionKind::kNop:
      break;
    default:
      return false;
  }
  const Disassembled* decoded = Disassembler::OfThread().Decode(instruction);
  if (decoded == nullptr) return false;
  const cs_x86& operands = decoded->operands();
  for (uint8_t i = 0; i < operands.op_count; ++i) {
    const cs_x86_op& operand = operands.operands[i];
    if (operand.type == X86_OP_MEM && operand.mem.base == X86_REG_RIP) return false;
  }
  return true;
}

void AppendRelative(uint8_t opcode, int32_t distance, std::vector<uint8_t>* bytes) {
  bytes->push_back(opcode);
  uint8_t encoded[sizeof(distance)];
  std::memcpy(encoded, &distance, sizeof(distance));
  bytes->insert(bytes->end(), encoded, encoded + sizeof(distance));
}

absl::StatusOr<int32_t> Distance(uint64_t from_end, uint64_t target) {
  const auto distance = static_cast<int64_t>(target - from_end);
  if (distance > std::numeric_limits<int32_t>::max() ||
      distance < std::numeric_limits<int32_t>::min()) {
    return absl::OutOfRangeError("there is no free memory within 2 GiB of the code");
  }
  return static_cast<int32_t>(distance);
}

// Returns the index of the first instruction behind all those at which proftrace may put a probe at
// a function's begin (FindBeginSite() of symbols/x86/exit_sites.h). A jump over such an instruction
// would be torn: when the probe goes, the kernel writes the first byte of the file's instruction
// into it.
size_t BehindProbes(const std::vector<Instruction>& instructions) {
  size_t first = 0;
  if (!instructions.empty() && instructions[0].kind == InstructionKind::kEndbr64) ++first;
  size_t begin = first;
  while (begin < instructions.size() && IsMovable(instructions[begin])) {
    if (instructions[begin].emulated) {
      first = begin;
      break;
    }
    ++begin;
  }
  ++first;
  size_t next = first;
  while (next < instructions.size() && next < first + kMostBetweenPushes &&
         IsRegisterMove(instructions[next].bytes.data(), instructions[next].size)) {
    ++next;
  }
  const bool is_push =
      next < instructions.size() && instructions[next].kind == InstructionKind::kPush;
  return is_push ? next + 1 : first;
}

}  // namespace

absl::StatusOr<PatchSite> FindPatchSite(std::span<const uint8_t> code, uint64_t address) {
  const std::vector<Instruction> instructions = DecodeAll(code.data(), code.size(), address);
  const size_t first = BehindProbes(instructions);
  PatchSite site;
  size_t last = first;
  size_t size = 0;
  for (; last < instructions.size() && size < kJumpBytes; ++last) {
    if (!IsMovable(instructions[last])) break;
    size += instructions[last].size;
  }
  if (size < kJumpBytes || size > kMostPatchBytes) {
    return absl::NotFoundError("the function's first instructions cannot be moved");
  }
  site.address = instructions[first].address;
  site.size = static_cast<uint8_t>(size);
  if (site.address / kPageBytes != (site.end() - 1) / kPageBytes) {
    return absl::NotFoundError("the function's first instructions lie in two pages");
  }
  for (const Instruction& instruction : instructions) {
    if (site.HasInside(instruction.target)) {
      return absl::NotFoundError("the function jumps into its first instructions");
    }
  }
  std::copy_n(code.begin() + static_cast<ptrdiff_t>(site.address - address), size,
              site.original.begin());
  return site;
}

absl::StatusOr<std::vector<uint8_t>> JumpTo(const PatchSite& site, uint64_t target) {
  const absl::StatusOr<int32_t> distance = Distance(site.address + kJumpBytes, target);
  if (!distance.ok()) return distance.status();
  if (!IsSafeDistance(*distance)) {
    return absl::InternalError("a jump's distance looks like a breakpoint");
  }
  std::vector<uint8_t> bytes;
  AppendRelative(kJumpOpcode, *distance, &bytes);
  bytes.resize(site.size, kNop);
  return bytes;
}

size_t StubBytes(const PatchSite& site) {
  return kEnter.size() + kJumpBytes + kLeave.size() + site.size + kJumpBytes;
}

absl::StatusOr<std::vector<uint8_t>> MakeStub(const PatchSite& site, uint64_t address,
                                              uint64_t work) {
  std::vector<uint8_t> bytes(kEnter.begin(), kEnter.end());
  const absl::StatusOr<int32_t> to_work = Distance(address + bytes.size() + kJumpBytes, work);
  if (!to_work.ok()) return to_work.status();
  AppendRelative(kCall, *to_work, &bytes);
  bytes.insert(bytes.end(), kLeave.begin(), kLeave.end());
  bytes.insert(bytes.end(), site.original.begin(), site.original.begin() + site.size);
  const absl::StatusOr<int32_t> back = Distance(address + bytes.size() + kJumpBytes, site.end());
  if (!back.ok()) return back.status();
  AppendRelative(kJumpOpcode, *back, &bytes);
  return bytes;
}

}  // namespace proftrace
