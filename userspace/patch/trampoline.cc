#include "userspace/patch/trampoline.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <limits>
#include <span>

#include "bpf/abi/patch_memory.h"
#include "bpf/abi/records.h"
#include "symbols/x86/instruction.h"
#include "symbols/x86/moved_code.h"
#include "userspace/inject/jump_distance.h"
#include "userspace/patch/recorder_code.h"

namespace proftrace {
namespace {

constexpr std::initializer_list<uint8_t> kJump = {0xe9};
constexpr std::initializer_list<uint8_t> kCall = {0xe8};
constexpr std::initializer_list<uint8_t> kLeaRcx = {0x48, 0x8d, 0x0d};  // lea distance(%rip), %rcx
constexpr int32_t kRedZoneBytes = 128;

// The registers that the entry points of the recorder change (recorder_code.h): those that
// recorder_code.S changes itself, and those that its C code may change. kFullWrites: the entry
// point saves all registers but those in which it takes its arguments.
constexpr unsigned kR10 = 10;
constexpr unsigned kR11 = 11;
constexpr unsigned kPlainWrites[] = {kRax, kRcx, kRdx, kR8, kR10, kR11};
constexpr unsigned kOperatorWrites[] = {kRax, kRcx, kRdx, kRdi, kR8, kR10, kR11};
constexpr unsigned kCallWrites[] = {kRax, kRcx, kRdx, kRsi, kRdi, kR8, kR9, kR10, kR11};
constexpr unsigned kFullWrites[] = {kR10, kR11};

class CodeWriter {
 public:
  explicit CodeWriter(uint64_t to) : to_(to) {}

  void Add(std::span<const uint8_t> bytes) {
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
  }
  void Add(std::initializer_list<uint8_t> bytes) { bytes_.insert(bytes_.end(), bytes); }
  void Add32(uint32_t value) {
    uint8_t bytes[4];
    std::memcpy(bytes, &value, sizeof(value));
    Add(bytes);
  }
  // Adds a mov to rdi: of a register, or of the memory at an offset from one.
  void LoadRdi(unsigned base) { Add({Wide(base), 0x8b, static_cast<uint8_t>(0xf8 | (base & 7))}); }
  void LoadRdi(unsigned base, int32_t offset) {
    Add({Wide(base), 0x8b, static_cast<uint8_t>(0xb8 | (base & 7))});
    if ((base & 7) == kRsp) Add({0x24});  // rsp and r12 need this byte
    Add32(static_cast<uint32_t>(offset));
  }
  // Adds an instruction whose last 4 bytes are the distance from its end to `target`. Returns false
  // if that is too far.
  [[nodiscard]] bool AddRelative(std::initializer_list<uint8_t> opcode, uint64_t target) {
    const auto distance = static_cast<int64_t>(target - (here() + opcode.size() + 4));
    if (distance > std::numeric_limits<int32_t>::max() ||
        distance < std::numeric_limits<int32_t>::min()) {
      return false;
    }
    Add(opcode);
    Add32(static_cast<uint32_t>(static_cast<int32_t>(distance)));
    return true;
  }
  void Push(unsigned number) {
    if (number >= 8) Add({0x41});
    Add({static_cast<uint8_t>(0x50 + (number & 7))});
  }
  void Pop(unsigned number) {
    if (number >= 8) Add({0x41});
    Add({static_cast<uint8_t>(0x58 + (number & 7))});
  }
  uint64_t here() const { return to_ + bytes_.size(); }
  std::vector<uint8_t> Take() { return std::move(bytes_); }

 private:
  static uint8_t Wide(unsigned base) { return base >= 8 ? 0x49 : 0x48; }

  uint64_t to_;
  std::vector<uint8_t> bytes_;
};

absl::Status TooFar() {
  return absl::OutOfRangeError("there is no free memory within 2 GiB of the code");
}

uint64_t RoleOf(const PatchSpot& spot) { return spot.cookie >> 16 & 0xff; }

bool IsOperator(const PatchSpot& spot) {
  return RoleOf(spot) == abi::PT_ROLE_OPERATOR_BEGIN || RoleOf(spot) == abi::PT_ROLE_OPERATOR_CALL;
}

// Whether the spot is an operator's begin that is recorded without inputs and Python stack.
bool IsPlainOperator(const PatchSpot& spot) {
  return RoleOf(spot) == abi::PT_ROLE_OPERATOR_BEGIN && !spot.has_stack;
}

// Returns the registers that the recorder changes when the spot calls it (recorder_code.h).
std::span<const unsigned> Writes(const PatchSpot& spot) {
  if (spot.cookie == 0) return kPlainWrites;
  if (IsPlainOperator(spot)) return kOperatorWrites;
  return IsOperator(spot) ? std::span<const unsigned>(kCallWrites) : kFullWrites;
}

// Calls the recorder for a plain record. `up`: the distance from the stack pointer at the call to
// the one that is recorded.
bool AddPlainCall(const PatchSpot& spot, int32_t up, uint64_t recorder, CodeWriter* code) {
  code->Add({0x4c, 0x8d, 0x9c, 0x24});  // lea up(%rsp), %r11
  code->Add32(static_cast<uint32_t>(up));
  code->Add({0x41, 0xba});  // mov $info, %r10d
  code->Add32(spot.info);
  const auto kind = spot.info >> 16 & 0xff;
  if (spot.has_stack && (kind == abi::PT_SPAN_END || kind == abi::PT_CATCH)) {
    recorder += static_cast<uint64_t>(proftrace_recorder_end - proftrace_recorder_code);
  }
  return code->AddRelative(kCall, recorder);
}

bool AddFullCall(const PatchSpot& spot, int32_t up, uint64_t recorder, CodeWriter* code) {
  code->Add({0x4c, 0x8d, 0x9c, 0x24});  // lea up(%rsp), %r11
  code->Add32(static_cast<uint32_t>(up));
  code->Add({0x49, 0xba});  // movabs $cookie, %r10
  code->Add32(static_cast<uint32_t>(spot.cookie));
  code->Add32(static_cast<uint32_t>(spot.cookie >> 32));
  recorder += static_cast<uint64_t>(proftrace_recorder_full - proftrace_recorder_code);
  return code->AddRelative(kCall, recorder);
}

// Calls the recorder for an operator's begin. Every operator passes here, so the trampoline has its
// facts ready as constants, taken from the cookie (records.h); cookies of PT_ROLE_OPERATOR_CALL are
// laid out like those of PT_ROLE_OPERATOR_BEGIN.
bool AddOperatorCall(const PatchSpot& spot, int32_t up, uint64_t recorder, uint64_t signature,
                     CodeWriter* code) {
  const auto base = static_cast<unsigned>(spot.cookie >> 24 & 0xf);
  if ((spot.cookie >> 24 & PT_KEY_SET_IN_MEMORY) != 0) {
    const auto offset = static_cast<int16_t>(spot.cookie >> 32);
    code->LoadRdi(base, base == kRsp ? offset + up : offset);
  } else {
    code->LoadRdi(base);
  }
  const auto frame_words = static_cast<int32_t>(spot.cookie >> 48 & (PT_FRAME_WORDS_LIMIT - 1));
  const uint32_t facts =
      static_cast<uint32_t>((spot.cookie & 0xffff) | (spot.cookie >> 57 & 0x3f) << 16 |
                            spot.cookie >> 63 << 24) |
      uint32_t{spot.has_stack && spot.ends_are_seen} << 25;
  if (IsPlainOperator(spot)) {
    code->Add({0x4c, 0x8d, 0x9c, 0x24});  // lea up(%rsp), %r11
    code->Add32(static_cast<uint32_t>(up + frame_words * 8));
    code->Add({0x41, 0xba});  // mov $facts, %r10d
    code->Add32(facts);
    return code->AddRelative(kCall, recorder + static_cast<uint64_t>(proftrace_recorder_operator -
                                                                     proftrace_recorder_code));
  }
  code->Add({0x48, 0x8d, 0x94, 0x24});  // lea up(%rsp), %rdx
  code->Add32(static_cast<uint32_t>(up + frame_words * 8));
  code->Add({0xbe});  // mov $facts, %esi
  code->Add32(facts);
  if (RoleOf(spot) == abi::PT_ROLE_OPERATOR_CALL) {
    code->Add({0x4c, 0x8d, 0x84, 0x24});  // lea up(%rsp), %r8
    code->Add32(static_cast<uint32_t>(up));
    if (!code->AddRelative(kLeaRcx, signature)) return false;
    const uint8_t* call = spot.has_stack ? proftrace_recorder_stack_call : proftrace_recorder_call;
    recorder += static_cast<uint64_t>(call - proftrace_recorder_code);
  } else {
    recorder += static_cast<uint64_t>(proftrace_on_operator_stack - proftrace_recorder_code);
  }
  return code->AddRelative(kCall, recorder);
}

// Calls the recorder, and keeps all registers and flags that are still needed.
bool AddRecording(const PatchSpot& spot, uint64_t recorder, uint64_t signature, CodeWriter* code) {
  const PatchWindow& window = spot.window;
  const bool is_full = spot.cookie != 0 && !IsOperator(spot);
  std::vector<unsigned> saved;
  std::ranges::copy_if(Writes(spot), std::back_inserter(saved), [&](unsigned number) {
    return is_full || (window.dead >> number & 1) == 0;  // the full recorder reads the saved values
  });
  int32_t pushed = 0;
  if (window.red_zone_may_be_used) {
    code->Add({0x48, 0x8d, 0x64, 0x24, 0x80});  // lea -128(%rsp), %rsp
    pushed += kRedZoneBytes;
  }
  if (window.flags_are_live) {
    code->Add({0x9c});  // pushfq
    pushed += 8;
  }
  for (auto number = saved.rbegin(); number != saved.rend(); ++number) {
    code->Push(*number);
    pushed += 8;
  }
  const int32_t up = pushed + window.stack_change;
  const bool is_called = is_full            ? AddFullCall(spot, up, recorder, code)
                         : spot.cookie != 0 ? AddOperatorCall(spot, up, recorder, signature, code)
                                            : AddPlainCall(spot, up, recorder, code);
  if (!is_called) return false;
  for (const unsigned number : saved) code->Pop(number);
  if (window.flags_are_live) code->Add({0x9d});  // popfq
  if (window.red_zone_may_be_used) {
    code->Add({0x48, 0x8d, 0xa4, 0x24, 0x80, 0x00, 0x00, 0x00});  // lea 128(%rsp), %rsp
  }
  return true;
}

}  // namespace

absl::StatusOr<std::vector<uint8_t>> JumpBytes(const PatchSpot& spot, uint64_t target) {
  CodeWriter code(spot.address());
  if (!code.AddRelative(kJump, target)) return TooFar();
  if (!IsSafeDistance(static_cast<int32_t>(target - code.here()))) {
    return absl::InternalError("a jump's distance looks like a breakpoint");
  }
  return code.Take();
}

size_t TrampolineBytes(const PatchSpot& spot) {
  const uint64_t near = RoundUp(spot.address(), kTrampolineAlignment);
  const absl::StatusOr<std::vector<uint8_t>> code = MakeTrampoline(spot, near, near, near);
  return code.ok() ? code->size() : kMostTrampolineBytes;
}

absl::StatusOr<std::vector<uint8_t>> MakeTrampoline(const PatchSpot& spot, uint64_t to,
                                                    uint64_t recorder, uint64_t signature) {
  const PatchWindow& window = spot.window;
  const std::span<const uint8_t> original(spot.original);
  const uint64_t before = window.recorder - window.address;
  CodeWriter code(to);
  absl::StatusOr<std::vector<uint8_t>> moved =
      MoveCode(original.first(before), spot.address(), code.here(), MovedEnd::kFallThrough);
  if (!moved.ok()) return moved.status();
  code.Add(*moved);
  if (!AddRecording(spot, recorder, signature, &code)) return TooFar();
  if (before == original.size()) {
    if (!code.AddRelative(kJump, spot.bias + window.end())) return TooFar();
    return code.Take();
  }
  moved = MoveCode(original.subspan(before), spot.bias + window.recorder, code.here());
  if (!moved.ok()) return moved.status();
  code.Add(*moved);
  return code.Take();
}

}  // namespace proftrace
