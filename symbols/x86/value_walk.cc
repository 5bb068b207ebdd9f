#include "symbols/x86/value_walk.h"

#include <algorithm>
#include <iterator>
#include <limits>

#include "symbols/x86/disassembler.h"
#include "symbols/x86/known_callees.h"
#include "symbols/x86/value_sums.h"
#include "userspace/base/text.h"

namespace proftrace {
namespace {

constexpr size_t kMaxVisited = 12000;
// How often one instruction is visited, because a value that is lost on one path may be known on
// another.
constexpr uint8_t kMaxVisits = 3;
constexpr size_t kMaxOffsets = PT_PLACE_OFFSETS;
// The largest function that is followed. The followed functions return the end of an array.
constexpr uint64_t kMostCalleeBytes = 512;

int WideNumber(unsigned reg) {
  return reg >= X86_REG_XMM0 && reg <= X86_REG_XMM15 ? static_cast<int>(reg - X86_REG_XMM0) : -1;
}

Value Plus(Value value, int64_t offset) {
  if (!value.is_whole() && offset != 0) return Value();
  if (value.known()) {
    value.offsets.back() = static_cast<int64_t>(static_cast<uint64_t>(value.offsets.back()) +
                                                static_cast<uint64_t>(offset));
  }
  return value;
}

Value AddressValue(uint64_t address) {
  return Value{Value::kAddress, {static_cast<int64_t>(address)}};
}

// Whether the address needs no load. Only words at such addresses, as those of the frame, are told
// apart.
bool IsPlainAddress(const Value& value) { return value.known() && value.offsets.size() == 1; }

}  // namespace

std::optional<abi::pt_place> PlaceOf(const Value& value, abi::pt_place_form form) {
  if (!value.known() || !value.is_whole() || value.base > Value::kAddress ||
      value.offsets.empty() || value.offsets.size() > kMaxOffsets) {
    return std::nullopt;
  }
  abi::pt_place place{};
  place.base = static_cast<uint8_t>(value.base);
  place.count = static_cast<uint8_t>(value.offsets.size());
  place.form = static_cast<uint8_t>(form);
  for (size_t i = 0; i < value.offsets.size(); ++i) {
    if (i == 0 && value.base == Value::kAddress) {
      place.address = static_cast<uint64_t>(value.offsets[0]);
      continue;
    }
    if (value.offsets[i] < std::numeric_limits<int32_t>::min() ||
        value.offsets[i] > std::numeric_limits<int32_t>::max()) {
      return std::nullopt;
    }
    place.offsets[i] = static_cast<int32_t>(value.offsets[i]);
  }
  return place;
}

ValueState::ValueState() {
  for (int i = 0; i < 16; ++i) registers_[static_cast<size_t>(i)] = Value{i, {0}};
}

Value ValueState::Load(const Value& value, int64_t offset) const {
  const Value address = Plus(value, offset);
  if (!address.known() || !address.is_whole()) return Value();
  if (IsPlainAddress(address)) {
    const auto found = memory_.find({address.base, address.offsets[0]});
    if (found != memory_.end()) return found->second;
  }
  if (address.base == Value::kAllocated || address.offsets.size() >= kMaxOffsets) return Value();
  Value loaded = address;
  loaded.offsets.push_back(0);
  return loaded;
}

std::optional<Value> ValueState::Find(const Value& value) const {
  for (size_t i = 0; i < registers_.size(); ++i) {
    if (registers_[i] == value) return Value{static_cast<int>(i), {0}};
  }
  const Value& stack = registers_[kRsp];
  if (!IsPlainAddress(stack) || stack.base != static_cast<int>(kRsp)) return std::nullopt;
  for (const auto& [word, stored] : memory_) {
    if (stored == value && word.first == stack.base && word.second >= stack.offsets[0]) {
      return Value{stack.base, {word.second - stack.offsets[0], 0}};
    }
  }
  return std::nullopt;
}

std::map<int64_t, Value> ValueState::WordsOf(const Value& object, int64_t bytes) const {
  std::map<int64_t, Value> words;
  if (!IsPlainAddress(object)) return words;
  const int64_t start = object.offsets[0];
  for (auto it = memory_.lower_bound({object.base, start}); it != memory_.end(); ++it) {
    if (it->first.first != object.base || it->first.second >= start + bytes) break;
    words.emplace(it->first.second - start, it->second);
  }
  return words;
}

void ValueState::Store(const Value& address, int64_t offset, const Value& value) {
  const Value place = Plus(address, offset);
  if (IsPlainAddress(place)) memory_[{place.base, place.offsets[0]}] = value;
}

void ValueState::ForgetAfterCall() {
  for (const size_t lost : {0, 1, 2, 6, 7, 8, 9, 10, 11}) registers_[lost] = Value();
  wide_ = {};
}

void ValueState::ForgetObjects(std::string_view callee) {
  const int64_t bytes = ObjectBytes(callee);
  const bool others_are_const = ChangesItselfOnly(callee);
  // rdi, rsi, rdx, rcx, r8, r9
  for (const size_t argument : {7, 6, 2, 1, 8, 9}) {
    const Value& address = registers_[argument];
    if (!IsPlainAddress(address) || address.base == Value::kAddress) continue;
    if (others_are_const && argument != kRdi) continue;
    for (int64_t at = 0; at < bytes; at += 8) {
      memory_[{address.base, address.offsets[0] + at}] = Value();
    }
  }
}

bool ValueWalk::StepKnownCall(std::string_view callee, ValueState* state) {
  const Value first = state->reg(kRdi);
  Value returned;
  if (const auto distance = DistanceOfReturned(callee)) {
    returned = Plus(first, *distance);
  } else if (CopiesSymInt(callee)) {
    state->Store(first, 0, state->Load(state->reg(kRsi), 0));
  } else {
    return false;
  }
  state->ForgetAfterCall();
  state->registers_[kRax] = returned;
  return true;
}

void ValueWalk::StepCall(uint32_t node, ValueState* state) {
  const FlowNode& call = graph_.node(node);
  if (StepKnownCall(call.callee, state)) return;
  const Value first = state->registers_[kRdi];
  const bool is_nameless = callee_names_ && call.callee.empty() && !call.is_indirect;
  StringSource source =
      SourceOfString(is_nameless ? callee_names_(call.instruction.target) : call.callee);
  // A std::string_view begins with its length (libstdc++).
  const int64_t offset = source == StringSource::kNone ? 8 : 0;
  if (source == StringSource::kNone) source = SourceOfVariant(call.callee);
  const Value text = source == StringSource::kCharacters ? state->registers_[kRsi]
                                                         : state->Load(state->registers_[kRsi], 0);
  Returned returned = ReturnedBy(call, *state);
  if (follows_names_ && IsSymbolText(call.callee)) {
    returned.rax = state->Load(first, 0);
    returned.rax.is_half = false;
    returned.rax.is_symbol = returned.rax.known();
  }
  if (virtual_return_ && call.is_indirect) returned.rax = VirtuallyReturnedBy(node, *state);
  state->ForgetObjects(call.callee);
  if (source != StringSource::kNone) state->Store(state->registers_[kRdi], offset, text);
  state->ForgetAfterCall();
  state->registers_[kRax] = returned.rax;
  state->registers_[kRdx] = returned.rdx;
  if (call.callee == "_Znwm") {
    state->registers_[kRax] = Value{Value::kAllocated, {0}};
  } else if (call.callee == "__tls_get_addr" && first.is_address()) {
    state->registers_[kRax] = Value{Value::kThreadLocal, {first.offsets[0], 0}};
  }
}

// Returns the results on which all normal returns of the called function agree.
ValueWalk::Returned ValueWalk::ReturnedBy(const FlowNode& call, const ValueState& state) {
  const uint64_t target = call.instruction.target;
  if (image_ == nullptr || call.is_indirect || target == 0 || image_->IsPltStub(target)) return {};
  const auto [found, is_new] = callees_.try_emplace(target);
  if (is_new) {
    const auto range = image_->FunctionAt(target);
    if (range && range->start == target && range->end - target <= kMostCalleeBytes) {
      auto graph = FlowGraph::Build(*image_, range->start, range->end);
      if (graph.ok()) found->second = *std::move(graph);
    }
  }
  if (!found->second) return {};
  const FlowGraph& callee = *found->second;
  ValueWalk walk(callee);
  walk.tells_numbers_ = tells_numbers_;
  walk.sums_ = sums_;
  ValueState start = state;
  start.registers_[kRsp] = Plus(state.reg(kRsp), -8);  // the return address
  std::optional<Returned> returned;
  bool clear = true;
  walk.Run(0, std::move(start), [&](uint32_t node, const ValueState& at) {
    switch (callee.node(node).end) {
      case NodeEnd::kNone:
        return clear;
      case NodeEnd::kDead:
        return false;
      case NodeEnd::kTailCall:
      case NodeEnd::kIndirectTail:
        clear = false;
        return false;
      case NodeEnd::kReturn:
        break;
    }
    if (!returned) returned = Returned{at.reg(kRax), at.reg(kRdx)};
    if (returned->rax != at.reg(kRax)) returned->rax = Value();
    if (returned->rdx != at.reg(kRdx)) returned->rdx = Value();
    return false;
  });
  return clear && returned ? *returned : Returned();
}

namespace {

// Returns the address of a memory operand.
Value AddressOf(const cs_x86_op& operand, const ValueState& state, uint64_t next) {
  if (operand.mem.segment != X86_REG_INVALID || operand.mem.index != X86_REG_INVALID) {
    return Value();
  }
  if (operand.mem.base == X86_REG_RIP) {
    return AddressValue(next + static_cast<uint64_t>(operand.mem.disp));
  }
  const int base = RegisterNumber(operand.mem.base);
  if (base < 0) return Value();
  return Plus(state.reg(static_cast<unsigned>(base)), operand.mem.disp);
}

bool IsWideMove(unsigned id) {
  switch (id) {
    case X86_INS_MOVDQA:
    case X86_INS_MOVDQU:
    case X86_INS_MOVAPS:
    case X86_INS_MOVUPS:
      return true;
    default:
      return false;
  }
}

// Whether it is the movsd between memory and a vector register. A string instruction has the same
// name.
bool IsDoubleMove(unsigned id, const cs_x86_op& to, const cs_x86_op& from) {
  if (id != X86_INS_MOVSD) return false;
  const bool loads = to.type == X86_OP_REG && from.type == X86_OP_MEM;
  const bool stores = to.type == X86_OP_MEM && from.type == X86_OP_REG;
  return (loads || stores) && WideNumber(loads ? to.reg : from.reg) >= 0;
}

}  // namespace

const Disassembled* ValueWalk::Decode(uint32_t node) const {
  return Disassembler::OfThread().Decode(graph_.node(node).instruction);
}

std::optional<ValueWalk::ComparedByte> ValueWalk::ComparedByteAt(uint32_t node,
                                                                 const ValueState& state) {
  const Disassembled* now = Decode(node);
  if (now == nullptr || now->id() != X86_INS_CMP) return std::nullopt;
  const cs_x86& detail = now->operands();
  const cs_x86_op& left = detail.operands[0];
  if (detail.op_count != 2 || left.type != X86_OP_MEM || left.size != 1 ||
      detail.operands[1].type != X86_OP_IMM || detail.operands[1].imm != 0 ||
      left.mem.index != X86_REG_INVALID) {
    return std::nullopt;
  }
  const int base = RegisterNumber(left.mem.base);
  if (base < 0) return std::nullopt;
  return ComparedByte{state.reg(static_cast<unsigned>(base)), left.mem.disp};
}

Value ValueWalk::TestedAt(uint32_t node, const ValueState& state) const {
  const Disassembled* now = Decode(node);
  if (now == nullptr || now->operands().op_count != 2) return Value();
  const cs_x86_op& left = now->operands().operands[0];
  const cs_x86_op& right = now->operands().operands[1];
  const bool is_test = now->id() == X86_INS_TEST && left.type == X86_OP_REG &&
                       right.type == X86_OP_REG && left.reg == right.reg;
  const bool is_zero =
      now->id() == X86_INS_CMP && left.size == 8 && right.type == X86_OP_IMM && right.imm == 0;
  if (!is_test && !is_zero) return Value();
  if (left.type == X86_OP_MEM) {
    return state.Load(AddressOf(left, state, graph_.node(node).instruction.next()), 0);
  }
  const int number = left.type == X86_OP_REG ? RegisterNumber(left.reg) : -1;
  return number < 0 ? Value() : state.reg(static_cast<unsigned>(number));
}

// Whether the instruction is a move that is made or not, depending on whether a tested value is 0.
bool ValueWalk::IsChoice(uint32_t node) const {
  if (!follows_names_ || graph_.node(node).is_call) return false;
  const Disassembled* now = Decode(node);
  return now != nullptr && (now->id() == X86_INS_CMOVE || now->id() == X86_INS_CMOVNE);
}

Value ValueWalk::CalledAt(uint32_t node, const ValueState& state) {
  const Disassembled* now = Decode(node);
  if (now == nullptr) return Value();
  const cs_x86& detail = now->operands();
  if (detail.op_count != 1) return Value();
  const cs_x86_op& called = detail.operands[0];
  if (called.type == X86_OP_MEM) {
    return state.Load(AddressOf(called, state, graph_.node(node).instruction.next()), 0);
  }
  const int number = called.type == X86_OP_REG ? RegisterNumber(called.reg) : -1;
  return number < 0 ? Value() : state.reg(static_cast<unsigned>(number));
}

// Returns the value that an instruction computes into its first operand, a whole register.
Value ValueWalk::ComputedBy(uint32_t node, const Disassembled& now, const ValueState& state) const {
  if (sums_ == nullptr) return Value();
  const cs_x86& detail = now.operands();
  const auto of_register = [&state](unsigned reg) {
    const int number = RegisterNumber(reg);
    return number < 0 ? Value() : state.reg(static_cast<unsigned>(number));
  };
  const Value left = of_register(detail.operands[0].reg);
  const cs_x86_op& operand = detail.operands[1];
  switch (now.id()) {
    case X86_INS_LEA: {
      const Value base = operand.mem.base == X86_REG_INVALID ? Value{Value::kConstant, {0}}
                                                             : of_register(operand.mem.base);
      return Plus(sums_->Add(base, of_register(operand.mem.index), operand.mem.scale),
                  operand.mem.disp);
    }
    case X86_INS_NEG:
      return sums_->Add(Value{Value::kConstant, {0}}, left, -1);
    case X86_INS_ADD:
    case X86_INS_SUB: {
      const uint64_t next = graph_.node(node).instruction.next();
      Value right;
      if (operand.type == X86_OP_REG) right = of_register(operand.reg);
      if (operand.type == X86_OP_MEM) right = state.Load(AddressOf(operand, state, next), 0);
      return sums_->Add(left, right, now.id() == X86_INS_ADD ? 1 : -1);
    }
    case X86_INS_SHL:
    case X86_INS_SAL:
      if (detail.op_count != 2 || operand.type != X86_OP_IMM || operand.imm > 8) return Value();
      return sums_->Add(Value{Value::kConstant, {0}}, left, int64_t{1} << operand.imm);
    case X86_INS_SAR:
    case X86_INS_SHR:
      if (detail.op_count != 2 || operand.type != X86_OP_IMM || operand.imm > 8) return Value();
      return sums_->Divide(left, static_cast<unsigned>(operand.imm));
    default:
      return Value();
  }
}

void ValueWalk::Step(uint32_t node, ValueState* state) {
  if (graph_.node(node).is_call) {
    StepCall(node, state);
    return;
  }
  const Instruction& where = graph_.node(node).instruction;
  const Disassembled* now = Decode(node);
  if (now == nullptr) {
    *state = ValueState();
    for (Value& value : state->registers_) value = Value();
    return;
  }
  const cs_x86& detail = now->operands();
  const unsigned id = now->id();
  const cs_x86_op& to = detail.operands[0];
  const cs_x86_op& from = detail.operands[1];
  const bool pair = detail.op_count == 2;
  const auto address_of = [&](const cs_x86_op& operand) {
    const int index = RegisterNumber(operand.mem.index);
    const int base = RegisterNumber(operand.mem.base);
    if (!follows_names_ || index < 0 || base < 0 || operand.mem.segment != X86_REG_INVALID) {
      return AddressOf(operand, *state, where.next());
    }
    return Plus(sums_->Add(state->reg(static_cast<unsigned>(base)),
                           state->reg(static_cast<unsigned>(index)), operand.mem.scale),
                operand.mem.disp);
  };

  // The written values are computed before anything changes.
  int general = -1;
  Value moved;
  int wide = -1;
  std::array<Value, 2> wide_moved;
  struct Written {
    Value address;
    Value value;
  };
  std::vector<Written> stores;
  if ((id == X86_INS_MOV || IsChoice(node)) && pair && to.type == X86_OP_REG) {
    general = RegisterNumber(to.reg);
    if (from.type == X86_OP_REG) {
      const int source = RegisterNumber(from.reg);
      if (source >= 0) moved = state->reg(static_cast<unsigned>(source));
    } else if (from.type == X86_OP_MEM && from.size == 8) {
      moved = state->Load(address_of(from), 0);
    } else if (from.type == X86_OP_MEM && from.size == 4 && follows_names_) {
      general = WholeRegisterNumber(to.reg);
      moved = state->Load(address_of(from), 0);
      moved.is_half = moved.known() && moved.is_whole();
    }
    // Writing the lower half of a register clears the upper half.
    if (from.type == X86_OP_IMM && tells_numbers_ && to.size >= 4) {
      general = WholeRegisterNumber(to.reg);
      moved = Value{Value::kConstant, {to.size == 4 ? from.imm & 0xffffffff : from.imm}};
    }
  } else if (id == X86_INS_MOVZX && pair && tells_numbers_ && from.size == 1) {
    general = WholeRegisterNumber(to.reg);
    const int source = from.type == X86_OP_REG ? WholeRegisterNumber(from.reg) : -1;
    const bool is_low = source >= 0 && !IsHighByte(from.reg);
    if (is_low) moved = state->reg(static_cast<unsigned>(source));
    if (from.type == X86_OP_MEM) moved = state->Load(address_of(from), 0);
    moved.is_byte = moved.known() && !moved.is_half && !moved.is_symbol;
    if (!moved.is_byte) moved = Value();
  } else if (id == X86_INS_LEA && pair && to.type == X86_OP_REG) {
    general = RegisterNumber(to.reg);
    moved = from.mem.index == X86_REG_INVALID ? address_of(from) : ComputedBy(node, *now, *state);
  } else if (id == X86_INS_MOV && pair && to.type == X86_OP_MEM) {
    const int source = from.type == X86_OP_REG ? RegisterNumber(from.reg) : -1;
    Value stored = source >= 0 ? state->reg(static_cast<unsigned>(source)) : Value();
    const int part = from.type == X86_OP_REG ? WholeRegisterNumber(from.reg) : -1;
    if (source < 0 && part >= 0) {
      const Value& whole = state->reg(static_cast<unsigned>(part));
      if (whole.is_byte || (whole.is_half && to.size == 4)) stored = whole;
    }
    if (from.type == X86_OP_IMM && tells_numbers_ && to.size == 8) {
      stored = Value{Value::kConstant, {from.imm}};
    }
    stores.push_back({address_of(to), std::move(stored)});
  } else if (id == X86_INS_XOR && pair && tells_numbers_ && to.type == X86_OP_REG &&
             from.type == X86_OP_REG && to.reg == from.reg && to.size >= 4) {
    general = WholeRegisterNumber(to.reg);
    if (general >= 0) moved = Value{Value::kConstant, {0}};
  } else if ((id == X86_INS_ADD || id == X86_INS_SUB) && pair && to.type == X86_OP_REG &&
             from.type == X86_OP_IMM) {
    general = RegisterNumber(to.reg);
    if (general >= 0) {
      moved = Plus(state->reg(static_cast<unsigned>(general)),
                   id == X86_INS_ADD ? from.imm : -from.imm);
    }
  } else if (id == X86_INS_PUSH && detail.op_count == 1) {
    general = static_cast<int>(kRsp);
    moved = Plus(state->reg(kRsp), -8);
    Value pushed;
    const int source = to.type == X86_OP_REG ? RegisterNumber(to.reg) : -1;
    if (source >= 0) pushed = state->reg(static_cast<unsigned>(source));
    if (to.type == X86_OP_MEM) pushed = state->Load(address_of(to), 0);
    if (to.type == X86_OP_IMM && tells_numbers_) pushed = Value{Value::kConstant, {to.imm}};
    stores.push_back({moved, pushed});
  } else if (id == X86_INS_POP && detail.op_count == 1 && to.type == X86_OP_REG) {
    const int target = RegisterNumber(to.reg);
    const Value popped = state->Load(state->reg(kRsp), 0);
    state->registers_[kRsp] = Plus(state->reg(kRsp), 8);
    if (target >= 0) state->registers_[static_cast<size_t>(target)] = popped;
    return;
  } else if (id == X86_INS_LEAVE) {
    const Value frame = state->reg(kRbp);
    state->registers_[kRbp] = state->Load(frame, 0);
    state->registers_[kRsp] = Plus(frame, 8);
    return;
  } else if (IsWideMove(id) && pair) {
    const int source = from.type == X86_OP_REG ? WideNumber(from.reg) : -1;
    std::array<Value, 2> value;
    if (source >= 0) value = state->wide_[static_cast<size_t>(source)];
    if (from.type == X86_OP_MEM) {
      value = {state->Load(address_of(from), 0), state->Load(address_of(from), 8)};
    }
    if (to.type == X86_OP_REG) {
      wide = WideNumber(to.reg);
      wide_moved = value;
    } else if (to.type == X86_OP_MEM) {
      stores.push_back({address_of(to), value[0]});
      stores.push_back({Plus(address_of(to), 8), value[1]});
    }
  } else if (pair && (id == X86_INS_MOVQ || IsDoubleMove(id, to, from))) {
    Value value;
    if (from.type == X86_OP_MEM) value = state->Load(address_of(from), 0);
    if (from.type == X86_OP_REG) {
      const int source = RegisterNumber(from.reg);
      if (source >= 0) value = state->reg(static_cast<unsigned>(source));
      if (WideNumber(from.reg) >= 0)
        value = state->wide_[static_cast<size_t>(WideNumber(from.reg))][0];
    }
    if (to.type == X86_OP_MEM) {
      stores.push_back({address_of(to), value});
    } else {
      wide = WideNumber(to.reg);
      wide_moved = {value, Value()};
      if (wide < 0) {
        general = RegisterNumber(to.reg);
        moved = value;
      }
    }
  } else if (id == X86_INS_MOVHPS && pair && to.type == X86_OP_REG && from.type == X86_OP_MEM) {
    wide = WideNumber(to.reg);
    if (wide >= 0) {
      wide_moved = {state->wide_[static_cast<size_t>(wide)][0], state->Load(address_of(from), 0)};
    }
  } else if (id == X86_INS_PUNPCKLQDQ && pair && from.type == X86_OP_REG) {
    wide = WideNumber(to.reg);
    if (wide >= 0 && WideNumber(from.reg) >= 0) {
      wide_moved = {state->wide_[static_cast<size_t>(wide)][0],
                    state->wide_[static_cast<size_t>(WideNumber(from.reg))][0]};
    }
  } else if (detail.op_count >= 1 && to.type == X86_OP_MEM && id != X86_INS_CMP &&
             id != X86_INS_TEST) {
    stores.push_back({address_of(to), Value()});
  } else if (detail.op_count >= 1 && to.type == X86_OP_REG) {
    general = RegisterNumber(to.reg);
    moved = ComputedBy(node, *now, *state);
    if (!moved.known()) general = -1;
  }

  const RegisterSet changed = now->written_known ? now->written_general : ~RegisterSet{0};
  for (size_t i = 0; i < 16; ++i) {
    if ((changed >> i & 1) != 0) state->registers_[i] = Value();
  }
  for (uint8_t i = 0; i < detail.op_count; ++i) {
    const cs_x86_op& operand = detail.operands[i];
    const int number = operand.type == X86_OP_REG ? WideNumber(operand.reg) : -1;
    if (number >= 0 && i == 0) state->wide_[static_cast<size_t>(number)] = {};
  }
  if (general >= 0) state->registers_[static_cast<size_t>(general)] = moved;
  if (wide >= 0) state->wide_[static_cast<size_t>(wide)] = wide_moved;
  for (const Written& written : stores) {
    state->Store(written.address, 0, written.value);
    if (on_store_ && written.address.known()) on_store_(written.address, written.value);
  }
}

void ValueWalk::Run(uint32_t start, ValueState first, const Visitor& visitor) {
  std::vector<uint8_t> visits(graph_.size());
  std::vector<std::pair<uint32_t, ValueState>> work;
  work.emplace_back(start, std::move(first));
  std::vector<uint32_t> ways;
  size_t visited = 0;
  while (!work.empty() && visited < kMaxVisited) {
    auto [node, state] = std::move(work.back());
    work.pop_back();
    if (visits[node] == kMaxVisits) continue;
    ++visits[node];
    ++visited;
    if (!visitor(node, state)) continue;
    std::optional<ValueState> not_moved;
    if (IsChoice(node)) not_moved = state;
    Step(node, &state);
    ways.clear();
    for (const uint32_t next : graph_.successors(node)) {
      if (visits[next] < kMaxVisits) ways.push_back(next);
    }
    if (ways.empty()) continue;
    if (not_moved) work.emplace_back(ways.front(), *std::move(not_moved));
    // The last successor gets the state itself, because copying a state takes far longer than a
    // step and mostly there is only one successor.
    for (size_t i = 0; i + 1 < ways.size(); ++i) work.emplace_back(ways[i], state);
    work.emplace_back(ways.back(), std::move(state));
  }
}

}  // namespace proftrace
