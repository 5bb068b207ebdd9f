#include "symbols/torch/row_inputs.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>
#include <utility>

#include "symbols/torch/call_arguments.h"
#include "symbols/x86/forwarded_calls.h"
#include "symbols/x86/instruction.h"
#include "symbols/x86/key_set.h"
#include "symbols/x86/value_sums.h"
#include "symbols/x86/value_walk.h"
#include "userspace/base/demangle.h"
#include "userspace/base/text.h"

namespace proftrace {
namespace {

constexpr std::string_view kBefore = "_ZN2at14RecordFunction6beforeE";
constexpr std::string_view kWithScope = "record_function_with_scope";
// rdi, rsi, rdx, rcx, r8, r9, in the order of enum pt_register.
constexpr std::array<unsigned, 6> kArgumentRegisters = {7, 6, 2, 1, 8, 9};
// An at::RecordFunction begins with StepCallbacks, and has 344 bytes in 2.15. Behind it lie
// registers that the function saves.
constexpr int64_t kLeastInputsOffset = 64;
constexpr int64_t kRecordFunctionBytes = 344;
constexpr int64_t kMostValues = 256;
constexpr int64_t kVectorBytes = 24;
constexpr int64_t kVectorEnd = 8;
constexpr int64_t kValueBytes = 16;  // sizeof(c10::IValue)

abi::pt_place UnknownPlace() {
  abi::pt_place place{};
  place.base = abi::PT_PLACE_UNKNOWN;
  place.count = 1;
  return place;
}

std::optional<abi::pt_place> WordPlace(const Value& value) {
  if (value.is_byte) {
    Value whole = value;
    whole.is_byte = false;
    auto place = WordPlace(whole);
    if (place) place->is_byte = 1;
    return place;
  }
  if (!value.is_number()) return PlaceOf(value, abi::PT_PLACE_WORD);
  abi::pt_place place{};
  place.base = abi::PT_PLACE_CONSTANT;
  place.address = static_cast<uint64_t>(value.offsets[0]);
  place.count = 1;
  return place;
}

// Returns the place from which the first two words of an object were moved into it, if they lie
// side by side there. A std::vector that is handed on is read at that place.
std::optional<Value> PlaceBeforeMove(const std::map<int64_t, Value>& words) {
  const auto first = words.find(0);
  const auto second = words.find(8);
  if (first == words.end() || second == words.end()) return std::nullopt;
  Value address = first->second;
  if (!address.known() || address.base > Value::kAddress || address.offsets.size() < 2 ||
      address.offsets.back() != 0) {
    return std::nullopt;
  }
  Value next = address;
  next.offsets[next.offsets.size() - 2] += 8;
  if (next != second->second) return std::nullopt;
  address.offsets.pop_back();
  return address;
}

// Returns the place, at the row's begin, of a word that a kernel gets. If the word is the address
// of an object that is made later, returns the place from which the object is moved, or that of its
// first word.
abi::pt_place KernelWord(const Value& word, const ValueState& state) {
  if (const auto before = PlaceBeforeMove(state.WordsOf(word, 16))) {
    if (const auto place = WordPlace(*before)) return *place;
  }
  const std::map<int64_t, Value> made = state.WordsOf(word, 8);
  auto place = WordPlace(made.empty() ? word : made.begin()->second);
  if (place && !made.empty()) place->is_content = 1;
  return place.value_or(UnknownPlace());
}

// Returns the places of all words that an unboxed kernel gets. Vector registers stand in the first
// words, in place of the kernel and its keys, of which nothing is shown (see PlaceKernelArguments).
std::vector<abi::pt_place> KernelWords(unsigned first_argument, const ValueState& state) {
  std::vector<abi::pt_place> words;
  for (unsigned i = 0; i < PT_ROW_WORDS; ++i) {
    const Value word = i < first_argument              ? state.vector(i)
                       : i < kArgumentRegisters.size() ? state.reg(kArgumentRegisters[i])
                                                       : state.Load(state.reg(kRsp), (i - 6) * 8);
    words.push_back(KernelWord(word, state));
  }
  return words;
}

bool IsSame(const abi::pt_place& a, const abi::pt_place& b) {
  return std::memcmp(&a, &b, sizeof(a)) == 0;
}

// Forgets vector registers that are no arguments, because their content may differ from path to
// path.
void ForgetOtherVectors(unsigned first_argument, RowInputs* one, RowInputs* other) {
  if (one->kind != RowInputKind::kKernel) return;
  for (unsigned i = 0; i < first_argument; ++i) {
    if (IsSame(one->words[i], other->words[i])) continue;
    one->words[i] = other->words[i] = UnknownPlace();
  }
}

// Notes the inputs of the row on one path. `first_argument`: how many words come before the
// kernel's arguments. False: another path has other inputs.
bool NoteAgreed(unsigned first_argument, RowInputs inputs, std::optional<RowInputs>* found) {
  bool same = true;
  if (*found) {
    ForgetOtherVectors(first_argument, &**found, &inputs);
    same = (*found)->kind == inputs.kind && (*found)->type == inputs.type &&
           std::equal((*found)->words.begin(), (*found)->words.end(), inputs.words.begin(),
                      inputs.words.end(), IsSame);
  }
  *found = std::move(inputs);
  return same;
}

struct GivenInputs {
  Value data;
  Value count;
};

// Returns the inputs of the call of RecordFunction::before at `state`: its argument of type
// ArrayRef<IValue> or, where that overload is inlined, the one that was stored into the object.
std::optional<GivenInputs> InputsOfCall(std::string_view callee, const ValueState& state) {
  if (!callee.starts_with(kBefore)) return std::nullopt;
  if (Contains(callee, "ArrayRefIK") && Contains(callee, "6IValueE")) {
    return GivenInputs{state.reg(kRsi), state.reg(kRdx)};
  }
  const std::map<int64_t, Value> words = state.WordsOf(state.reg(kRdi), kRecordFunctionBytes);
  for (const auto& [offset, word] : words) {
    const auto next = words.find(offset + 8);
    if (offset < kLeastInputsOffset || next == words.end() || !next->second.known()) continue;
    return GivenInputs{word, next->second};
  }
  return std::nullopt;
}

// Returns the places of inputs that are an array in the function's frame, a whole Stack, or the
// last values of a Stack as torch::jit::last() takes them: from its end less the bytes of `count`
// values.
std::optional<RowInputs> PlacesOf(const GivenInputs& inputs, ValueSums* sums) {
  if (inputs.count.is_number() && inputs.count.offsets[0] == 0) return RowInputs();
  // These are all elements of a std::vector where data and count lead from its begin to its end.
  Value end = sums->Add(inputs.data, inputs.count, kValueBytes);
  const size_t steps = inputs.data.offsets.size();
  if (steps >= 2 && inputs.data.offsets.back() == 0) {
    Value vector = inputs.data;
    vector.offsets.pop_back();
    Value vector_end = inputs.data;
    vector_end.offsets[steps - 2] += kVectorEnd;
    const auto place = WordPlace(vector);
    if (end == vector_end && place) return RowInputs{RowInputKind::kStack, {*place}};
  }
  const auto count = WordPlace(inputs.count);
  if (!count) return std::nullopt;
  const bool is_array = inputs.count.is_number() && inputs.count.offsets[0] > 0 &&
                        inputs.count.offsets[0] <= kMostValues;
  const auto data = WordPlace(inputs.data);
  if (is_array && data && data->count == 1) {
    return RowInputs{RowInputKind::kValues, {*data, *count}};
  }
  if (end.base > Value::kAddress || end.offsets.size() < 2 || end.offsets.back() != 0) {
    return std::nullopt;
  }
  end.offsets.pop_back();
  const auto stack = WordPlace(sums->Add(end, Value{Value::kConstant, {kVectorEnd}}, -1));
  if (!stack) return std::nullopt;
  return RowInputs{RowInputKind::kLastValues, {*stack, *count}};
}

bool IsOneOf(const std::vector<uint64_t>& targets, const FlowNode& call) {
  return std::binary_search(targets.begin(), targets.end(), call.instruction.target);
}

// Returns the inputs on which all paths from `from` to a call of RecordFunction::before with inputs
// agree.
std::optional<RowInputs> OnWhichAllAgree(const CodeImage& image, const FlowGraph& graph,
                                         uint32_t from, const std::vector<uint64_t>& stops) {
  std::optional<RowInputs> agreed;
  bool clear = true;
  ValueSums sums;
  ValueWalk walk(graph);
  const ValueState frame = walk.FrameAt(from);
  walk.set_tells_numbers();
  walk.set_sums(&sums, &image);
  ForwardedCalls before(image, graph,
                        [](std::string_view callee) { return callee.starts_with(kBefore); });
  before.TellNames(&walk);
  walk.Run(from, frame, [&](uint32_t node, const ValueState& state) {
    const FlowNode& call = graph.node(node);
    if (!before.LeadsToOne(node)) return false;
    if (!call.is_call || node == from) return true;
    if (IsOneOf(stops, call)) return false;
    return !before.Visit(walk, node, state, [&](std::string_view callee, const ValueState& at) {
      const auto given = InputsOfCall(callee, at);
      const std::optional<RowInputs> inputs = given ? PlacesOf(*given, &sums) : std::nullopt;
      if (inputs) clear &= NoteAgreed(0, *inputs, &agreed);
    });
  });
  return clear ? agreed : std::nullopt;
}

// Whether a row that begins at `from` has inputs at all. `start`, where the walk begins, is `from`
// or the function's begin; from there, registers that are set before the row begins are known as
// well.
bool HasInputs(const CodeImage& image, const FlowGraph& graph, uint32_t start, uint32_t from,
               const std::vector<uint64_t>& stops) {
  bool found = false;
  std::optional<Value> object;
  const auto takes_inputs = [](std::string_view callee) {
    return callee.starts_with(kBefore) || Contains(callee, kWithScope);
  };
  ForwardedCalls taking(image, graph, takes_inputs);
  ValueWalk walk(graph);
  taking.TellNames(&walk);
  walk.Run(start, [&](uint32_t node, const ValueState& state) {
    if (!taking.LeadsToOne(node)) return false;
    if (node == from) object = state.reg(kRdi);
    if (node == from || found || !object || !graph.node(node).is_call) return !found;
    if (IsOneOf(stops, graph.node(node))) return false;
    return !taking.Visit(walk, node, state, [&](std::string_view callee, const ValueState& at) {
      const auto stored = at.WordsOf(at.reg(kRdi), kRecordFunctionBytes);
      const bool is_its_own = start == from || at.reg(kRdi) == *object;
      found |= is_its_own && (Contains(callee, "6IValueE") ||
                              stored.lower_bound(kLeastInputsOffset) != stored.end());
    });
  });
  return found;
}

}  // namespace

std::optional<RowInputs> FindGivenInputs(const CodeImage& image, const FlowGraph& graph,
                                         uint32_t from, const std::vector<uint64_t>& stops) {
  auto given = OnWhichAllAgree(image, graph, from, stops);
  if (given ||
      (!HasInputs(image, graph, from, from, stops) && !HasInputs(image, graph, 0, from, stops))) {
    return given;
  }
  return RowInputs{RowInputKind::kUnknown, {}};
}

std::optional<abi::pt_place> FindArgument(const FlowGraph& graph, uint32_t at, unsigned argument) {
  std::optional<abi::pt_place> found;
  bool done = false;
  const std::vector<bool> leading = NodesLeadingTo(graph, {at});
  ValueWalk(graph).Run(0, [&](uint32_t node, const ValueState& state) {
    if (node != at) return !done && leading[node];
    done = true;
    if (const auto value = state.Find(Value{static_cast<int>(argument), {0}})) {
      found = PlaceOf(*value, abi::PT_PLACE_WORD);
    }
    return false;
  });
  return found;
}

namespace {

// Returns TYPE, demangled, of callWithDispatchKeySlowPath<…>(TypedOperatorHandle<TYPE> const&, …);
// empty: `callee` is another function.
std::string TypeOfSlowPath(std::string_view callee) {
  const std::string demangled = Demangle(std::string(callee)).value_or("");
  const std::vector<std::string> parameters = ParameterTypes(demangled);
  std::string_view type = parameters.empty() ? std::string_view() : parameters[0];
  constexpr std::string_view kEnd = "> const&";
  if (!ConsumeText(&type, "c10::TypedOperatorHandle<") || !type.ends_with(kEnd)) return "";
  type.remove_suffix(kEnd.size());
  return std::string(type);
}

struct SymbolicInputs {
  bool are_there = false;  // whether the operator takes numbers that may be symbolic
  std::optional<RowInputs> told;
};

// Finds the inputs of an operator that takes numbers that may be symbolic. Without callbacks, the
// code calls one of two kernels, of which one gets plain numbers. With callbacks, it always calls
// the same function with copies that are made right before, so that the inputs are taken from
// there.
SymbolicInputs FindSymbolicInputs(const FlowGraph& graph, uint32_t from, const ValueState& frame) {
  SymbolicInputs inputs;
  bool clear = true;
  const std::vector<bool> leading = NodesLeadingToCalls(graph, IsSlowPath);
  ValueWalk walk(graph);
  walk.set_tells_numbers();
  walk.Run(from, frame, [&](uint32_t node, const ValueState& state) {
    if (!leading[node]) return false;
    const FlowNode& call = graph.node(node);
    if (node == from || !call.is_call || !IsSlowPath(call.callee)) return true;
    const auto slow_call = SlowCallAt(call, frame, state);
    // The call may belong to another operator that is called behind this one.
    if (!slow_call || !Contains(call.callee, "6SymInt")) return false;
    inputs.are_there = true;
    RowInputs one{RowInputKind::kKernel, {}, TypeOfSlowPath(call.callee)};
    if (one.type.empty()) return false;
    one.words = KernelWords(slow_call->first_argument, state);
    clear &= NoteAgreed(slow_call->first_argument, std::move(one), &inputs.told);
    return false;
  });
  if (!clear) inputs.told.reset();
  return inputs;
}

}  // namespace

std::optional<RowInputs> FindCallInputs(const FlowGraph& graph, uint32_t from) {
  std::optional<RowInputs> found;
  bool clear = true;
  ValueWalk walk(graph);
  // The frame may hold addresses of objects that are made on the way already.
  const ValueState frame = walk.FrameAt(from);
  SymbolicInputs symbolic = FindSymbolicInputs(graph, from, frame);
  if (symbolic.are_there) return std::move(symbolic.told);
  const auto slow_call = FindSlowCall(graph, from, frame);
  walk.set_tells_numbers();
  walk.Run(from, frame, [&](uint32_t node, const ValueState& state) {
    const FlowNode& call = graph.node(node);
    if (node == from || !call.is_call) return true;
    const Value called = call.is_indirect ? walk.CalledAt(node, state) : Value();
    auto kernel = KernelCallAt(call, called, state);
    if (!kernel && slow_call) kernel = KernelCallBeside(*slow_call, call, state);
    if (!kernel) return true;
    RowInputs inputs;
    if (kernel->form == KernelForm::kByWrapper) return false;
    if (kernel->form == KernelForm::kBoxed) {
      const Value& values = state.reg(kArgumentRegisters[kernel->first_argument]);
      const auto stack = WordPlace(values);
      // Where an unboxed call has only a boxed kernel, its Stack is made after the row's begin.
      if (!stack || !state.WordsOf(values, kVectorBytes).empty()) return false;
      inputs = RowInputs{RowInputKind::kStack, {*stack}};
    } else {
      inputs.kind = RowInputKind::kKernel;
      inputs.words = KernelWords(kernel->first_argument, state);
    }
    // The words of an unboxed kernel are preferred, because they are those of the operator's
    // schema. A boxed call may be another path of the same call, with a Stack that is made for it.
    if (found && found->kind == RowInputKind::kKernel && inputs.kind != found->kind) return false;
    if (found && found->kind != inputs.kind) found.reset();
    clear &= NoteAgreed(kernel->first_argument, std::move(inputs), &found);
    return false;
  });
  return clear ? found : std::nullopt;
}

}  // namespace proftrace
