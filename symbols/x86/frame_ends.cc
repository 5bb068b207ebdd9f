#include "symbols/x86/frame_ends.h"

#include <algorithm>
#include <cstring>
#include <optional>

#include "symbols/x86/instruction.h"
#include "symbols/x86/value_walk.h"

namespace proftrace {
namespace {

// How many bytes around the maker are searched. Interpreter.cpp has 100 KB of code.
constexpr uint64_t kReach = uint64_t{192} << 10;
// The largest maker that is accepted. The function that makes a frame has a few KB.
constexpr uint64_t kLargestMaker = uint64_t{4} << 20;
constexpr size_t kMostEnds = 64;
constexpr int kMostStepsBack = 8;
// A class larger than this is no frame.
constexpr int64_t kLargestFrame = 1024;

// The operand of an instruction as mov rdi, [register + displacement].
struct SlotLoad {
  uint8_t reg = 0;
  int64_t displacement = 0;
  size_t size = 0;
};

// Decodes the instruction at `at`. `opcode`: 0x8b (mov) or 0x8d (lea). `to`: the register that must
// be written; nullopt: any.
std::optional<SlotLoad> DecodeMemory(const uint8_t* at, size_t left, uint8_t opcode,
                                     std::optional<uint8_t> to) {
  if (left < 8 || (at[0] & 0xfa) != 0x48 || at[1] != opcode) return std::nullopt;
  const uint8_t written = static_cast<uint8_t>((at[2] >> 3 & 7) | (at[0] & 4) << 1);
  if (to && written != *to) return std::nullopt;
  const uint8_t mode = at[2] >> 6;
  const uint8_t low = at[2] & 7;
  SlotLoad load;
  load.reg = static_cast<uint8_t>(low | (at[0] & 1) << 3);
  size_t size = 3;
  if (low == 4) {  // a SIB byte: only [rsp] and [r12] without an index
    if ((at[3] & 0x3f) != 0x24) return std::nullopt;
    size = 4;
  }
  if (mode == 1) {
    load.displacement = static_cast<int8_t>(at[size]);
    load.size = size + 1;
  } else if (mode == 2) {
    int32_t wide;
    std::memcpy(&wide, at + size, sizeof(wide));
    load.displacement = wide;
    load.size = size + 4;
  } else {
    return std::nullopt;
  }
  return load;
}

// Whether the code at `address` calls the deleting destructor through the vtable: mov rax, [rdi];
// call [rax + 8].
bool DeletesByVtable(const CodeImage& image, uint64_t address) {
  static constexpr uint8_t kDelete[] = {0x48, 0x8b, 0x07, 0xff, 0x50, 0x08};
  uint8_t bytes[sizeof(kDelete)];
  return image.ReadCode(address, bytes, sizeof(bytes)) == sizeof(bytes) &&
         std::memcmp(bytes, kDelete, sizeof(bytes)) == 0;
}

// Whether the function around `address` computes `reg` + `displacement`.
bool Computes(const CodeImage& image, uint64_t address, uint8_t reg, int64_t displacement) {
  const auto function = image.FunctionAt(address);
  if (!function || function->end - function->start > kReach) return false;
  std::vector<uint8_t> bytes(function->end - function->start);
  bytes.resize(image.ReadCode(function->start, bytes.data(), bytes.size()));
  for (const Instruction& instruction : DecodeAll(bytes.data(), bytes.size(), function->start)) {
    const size_t at = instruction.address - function->start;
    uint8_t padded[16] = {};
    std::memcpy(padded, bytes.data() + at, std::min<size_t>(instruction.size, sizeof(padded)));
    const auto lea = DecodeMemory(padded, sizeof(padded), 0x8d, std::nullopt);
    if (lea && lea->reg == reg && lea->displacement == displacement) return true;
  }
  return false;
}

// Returns the node before `node`, if there is only one.
std::optional<uint32_t> OnlyNodeBefore(const FlowGraph& graph, uint32_t node) {
  std::optional<uint32_t> found;
  for (uint32_t i = 0; i < graph.size(); ++i) {
    const auto next = graph.successors(i);
    if (std::find(next.begin(), next.end(), node) == next.end()) continue;
    if (found || next.last - next.first != 1) return std::nullopt;
    found = i;
  }
  return found;
}

}  // namespace

std::optional<FrameSlot> FindFrameSlot(const FlowGraph& graph, uint32_t call) {
  std::optional<uint32_t> from = call;
  for (int steps = 0; from && steps < kMostStepsBack; ++steps) {
    if (*from != call && graph.node(*from).is_call) break;
    std::optional<Value> slot;
    ValueWalk walk(graph);
    walk.set_store_visitor([&](const Value& address, const Value& value) {
      if (value.base == Value::kAllocated && address.base != static_cast<int>(kRsp)) slot = address;
    });
    walk.Run(*from, [](uint32_t, const ValueState&) { return true; });
    if (slot && slot->base < Value::kAddress && slot->offsets.size() == 1) {
      return FrameSlot{*from, static_cast<uint8_t>(slot->base), slot->offsets[0]};
    }
    from = OnlyNodeBefore(graph, *from);
  }
  return std::nullopt;
}

std::vector<FrameEnd> FindFrameEnds(const CodeImage& image, const FunctionRange& maker,
                                    int64_t slot) {
  std::vector<FrameEnd> ends;
  // A symbol may state any size for its function.
  if (maker.end < maker.start || maker.end - maker.start > kLargestMaker) return ends;
  const uint64_t start = maker.start > kReach ? maker.start - kReach : 0;
  std::vector<uint8_t> bytes(maker.end + kReach - start);
  bytes.resize(image.ReadCode(start, bytes.data(), bytes.size()));
  constexpr size_t kLongestPattern = 24;
  for (size_t i = 0; i + kLongestPattern < bytes.size() && ends.size() < kMostEnds; ++i) {
    const uint8_t* at = bytes.data() + i;
    const auto load = DecodeMemory(at, bytes.size() - i, 0x8b, kRdi);
    if (!load) continue;
    const int64_t frame = load->displacement - slot;
    if (frame != 0 && (frame > 0 || frame < -kLargestFrame)) continue;
    at += load->size;
    static constexpr uint8_t kTest[] = {0x48, 0x85, 0xff};  // test rdi, rdi
    if (std::memcmp(at, kTest, sizeof(kTest)) != 0) continue;
    at += sizeof(kTest);
    const uint64_t jump = start + static_cast<uint64_t>(at - bytes.data());
    const std::vector<Instruction> decoded = DecodeAll(at, 6, jump);
    if (decoded.empty() || decoded[0].kind != InstructionKind::kConditionalJump) continue;
    if (!DeletesByVtable(image, decoded[0].next()) && !DeletesByVtable(image, decoded[0].target)) {
      continue;
    }
    if (frame != 0 && !Computes(image, jump, load->reg, frame)) continue;
    ends.push_back({jump, load->reg, frame});
  }
  return ends;
}

}  // namespace proftrace
