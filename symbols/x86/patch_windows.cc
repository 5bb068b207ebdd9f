#include "symbols/x86/patch_windows.h"

#include <algorithm>
#include <array>
#include <tuple>

#include "symbols/x86/instruction.h"
#include "symbols/x86/liveness.h"
#include "symbols/x86/moved_code.h"

namespace proftrace {
namespace {

constexpr uint64_t kPageBytes = 4096;
constexpr uint64_t kFunctionAlignment = 16;
// The largest distance between the begin of a window and its point, in bytes.
constexpr uint64_t kReach = 40;
// How many dead registers a recorder can use. More are no advantage.
constexpr int kWantedDead = 3;

// Reasons why there is no window, ordered by how close they come to one. Where there are several,
// the last is shown.
enum class Refusal : uint8_t {
  kNotAnInstruction,
  kFirstInstruction,
  kNoRoom,
  kNotMovable,
  kTarget,
  kStackPointer,
  kPage,
  kOtherPoint,
  kNone,
};

std::string_view ReasonOf(Refusal refusal) {
  switch (refusal) {
    case Refusal::kNotAnInstruction:
      return "no instruction begins there";
    case Refusal::kFirstInstruction:
      return "there is room at the function's first instruction only";
    case Refusal::kNoRoom:
      return "no 5 bytes of code run in one go there";
    case Refusal::kNotMovable:
      return "its instructions cannot be moved";
    case Refusal::kTarget:
      return "something jumps into the room that it has";
    case Refusal::kStackPointer:
      return "the stack pointer changes by an unknown amount";
    case Refusal::kPage:
      return "the jump would lie in two pages";
    case Refusal::kOtherPoint:
      return "another probe takes the room that it has";
    case Refusal::kNone:
      break;
  }
  return {};
}

// Whether the next instruction always runs after this one, and this one can be moved.
bool IsStraight(const Instruction& instruction) {
  switch (instruction.kind) {
    case InstructionKind::kOther:
    case InstructionKind::kPush:
    case InstructionKind::kNop:
      return WhyNotMovable(instruction).empty();
    default:
      return false;
  }
}

// Whether the instruction is a jump of the same length and opcode as ours. Tools that set a
// breakpoint at it save and restore the opcode and emulate the jump in the file, which does no
// harm.
bool IsJumpAlone(const Instruction& instruction) {
  return instruction.kind == InstructionKind::kJump && instruction.size == kWindowBytes &&
         instruction.bytes[0] == kJumpOpcode;
}

bool IsPadding(const Instruction& instruction) {
  if (instruction.kind == InstructionKind::kNop || instruction.bytes[0] == kBreakpointOpcode)
    return true;
  const InstructionEffects effects = EffectsOf(instruction);
  // A long nop is 0f 1f, behind prefixes.
  size_t at = 0;
  while (at < instruction.size &&
         (instruction.bytes[at] == 0x66 || instruction.bytes[at] == 0x2e)) {
    ++at;
  }
  return effects.known && at + 1 < instruction.size && instruction.bytes[at] == 0x0f &&
         instruction.bytes[at + 1] == 0x1f;
}

// Finds the windows of one function's points.
class WindowSearch {
 public:
  WindowSearch(const CodeImage& image, const FunctionCode& code,
               const std::vector<PatchPoint>& points)
      : image_(image), code_(code), points_(points) {}

  PointPatch Find(const PatchPoint& point);

 private:
  const Instruction& at(size_t index) const { return code_.instructions()[index]; }
  // Notes a refusal. The highest one is shown.
  void Refuse(Refusal refusal) { refusal_ = std::max(refusal_, refusal); }
  // Tries the windows that begin with that instruction.
  void Try(size_t index, size_t point_index, const PatchPoint& point);
  // Compares a window with the recorder at that instruction to the best one so far.
  void Consider(size_t index, size_t point_index, const PatchPoint& point, PatchWindow window);
  // Returns the size of the window that begins with that instruction; 0 = there is none.
  size_t MeasureWindow(size_t index, bool* has_call);
  size_t AddPadding(size_t index, size_t size);
  bool TellChanges(size_t index, size_t point_index, const PointReads& reads, PatchWindow* window);
  bool IsFree(const PatchWindow& window, uint64_t point);

  const CodeImage& image_;
  const FunctionCode& code_;
  const std::vector<PatchPoint>& points_;
  std::vector<PatchWindow> taken_;
  Refusal refusal_ = Refusal::kNotAnInstruction;
  std::optional<PatchWindow> best_;
};

// Returns the rank of a window. A smaller one is better.
auto RankOf(const PatchWindow& window, uint64_t point) {
  const int dead = __builtin_popcount(window.dead);
  const uint64_t distance =
      window.address < point ? point - window.address : window.address - point;
  return std::tuple(window.loses_reads, window.has_call, window.flags_are_live,
                    window.recorder != window.address, std::max(0, kWantedDead - dead), distance,
                    window.size);
}

PointPatch WindowSearch::Find(const PatchPoint& point) {
  refusal_ = Refusal::kNotAnInstruction;
  best_.reset();
  const auto found = code_.IndexAt(point.address);
  if (!found) return {point.address, std::nullopt, std::string(ReasonOf(refusal_))};
  // Tries windows that begin before the point, as long as every path to the point passes their
  // begin.
  for (size_t i = *found;; --i) {
    Try(i, *found, point);
    if (i == 0 || code_.IsTarget(at(i).address) || !IsStraight(at(i - 1)) ||
        point.address - at(i - 1).address > kReach) {
      break;
    }
  }
  // Tries windows that begin behind the point, as long as no other path leads to their begin.
  for (size_t i = *found; i + 1 < code_.instructions().size(); ++i) {
    const bool passes = IsStraight(at(i)) || at(i).kind == InstructionKind::kEndbr64;
    if (!passes || code_.IsTarget(at(i + 1).address) ||
        at(i + 1).address - point.address > kReach) {
      break;
    }
    Try(i + 1, *found, point);
  }
  if (!best_) return {point.address, std::nullopt, std::string(ReasonOf(refusal_))};
  taken_.push_back(*best_);
  return {point.address, *best_, {}};
}

void WindowSearch::Try(size_t index, size_t point_index, const PatchPoint& point) {
  const size_t first = at(0).kind == InstructionKind::kEndbr64 ? 1 : 0;
  if (index <= first && !IsJumpAlone(at(index))) return Refuse(Refusal::kFirstInstruction);
  PatchWindow window;
  window.address = at(index).address;
  window.size = static_cast<uint8_t>(MeasureWindow(index, &window.has_call));
  if (window.size == 0) return;
  if (window.address / kPageBytes != (window.address + kWindowBytes - 1) / kPageBytes) {
    return Refuse(Refusal::kPage);
  }
  if (!IsFree(window, point.address)) return Refuse(Refusal::kOtherPoint);
  window.red_zone_may_be_used = code_.may_use_red_zone();
  Consider(index, point_index, point, window);
  if (index < point_index && point.address <= window.end()) {
    Consider(point_index, point_index, point, window);
  }
}

void WindowSearch::Consider(size_t index, size_t point_index, const PatchPoint& point,
                            PatchWindow window) {
  window.recorder = at(index).address;
  if (!TellChanges(index, point_index, point.reads, &window)) {
    return Refuse(Refusal::kStackPointer);
  }
  const DeadRegisters dead = FindDeadRegisters(image_, code_, window.recorder);
  window.dead = dead.registers;
  window.flags_are_live = dead.flags_are_live;
  if (!best_ || RankOf(window, point.address) < RankOf(*best_, point.address)) best_ = window;
}

size_t WindowSearch::MeasureWindow(size_t index, bool* has_call) {
  const uint64_t begin = at(index).address;
  size_t size = 0;
  for (size_t i = index; size < kWindowBytes; ++i) {
    if (i == code_.instructions().size()) return Refuse(Refusal::kNoRoom), 0;
    const Instruction& instruction = at(i);
    if (!WhyNotMovable(instruction).empty()) return Refuse(Refusal::kNotMovable), 0;
    size += instruction.size;
    if (!EndsStraightCode(instruction)) continue;
    *has_call = instruction.kind == InstructionKind::kCall ||
                instruction.kind == InstructionKind::kIndirectCall;
    if (size < kWindowBytes && !*has_call) size = AddPadding(i + 1, size);
    break;
  }
  if (size < kWindowBytes) return Refuse(Refusal::kNoRoom), 0;
  if (code_.HasTargetInside(begin, begin + size)) return Refuse(Refusal::kTarget), 0;
  return size;
}

// Returns the window's size with padding behind its last return or jump: nops in the function to
// which nothing jumps, and then the bytes up to the next function's alignment.
size_t WindowSearch::AddPadding(size_t index, size_t size) {
  for (; index < code_.instructions().size() && size < kWindowBytes; ++index) {
    if (!IsPadding(at(index)) || code_.IsTarget(at(index).address)) return size;
    size += at(index).size;
  }
  if (size >= kWindowBytes) return size;
  const uint64_t end = code_.end();
  const uint64_t next = (end + kFunctionAlignment - 1) & ~(kFunctionAlignment - 1);
  std::array<uint8_t, kFunctionAlignment> bytes{};
  const size_t got = image_.ReadCode(end, bytes.data(), next - end);
  if (got != next - end) return size;
  const std::vector<Instruction> padding = DecodeAll(bytes.data(), got, end);
  const bool is_padding =
      !padding.empty() && padding.back().next() == next &&
      std::all_of(padding.begin(), padding.end(), [this](const Instruction& instruction) {
        return IsPadding(instruction) && !code_.IsTarget(instruction.address);
      });
  if (!is_padding) return size;
  for (uint64_t address = end; address < next; ++address) {
    if (image_.FunctionAt(address) || !image_.CalleeName(address).empty()) return size;
  }
  for (const Instruction& instruction : padding) {
    if (size >= kWindowBytes) break;
    size += instruction.size;
  }
  return size;
}

bool WindowSearch::TellChanges(size_t index, size_t point_index, const PointReads& reads,
                               PatchWindow* window) {
  const bool is_before = index < point_index;
  int64_t change = 0;
  bool place_changed = false;
  for (size_t i = std::min(index, point_index); i < std::max(index, point_index); ++i) {
    const InstructionEffects effects = EffectsOf(at(i));
    if (!effects.stack_change) return false;
    change += *effects.stack_change;
    window->changed |= effects.changes;
    // A push behind the point writes to memory that nothing used before.
    const bool writes = effects.writes_memory || (effects.writes_below_stack && is_before);
    window->memory_changed |= writes;
    place_changed |=
        writes && reads.place && !(effects.written && effects.written->IsApartFrom(*reads.place));
    window->vectors_changed |= effects.writes_vectors;
  }
  window->stack_change = static_cast<int32_t>(is_before ? change : -change);
  RegisterSet needed = reads.registers;
  if (reads.place) needed |= RegisterSet{1} << reads.place->base;
  // The recorder knows how the stack pointer changes, but does not correct the offset of a place
  // relative to it.
  const bool moves_place = reads.place && reads.place->base == kRsp && change != 0;
  window->loses_reads = (window->changed & needed & ~(RegisterSet{1} << kRsp)) != 0 ||
                        (window->memory_changed && reads.memory) || place_changed || moves_place ||
                        (window->vectors_changed && reads.vectors);
  return true;
}

bool WindowSearch::IsFree(const PatchWindow& window, uint64_t point) {
  for (const PatchPoint& other : points_) {
    if (other.address != point && other.address >= window.address && other.address < window.end()) {
      return false;
    }
  }
  return std::none_of(taken_.begin(), taken_.end(), [&](const PatchWindow& other) {
    return other.address < window.end() && window.address < other.end();
  });
}

}  // namespace

std::vector<PointPatch> ChooseWindows(const CodeImage& image, const FunctionCode& code,
                                      const std::vector<PatchPoint>& points) {
  WindowSearch search(image, code, points);
  std::vector<PointPatch> patches;
  patches.reserve(points.size());
  for (const PatchPoint& point : points) patches.push_back(search.Find(point));
  return patches;
}

}  // namespace proftrace
