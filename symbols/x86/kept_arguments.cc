#include "symbols/x86/kept_arguments.h"

#include <algorithm>
#include <array>
#include <memory>
#include <string_view>

#include "symbols/x86/argument_state.h"
#include "symbols/x86/disassembler.h"
#include "symbols/x86/known_callees.h"

namespace proftrace {
namespace {

using Place = ArgumentState::Place;

// rbx, rbp, r12 to r15: calls do not change them.
constexpr unsigned kKeptRegisters[] = {3, kRbp, 12, 13, 14, 15};
// How many instructions are followed: enough for some passes over the largest function.
constexpr size_t kMostSteps = 40000;

int WideNumber(unsigned reg) {
  if (reg >= X86_REG_XMM0 && reg <= X86_REG_XMM15) return static_cast<int>(reg - X86_REG_XMM0);
  if (reg >= X86_REG_YMM0 && reg <= X86_REG_YMM15) return static_cast<int>(reg - X86_REG_YMM0);
  return -1;
}

// A move between a vector register and another place: how many bytes, and whether from or to the
// high half. Loading a half clears the register's other half, unless `keeps`.
struct WideMove {
  size_t bytes;
  bool high;
  bool keeps;
};

std::optional<WideMove> WideMoveOf(unsigned id, bool both_wide) {
  switch (id) {
    case X86_INS_MOVDQA:
    case X86_INS_MOVDQU:
    case X86_INS_MOVAPS:
    case X86_INS_MOVUPS:
    case X86_INS_MOVAPD:
    case X86_INS_MOVUPD:
    case X86_INS_LDDQU:
      return WideMove{16, false, false};
    case X86_INS_MOVQ:
      return WideMove{8, false, false};
    case X86_INS_MOVD:
      return WideMove{4, false, false};
    case X86_INS_MOVSD:
      return WideMove{8, false, both_wide};
    case X86_INS_MOVSS:
      return WideMove{4, false, both_wide};
    case X86_INS_MOVLPS:
    case X86_INS_MOVLPD:
      return WideMove{8, false, true};
    case X86_INS_MOVHPS:
    case X86_INS_MOVHPD:
      return WideMove{8, true, true};
    default:
      return std::nullopt;
  }
}

// Whether the function takes all arguments by reference to const
// (ATen/core/dispatch/DispatchKeyExtractor.h).
bool OnlyLooksAtObjects(std::string_view callee) {
  return callee.starts_with("_ZNK3c1020DispatchKeyExtractor24getDispatchKeySetUnboxed") ||
         callee.starts_with("_ZN3c106detail22multi_dispatch_key_set");
}

bool OnlyReads(unsigned id) {
  return id == X86_INS_CMP || id == X86_INS_TEST || id == X86_INS_BT || id == X86_INS_PUSH;
}

// Follows the arguments to one instruction.
class Follower {
 public:
  Follower(const FlowGraph& graph, uint32_t target);

  // Returns the state at the target; null: the function is too large, or no path leads to the
  // target.
  const ArgumentState* Run();

 private:
  void Leave(uint32_t node, const ArgumentState& state);
  void Step(uint32_t node, ArgumentState* state);
  void StepCall(std::string_view callee, ArgumentState* state) const;
  std::optional<Place> PlaceOf(const cs_x86_op& operand, const ArgumentState& state) const;
  std::optional<uint8_t> PointerArgument(const cs_x86_op& operand,
                                         const ArgumentState& state) const;
  bool StepStack(ArgumentState* state) const;
  bool StepMove(ArgumentState* state) const;
  bool StepWideMove(ArgumentState* state) const;
  void StepOther(ArgumentState* state) const;
  void Write(const cs_x86_op& to, const std::optional<Place>& from, ArgumentState* state) const;

  const FlowGraph& graph_;
  const uint32_t target_;
  std::vector<bool> useful_;     // by node: the target can be reached from there
  std::vector<uint8_t> merges_;  // by node: more than one path leads there
  std::vector<std::unique_ptr<ArgumentState>> states_;
  std::vector<uint32_t> work_;
  const Disassembled* now_ = nullptr;  // the instruction that is followed
};

Follower::Follower(const FlowGraph& graph, uint32_t target)
    : graph_(graph),
      target_(target),
      useful_(NodesLeadingTo(graph, {target})),
      merges_(graph.size()),
      states_(graph.size()) {
  std::vector<uint32_t> ways(graph.size());
  for (uint32_t i = 0; i < graph.size(); ++i) {
    for (const uint32_t to : graph.successors(i)) ++ways[to];
  }
  for (uint32_t i = 0; i < graph.size(); ++i) merges_[i] = ways[i] > 1 ? 1 : 0;
  merges_[0] = 1;  // the function's entry is a path too
}

void Follower::Leave(uint32_t node, const ArgumentState& state) {
  if (!states_[node]) {
    states_[node] = std::make_unique<ArgumentState>(state);
  } else if (!states_[node]->Meet(state)) {
    return;
  }
  work_.push_back(node);
}

const ArgumentState* Follower::Run() {
  if (!useful_[0]) return nullptr;
  Leave(0, ArgumentState());
  size_t steps = 0;
  while (!work_.empty()) {
    uint32_t node = work_.back();
    work_.pop_back();
    if (node == target_) continue;
    ArgumentState state = *states_[node];
    while (true) {
      if (++steps > kMostSteps) return nullptr;
      Step(node, &state);
      std::array<uint32_t, 1> only{};
      size_t ways = 0;
      for (const uint32_t next : graph_.successors(node)) {
        if (!useful_[next]) continue;
        only[0] = next;
        ++ways;
      }
      if (ways == 1 && merges_[only[0]] == 0 && only[0] != target_) {
        node = only[0];
        continue;
      }
      for (const uint32_t next : graph_.successors(node)) {
        if (useful_[next]) Leave(next, state);
      }
      break;
    }
  }
  return states_[target_].get();
}

std::optional<Place> Follower::PlaceOf(const cs_x86_op& operand, const ArgumentState& state) const {
  if (operand.type == X86_OP_REG) {
    if (const int wide = WideNumber(operand.reg); wide >= 0) {
      return Place{ArgumentState::kWideAt + static_cast<size_t>(wide) * ArgumentState::kWideBytes,
                   ArgumentState::kWideBytes};
    }
    const int number = WholeRegisterNumber(operand.reg);
    if (number < 0) return std::nullopt;
    return Place{static_cast<size_t>(number) * 8 + (IsHighByte(operand.reg) ? 1 : 0), operand.size};
  }
  if (operand.type != X86_OP_MEM || operand.mem.segment != X86_REG_INVALID ||
      operand.mem.index != X86_REG_INVALID) {
    return std::nullopt;
  }
  const int base = RegisterNumber(operand.mem.base);
  if (base < 0) return std::nullopt;
  return state.InStack(static_cast<unsigned>(base), operand.mem.disp, operand.size);
}

// Returns the number of the argument that points to the operand's word; nullopt: no argument does.
std::optional<uint8_t> Follower::PointerArgument(const cs_x86_op& operand,
                                                 const ArgumentState& state) const {
  if (operand.type != X86_OP_MEM || operand.mem.segment != X86_REG_INVALID ||
      operand.mem.index != X86_REG_INVALID || operand.mem.disp != 0 || operand.size != 8) {
    return std::nullopt;
  }
  const int base = RegisterNumber(operand.mem.base);
  return base < 0 ? std::nullopt : state.WholeArgument(static_cast<unsigned>(base));
}

// Applies a write of the whole operand `to`.
void Follower::Write(const cs_x86_op& to, const std::optional<Place>& from,
                     ArgumentState* state) const {
  if (to.type == X86_OP_REG) {
    const int number = WholeRegisterNumber(to.reg);
    if (number < 0) return;
    const auto reg = static_cast<unsigned>(number);
    const size_t first = IsHighByte(to.reg) ? 1 : 0;
    // Writing four bytes of a register clears the others; writing fewer leaves them.
    const size_t bytes = to.size >= 4 ? 8 : to.size;
    state->Copy(Place{reg * 8 + first, bytes}, from);
    state->set_stack_offset(reg, ArgumentState::kNoOffset);
    return;
  }
  if (const auto place = PlaceOf(to, *state)) {
    state->Copy(*place, from);
    return;
  }
  const int base = RegisterNumber(to.mem.base);
  // The write may go anywhere into an array in the frame.
  if (to.mem.index != X86_REG_INVALID && base >= 0 &&
      state->stack_offset(static_cast<unsigned>(base)) != ArgumentState::kNoOffset) {
    state->ForgetStack();
  }
}

// Applies an instruction that moves the stack pointer or makes a pointer into the stack. False: it
// is another instruction.
bool Follower::StepStack(ArgumentState* state) const {
  const cs_x86& detail = now_->operands();
  const cs_x86_op& to = detail.operands[0];
  const cs_x86_op& from = detail.operands[1];
  const auto number = [](const cs_x86_op& operand) {
    return operand.type == X86_OP_REG ? RegisterNumber(operand.reg) : -1;
  };
  const auto offset_of = [state](int reg, int64_t more) {
    const int32_t offset =
        reg < 0 ? ArgumentState::kNoOffset : state->stack_offset(static_cast<unsigned>(reg));
    return offset == ArgumentState::kNoOffset ? int64_t{ArgumentState::kNoOffset} : offset + more;
  };
  switch (now_->id()) {
    case X86_INS_PUSH: {
      const auto pushed = PlaceOf(to, *state);
      state->set_stack_offset(kRsp, offset_of(kRsp, -8));
      if (const auto top = state->InStack(kRsp, 0, 8)) state->Copy(*top, pushed);
      return true;
    }
    case X86_INS_POP: {
      const auto top = state->InStack(kRsp, 0, 8);
      state->set_stack_offset(kRsp, offset_of(kRsp, 8));
      Write(to, top, state);
      return true;
    }
    case X86_INS_LEAVE: {
      const int64_t frame = offset_of(kRbp, 8);
      const auto saved = state->InStack(kRbp, 0, 8);
      state->Copy(Place{kRbp * 8, 8}, saved);
      state->set_stack_offset(kRbp, ArgumentState::kNoOffset);
      state->set_stack_offset(kRsp, frame);
      return true;
    }
    case X86_INS_LEA: {
      const int target = number(to);
      if (target < 0) return false;
      const bool is_plain =
          from.mem.index == X86_REG_INVALID && from.mem.segment == X86_REG_INVALID;
      const int64_t offset =
          offset_of(is_plain ? RegisterNumber(from.mem.base) : -1, from.mem.disp);
      state->ForgetRegister(static_cast<unsigned>(target));
      state->set_stack_offset(static_cast<unsigned>(target), offset);
      return true;
    }
    case X86_INS_ADD:
    case X86_INS_SUB: {
      const int target = number(to);
      if (target < 0 || from.type != X86_OP_IMM) return false;
      const int64_t offset = offset_of(target, now_->id() == X86_INS_ADD ? from.imm : -from.imm);
      state->ForgetRegister(static_cast<unsigned>(target));
      state->set_stack_offset(static_cast<unsigned>(target), offset);
      return true;
    }
    default:
      return false;
  }
}

bool Follower::StepMove(ArgumentState* state) const {
  const cs_x86& detail = now_->operands();
  const cs_x86_op& to = detail.operands[0];
  const cs_x86_op& from = detail.operands[1];
  switch (now_->id()) {
    case X86_INS_MOV:
    case X86_INS_MOVABS: {
      const int target = to.type == X86_OP_REG ? RegisterNumber(to.reg) : -1;
      const int source = from.type == X86_OP_REG ? RegisterNumber(from.reg) : -1;
      const auto pointer = PointerArgument(from, *state);
      Write(to, PlaceOf(from, *state), state);
      if (pointer && target >= 0) state->PutPointee(*PlaceOf(to, *state), *pointer);
      if (target >= 0 && source >= 0) {
        state->set_stack_offset(static_cast<unsigned>(target),
                                state->stack_offset(static_cast<unsigned>(source)));
      }
      return true;
    }
    case X86_INS_MOVZX:
    case X86_INS_MOVSX:
    case X86_INS_MOVSXD:
      Write(to, PlaceOf(from, *state), state);
      return true;
    case X86_INS_SHR: {
      const auto place = PlaceOf(to, *state);
      if (to.type != X86_OP_REG || !place || detail.op_count != 2 || from.type != X86_OP_IMM ||
          from.imm <= 0 || from.imm % 8 != 0 || from.imm / 8 >= to.size) {
        return false;
      }
      const size_t bytes = static_cast<size_t>(from.imm) / 8;
      Write(to, Place{place->at + bytes, place->bytes - bytes}, state);
      return true;
    }
    default:
      return false;
  }
}

bool Follower::StepWideMove(ArgumentState* state) const {
  const cs_x86& detail = now_->operands();
  const cs_x86_op& to = detail.operands[0];
  const cs_x86_op& from = detail.operands[1];
  if (detail.op_count != 2) return false;
  const bool to_wide = to.type == X86_OP_REG && WideNumber(to.reg) >= 0;
  const bool from_wide = from.type == X86_OP_REG && WideNumber(from.reg) >= 0;
  const unsigned id = now_->id();
  if (to_wide && from_wide &&
      (id == X86_INS_PUNPCKLQDQ || id == X86_INS_UNPCKLPD || id == X86_INS_MOVLHPS)) {
    const Place high{PlaceOf(to, *state)->at + 8, 8};
    state->Copy(high, Place{PlaceOf(from, *state)->at, 8});
    return true;
  }
  if (!to_wide && !from_wide) return false;  // `movsd` is also the name of a string instruction
  const auto move = WideMoveOf(id, to_wide && from_wide);
  if (!move) return false;
  std::optional<Place> source = PlaceOf(from, *state);
  if (source) {
    if (from_wide && move->high) source->at += 8;
    source->bytes = std::min(source->bytes, move->bytes);
  }
  if (!to_wide) {
    Write(to, source, state);
    return true;
  }
  Place target = *PlaceOf(to, *state);
  if (move->keeps) {
    if (move->high) target.at += 8;
    target.bytes = move->bytes;
  }
  state->Copy(target, source);
  return true;
}

void Follower::StepOther(ArgumentState* state) const {
  const cs_x86& detail = now_->operands();
  for (uint8_t i = 0; i < detail.op_count; ++i) {
    const cs_x86_op& operand = detail.operands[i];
    const bool is_written = (operand.access & CS_AC_WRITE) != 0 || i == 0;
    if (operand.type == X86_OP_MEM && is_written && !OnlyReads(now_->id())) {
      // A repeated instruction fills as many elements as rcx says.
      if (detail.prefix[0] == X86_PREFIX_REP || detail.prefix[0] == X86_PREFIX_REPNE) {
        state->ForgetStack();
      } else {
        Write(operand, std::nullopt, state);
      }
    }
    const int wide = operand.type == X86_OP_REG && i == 0 ? WideNumber(operand.reg) : -1;
    if (wide >= 0)
      state->Forget(ArgumentState::kWideAt + static_cast<size_t>(wide) * ArgumentState::kWideBytes,
                    ArgumentState::kWideBytes);
  }
  if (!now_->written_known) {
    state->ForgetAll();
    return;
  }
  for (const uint16_t reg : now_->written) {
    if (const int number = WholeRegisterNumber(reg); number >= 0) {
      state->ForgetRegister(static_cast<unsigned>(number));
    }
    if (const int wide = WideNumber(reg); wide >= 0) {
      state->Forget(ArgumentState::kWideAt + static_cast<size_t>(wide) * ArgumentState::kWideBytes,
                    ArgumentState::kWideBytes);
    }
  }
}

void Follower::StepCall(std::string_view callee, ArgumentState* state) const {
  if (!CopiesSymInt(callee)) {
    state->PassCall(/*may_change_objects=*/!OnlyLooksAtObjects(callee));
    return;
  }
  const auto copied = state->WholeArgument(kRsi);
  const auto copy = state->InStack(kRdi, 0, 8);
  state->PassCall(/*may_change_objects=*/false);
  if (!copy) return;
  state->Forget(copy->at, copy->bytes);
  if (copied) state->PutPointee(*copy, *copied);
}

void Follower::Step(uint32_t node, ArgumentState* state) {
  if (graph_.node(node).is_call) {
    StepCall(graph_.node(node).callee, state);
    return;
  }
  now_ = Disassembler::OfThread().Decode(graph_.node(node).instruction);
  if (now_ == nullptr) {
    state->ForgetAll();
    return;
  }
  if (!StepStack(state) && !StepMove(state) && !StepWideMove(state)) StepOther(state);
}

// Where a byte of a source was found, and how many bytes of the source lie there side by side,
// beginning with it.
struct Found {
  size_t at = 0;
  uint8_t run = 0;  // 0 = the byte was not found
};

}  // namespace

std::optional<KeptPiece> KeptArguments::Find(uint8_t source, unsigned first, unsigned count) const {
  for (const KeptPiece& piece : pieces) {
    if (piece.source != source || piece.first > first ||
        piece.first + piece.count < first + count) {
      continue;
    }
    KeptPiece part = piece;
    part.place = static_cast<int16_t>(part.place + static_cast<int>(first - piece.first));
    part.first = static_cast<uint8_t>(first);
    part.count = static_cast<uint8_t>(count);
    return part;
  }
  return std::nullopt;
}

KeptArguments FindKeptArguments(const FlowGraph& graph, uint32_t node) {
  KeptArguments result;
  Follower follower(graph, node);
  const ArgumentState* state = follower.Run();
  if (state == nullptr || state->stack_offset(kRsp) == ArgumentState::kNoOffset) return result;
  const int64_t stack_pointer = int64_t{ArgumentState::kEntryAt} + state->stack_offset(kRsp);
  if (stack_pointer < int64_t{ArgumentState::kFrameAt} ||
      stack_pointer > int64_t{ArgumentState::kEntryAt})
    return result;

  std::array<Found, 256> found{};
  const auto look = [&](size_t begin, size_t end) {
    uint8_t run = 0;
    for (size_t at = end; at-- > begin;) {
      const Content content = state->at(at);
      if (content == kUnknown || content == kCallers) {
        run = 0;
        continue;
      }
      // A source has 8 bytes, so that its last byte has no successor.
      const bool goes_on = run > 0 && content % 8 != 0 && state->at(at + 1) == content + 1;
      run = static_cast<uint8_t>(goes_on ? run + 1 : 1);
      if (run > found[content].run) found[content] = Found{at, run};
    }
  };
  for (const unsigned reg : kKeptRegisters) look(reg * 8, reg * 8 + 8);
  look(static_cast<size_t>(stack_pointer), ArgumentState::kEntryAt);

  for (uint8_t source = 0; source < KeptPiece::kSources; ++source) {
    for (uint8_t byte = 0; byte < 8;) {
      const Found& where = found[ContentOf(source, byte)];
      if (where.run == 0) {
        ++byte;
        continue;
      }
      KeptPiece piece{source, byte, where.run, where.at >= ArgumentState::kFrameAt, 0};
      piece.place =
          static_cast<int16_t>(piece.in_frame ? static_cast<int64_t>(where.at) - stack_pointer
                                              : static_cast<int64_t>(where.at));
      result.pieces.push_back(piece);
      byte = static_cast<uint8_t>(byte + where.run);
    }
  }
  while (result.stack_words < ArgumentState::kMostStackWords) {
    const size_t at = ArgumentState::kEntryAt + ArgumentState::kReturnAddressBytes +
                      8 * size_t{result.stack_words};
    bool is_callers = true;
    for (size_t i = 0; i < 8; ++i) is_callers &= state->at(at + i) == kCallers;
    if (!is_callers) break;
    ++result.stack_words;
  }
  return result;
}

}  // namespace proftrace
