#include "symbols/x86/argument_use.h"

#include <algorithm>
#include <array>
#include <utility>

#include "bpf/abi/records.h"
#include "symbols/x86/disassembler.h"
#include "symbols/x86/exit_sites.h"

namespace proftrace {
namespace {

constexpr size_t kMaxVisited = 2000;
constexpr size_t kRegisters = 16;
// An offset in an OperatorDef behind its name, where the overload name, schema, dispatch table and
// dispatch key extractor lie.
constexpr int64_t kDeepInOperator = 64;
constexpr int64_t kLargestOperator = 16384;
constexpr int64_t kVectorEnd = 8;  // std::vector: begin, end, capacity

// The known content of a register.
struct Value {
  enum Kind : uint8_t { kUnknown, kArgument, kLoaded } kind = kUnknown;
  // Enum pt_register; for kLoaded the value is the word that the argument points to
  uint8_t argument = 0;
};

// A word of the frame in which a value was saved.
struct Spill {
  int base = -1;  // the number of rsp or rbp
  int64_t offset = 0;
  Value value;
};

struct State {
  std::array<Value, kRegisters> registers;
  std::array<Spill, 8> spills;  // the latest; enough for the few arguments that are followed
  size_t next_spill = 0;

  Value& operator[](size_t number) { return registers[number]; }
  const Value& operator[](size_t number) const { return registers[number]; }
};
constexpr int kFramePointer = 5;

bool IsFrameRegister(int number) {
  return number == static_cast<int>(kRsp) || number == kFramePointer;
}

void StoreSpill(State* state, int base, int64_t offset, const Value& value) {
  for (Spill& spill : state->spills) {
    if (spill.base == base && spill.offset == offset) spill = Spill();
  }
  if (value.kind == Value::kUnknown) return;
  state->spills[state->next_spill++ % state->spills.size()] = {base, offset, value};
}

Value LoadSpill(const State& state, int base, int64_t offset) {
  for (const Spill& spill : state.spills) {
    if (spill.base == base && spill.offset == offset) return spill.value;
  }
  return Value();
}

// Forgets the words that lie at offsets from `base`, because these mean other places once the
// register has changed.
void ForgetSpills(State* state, int base) {
  for (Spill& spill : state->spills) {
    if (spill.base == base) spill = Spill();
  }
}

// How the function was seen to use one of its first three arguments.
struct Use {
  bool reads_word_at_end = false;     // [argument + 8]
  bool reads_deep_in_object = false;  // [[argument] + large]
  bool reads_near_in_object = false;  // [[argument] + small]: a vtable slot
};

// Follows the arguments through registers. Visits each instruction once, on the first path that
// leads to it.
class ArgumentWalk {
 public:
  explicit ArgumentWalk(const FlowGraph& graph) : graph_(graph) {}

  // Returns how the arguments are used. `until_call`: only instructions before the first call of
  // each path count.
  std::array<Use, 3> Run(bool until_call);

 private:
  void Step(uint32_t node, State* state);
  void NoteRead(const cs_x86_op& operand, const State& state);

  const FlowGraph& graph_;
  std::array<Use, 3> uses_;
};

void ArgumentWalk::NoteRead(const cs_x86_op& operand, const State& state) {
  const int base = RegisterNumber(operand.mem.base);
  if (base < 0 || operand.mem.index != X86_REG_INVALID) return;
  const Value& value = state[static_cast<size_t>(base)];
  if (value.kind == Value::kUnknown || value.argument >= uses_.size()) return;
  Use& use = uses_[value.argument];
  const int64_t offset = operand.mem.disp;
  if (value.kind == Value::kArgument) {
    use.reads_word_at_end |= offset == kVectorEnd && operand.size == 8;
  } else if (offset >= kDeepInOperator && offset < kLargestOperator) {
    use.reads_deep_in_object |= offset > 8 * kDeepInOperator;
    use.reads_near_in_object |= offset <= 8 * kDeepInOperator;
  } else if (offset >= 0 && offset < kDeepInOperator) {
    use.reads_near_in_object = true;
  }
}

void ArgumentWalk::Step(uint32_t node, State* state) {
  const Disassembled* now = Disassembler::OfThread().Decode(graph_.node(node).instruction);
  if (now == nullptr) {
    *state = State();
    return;
  }
  const cs_x86& detail = now->operands();
  for (uint8_t i = 0; i < detail.op_count; ++i) {
    if (detail.operands[i].type == X86_OP_MEM && now->id() != X86_INS_LEA) {
      NoteRead(detail.operands[i], *state);
    }
  }
  if (graph_.node(node).is_call) {
    for (const size_t lost : {0, 1, 2, 6, 7, 8, 9, 10, 11}) (*state)[lost] = Value();
    return;
  }
  Value moved;
  int to = -1;
  if (now->id() == X86_INS_MOV && detail.op_count == 2 && detail.operands[0].type == X86_OP_REG) {
    to = RegisterNumber(detail.operands[0].reg);
    const cs_x86_op& source = detail.operands[1];
    if (source.type == X86_OP_REG) {
      const int from = RegisterNumber(source.reg);
      if (from >= 0) moved = (*state)[static_cast<size_t>(from)];
    } else if (source.type == X86_OP_MEM && source.size == 8 &&
               source.mem.index == X86_REG_INVALID) {
      const int base = RegisterNumber(source.mem.base);
      // Without a frame pointer rbp is a register like any other, and may hold an argument.
      if (base >= 0 && (*state)[static_cast<size_t>(base)].kind != Value::kUnknown) {
        const Value& pointer = (*state)[static_cast<size_t>(base)];
        if (source.mem.disp == 0 && pointer.kind == Value::kArgument) {
          moved = {Value::kLoaded, pointer.argument};
        }
      } else if (IsFrameRegister(base)) {
        moved = LoadSpill(*state, base, source.mem.disp);
      }
    }
  }
  if (now->id() == X86_INS_MOV && detail.op_count == 2 && detail.operands[0].type == X86_OP_MEM &&
      detail.operands[0].mem.index == X86_REG_INVALID) {
    const int base = RegisterNumber(detail.operands[0].mem.base);
    const int from =
        detail.operands[1].type == X86_OP_REG ? RegisterNumber(detail.operands[1].reg) : -1;
    if (IsFrameRegister(base) && (*state)[static_cast<size_t>(base)].kind == Value::kUnknown) {
      const Value stored = from >= 0 ? (*state)[static_cast<size_t>(from)] : Value();
      StoreSpill(state, base, detail.operands[0].mem.disp, stored);
    }
  }
  if (!now->written_known) *state = State();
  for (size_t i = 0; i < 10; ++i) {
    if ((now->written_general >> i & 1) != 0) (*state)[i] = Value();
  }
  for (const uint16_t reg : now->written) {
    const int number = RegisterNumber(reg);
    if (number >= 0) (*state)[static_cast<size_t>(number)] = Value();
    if (IsFrameRegister(number)) ForgetSpills(state, number);
  }
  if (to >= 0) (*state)[static_cast<size_t>(to)] = moved;
}

std::array<Use, 3> ArgumentWalk::Run(bool until_call) {
  State entry;
  entry[7] = {Value::kArgument, abi::PT_RDI};
  entry[6] = {Value::kArgument, abi::PT_RSI};
  entry[2] = {Value::kArgument, abi::PT_RDX};
  std::vector<bool> seen(graph_.size());
  std::vector<std::pair<uint32_t, State>> work = {{0, entry}};
  size_t visited = 0;
  while (!work.empty() && visited < kMaxVisited) {
    auto [node, state] = work.back();
    work.pop_back();
    if (seen[node]) continue;
    seen[node] = true;
    ++visited;
    if (graph_.node(node).instruction.size == 0) continue;
    Step(node, &state);
    if (until_call && graph_.node(node).is_call) continue;
    for (const uint32_t next : graph_.successors(node)) {
      if (!seen[next]) work.emplace_back(next, state);
    }
  }
  return uses_;
}

std::optional<BoxedArguments> BoxedPlace(const std::array<Use, 3>& uses) {
  std::optional<BoxedArguments> found;
  for (uint8_t handle = 0; handle < 2; ++handle) {
    if (!uses[handle].reads_deep_in_object || !uses[handle + 1].reads_word_at_end) continue;
    if (found) return std::nullopt;
    found = BoxedArguments{handle, static_cast<uint8_t>(handle + 1)};
  }
  return found;
}

// Returns the scope (at::RecordScope) that a call gets, where the instructions between `start` and
// the call put a constant into esi; nullopt: they do not.
std::optional<uint32_t> ScopeOfCall(const CodeImage& image, uint64_t start, uint64_t call) {
  uint8_t bytes[64];
  if (call < start) return std::nullopt;
  const size_t got = image.ReadCode(start, bytes, std::min<uint64_t>(sizeof(bytes), call - start));
  std::optional<uint32_t> scope;
  for (const Instruction& instruction : DecodeAll(bytes, got, start)) {
    const uint8_t* at = bytes + (instruction.address - start);
    if (instruction.size == 5 && at[0] == 0xbe) {  // mov esi, imm32
      scope = static_cast<uint32_t>(at[1]) | static_cast<uint32_t>(at[2]) << 8;
    } else if (instruction.size == 2 && (at[0] == 0x31 || at[0] == 0x33) && at[1] == 0xf6) {
      scope = 0;  // xor esi, esi
    }
  }
  return scope;
}

}  // namespace

std::optional<BoxedArguments> FindBoxedArguments(const FlowGraph& graph) {
  return BoxedPlace(ArgumentWalk(graph).Run(/*until_call=*/false));
}

CallerKind ClassifyCaller(const CodeImage& image, const FlowGraph& graph,
                          const std::vector<uint64_t>& callbacks) {
  std::vector<uint32_t> calls;
  for (uint32_t i = 0; i < graph.size(); ++i) {
    if (graph.node(i).is_call &&
        std::binary_search(callbacks.begin(), callbacks.end(), graph.node(i).instruction.target)) {
      calls.push_back(i);
    }
  }
  if (calls.size() != 1) return CallerKind::kUnknown;
  const std::vector<uint32_t> mandatory = MandatoryNodes(graph);
  const auto at = std::find(mandatory.begin(), mandatory.end(), calls[0]);
  if (at == mandatory.end()) return CallerKind::kUnknown;
  // Finds the first of up to six mandatory instructions that lie directly before the call.
  auto first = at;
  while (first != mandatory.begin() && at - first < 6) {
    const Instruction& before = graph.node(*(first - 1)).instruction;
    if (before.next() != graph.node(*first).instruction.address) break;
    --first;
  }
  const uint64_t call = graph.node(*at).instruction.address;
  const auto scope = ScopeOfCall(image, graph.node(*first).instruction.address, call);
  const uint32_t kFunctionScope = 0;
  const uint32_t kBackwardScope = 1;
  // callBoxed first looks at the dispatch keys of its arguments. A fallback that ends in an inlined
  // callBoxed (functionalization) makes other calls before, which the row would not cover, so that
  // it does not count.
  if (scope == kFunctionScope && BoxedPlace(ArgumentWalk(graph).Run(/*until_call=*/true))) {
    return CallerKind::kBoxed;
  }
  if (scope == kBackwardScope &&
      ArgumentWalk(graph).Run(/*until_call=*/false)[abi::PT_RSI].reads_near_in_object) {
    return CallerKind::kNode;
  }
  return CallerKind::kUnknown;
}

}  // namespace proftrace
