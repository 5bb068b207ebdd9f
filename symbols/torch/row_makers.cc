#include "symbols/torch/row_makers.h"

#include <absl/algorithm/container.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "symbols/elf/code_image.h"
#include "symbols/elf/relocated_pointers.h"
#include "symbols/process/read_budget.h"
#include "symbols/torch/given_names.h"
#include "symbols/torch/group_counter.h"
#include "symbols/torch/node_calls.h"
#include "symbols/torch/python_arguments.h"
#include "symbols/torch/row_extent.h"
#include "symbols/x86/frame_ends.h"
#include "symbols/x86/graph_analysis.h"
#include "symbols/x86/key_set.h"
#include "symbols/x86/known_callees.h"
#include "symbols/x86/value_walk.h"
#include "userspace/base/clock.h"
#include "userspace/base/text.h"

namespace proftrace {
namespace {

constexpr std::string_view kGlooWork = "_ZN4c10d16ProcessGroupGloo9AsyncWork";
// recordAsyncWorkProfilingInfo(const char* title, tensors)
constexpr WorkArguments kGlooWorkArguments = {kRsi, kRdx, /*is_later=*/true};
// The class of std::make_shared's objects, and the at::RecordFunction's offset in them.
constexpr std::string_view kSharedRow = "_ZTVSt23_Sp_counted_ptr_inplaceIN2at14RecordFunctionE";
constexpr int64_t kInSharedBytes = 16;
constexpr std::string_view kGivenToPython = "_ZN5torch3jit10toPyObjectE";
constexpr std::string_view kScriptMethod = "5torch3jit6Method";
// The vtable of the torch::jit::Function that a Method of a module calls: TorchScript's compiler
// makes only this class.
constexpr std::string_view kScriptFunctionTable = "_ZTVN5torch3jit13GraphFunctionE";
constexpr uint64_t kVtableFunctions = 16;  // behind the offset to the top and the typeinfo
// The mobile interpreter. Its inputs are not read: its lists have element types of another class
// (c10::DynamicType).
constexpr std::string_view kMobile = "5torch3jit6mobile";
constexpr std::string_view kCold = ".cold";
// The argument by which Python contexts get keyword values (torch 2.4 and later).
constexpr std::string_view kKeywordsArgument = "keyword_values";
constexpr std::string_view kIsObserved = "_ZNK3c104impl13OperatorEntry10isObservedEv";
// The is-observed flag lies behind the dispatch table of an OperatorDef, which has at least a
// hundred entries.
constexpr int64_t kLeastFlagOffset = 1024;
constexpr int64_t kMostFlagOffset = 32768;
constexpr int64_t kPythonObjectBytes = 16;

std::optional<WorkArguments> ArgumentsOfWork(const FunctionRange& range) {
  if (Contains(range.name, kGlooWork) && Contains(range.name, "recordAsyncWorkProfilingInfoEPKc")) {
    return kGlooWorkArguments;
  }
  // Work(int rank, OpType, const char* title, tensors)
  if (range.name.starts_with("_ZN4c10d4WorkC")) return WorkArguments{kRcx, kR8, false};
  return std::nullopt;
}

bool IsAnnotation(const FunctionRange& range) {
  return Contains(range.name, "torch8autograd8profiler") &&
         Contains(range.name, "record_function_enter_");
}

bool IsMemberOf(const std::vector<uint64_t>& targets, uint64_t address) {
  return std::binary_search(targets.begin(), targets.end(), address);
}

// Returns the node of the instruction at `address`; nullopt: the entry does not lead to it.
std::optional<uint32_t> NodeAt(const FlowGraph& graph, uint64_t address) {
  for (uint32_t i = 0; i < graph.size(); ++i) {
    if (graph.node(i).instruction.address == address) return i;
  }
  return std::nullopt;
}

}  // namespace

RowInputs FindContextInputs(const FlowGraph& graph, const std::vector<uint64_t>& constructors) {
  const Value function_scope{Value::kConstant, {static_cast<int64_t>(Scope::kFunction)}};
  RowInputs inputs;
  std::optional<abi::pt_place> sequence;
  std::optional<abi::pt_place> keywords;
  ValueWalk walk(graph);
  walk.set_tells_numbers();
  walk.Run(0, [&](uint32_t node, const ValueState& state) {
    const FlowNode& call = graph.node(node);
    if (!call.is_call) return true;
    if (IsMemberOf(constructors, call.instruction.target)) {
      inputs.has_keyword_scope |= state.reg(kRsi) != function_scope;
      return true;
    }
    const bool is_sequence = call.callee == "PySequence_Fast";
    if (!is_sequence && call.callee != "PyDict_Next") return true;
    inputs.kind = RowInputKind::kUnknown;
    const auto member = PlaceOf(state.reg(kRdi), abi::PT_PLACE_WORD);
    if (!member || member->base != kRdi || member->count != 2) return true;
    (is_sequence ? sequence : keywords) = *member;
    return true;
  });
  if (!sequence) return inputs;
  inputs.kind = RowInputKind::kInferredValues;
  inputs.words = {*sequence};
  if (keywords) inputs.words.push_back(*keywords);
  return inputs;
}

std::optional<abi::pt_place> FindCalledOperator(const FlowGraph& graph, uint32_t from) {
  std::optional<abi::pt_place> found;
  bool clear = true;
  ValueWalk walk(graph);
  walk.Run(from, [&](uint32_t node, const ValueState& state) {
    if (node == from) return true;
    Value op;
    if (graph.node(node).is_call) {
      const std::string_view callee = graph.node(node).callee;
      if (callee != kIsObserved) return IsOfCallbacks(callee);
      op = state.reg(kRdi);  // an OperatorDef begins with its OperatorEntry
    } else {
      const auto byte = walk.ComparedByteAt(node, state);
      if (!byte || byte->offset < kLeastFlagOffset || byte->offset > kMostFlagOffset) return true;
      op = byte->object;
      const bool in_frame = op.base == static_cast<int>(kRsp) && op.offsets.size() == 1;
      if (in_frame) return true;
    }
    const auto place = PlaceOf(op, abi::PT_PLACE_WORD);
    clear &= place.has_value() && (!found || std::memcmp(&*found, &*place, sizeof(*place)) == 0);
    found = place;
    return false;
  });
  return clear ? found : std::nullopt;
}

NamelessMaker KindOfNameless(const CodeImage& image, const FlowGraph& graph,
                             const std::vector<uint64_t>& constructors) {
  NamelessMaker kind = NamelessMaker::kNeither;
  // The code is Python's _record_function_with_args_enter, whose rows do not begin through the
  // dispatcher.
  if (CallsAny(graph, [](std::string_view callee) { return callee.starts_with(kGivenToPython); })) {
    return kind;
  }
  const Value user_scope{Value::kConstant, {static_cast<int64_t>(Scope::kUserScope)}};
  ValueWalk walk(graph);
  walk.set_tells_numbers();
  walk.Run(0, [&](uint32_t node, const ValueState& state) {
    const FlowNode& call = graph.node(node);
    if (!call.is_call || !IsMemberOf(constructors, call.instruction.target)) return true;
    if (state.reg(kRdi).base != Value::kAllocated || state.reg(kRsi) != user_scope) return true;
    const Value table = state.Load(state.reg(kRdi), -kInSharedBytes);
    const bool is_shared =
        table.base == Value::kAddress && table.offsets.size() == 2 &&
        image.SlotName(static_cast<uint64_t>(table.offsets[0])).starts_with(kSharedRow);
    kind = is_shared ? NamelessMaker::kGlooWork : NamelessMaker::kAnnotation;
    return true;
  });
  return kind;
}

RowMakerSearch::RowMakerSearch(const ModuleImage& image, const RowTargets& targets,
                               const std::vector<CallSite>& calls, int64_t limit_ns,
                               ModuleFacts* facts)
    : image_(image), targets_(targets), facts_(facts), deadline_ns_(ThreadCpuNs() + limit_ns) {
  std::map<uint64_t, Function> functions;
  for (const CallSite& call : calls) {
    const auto range = image_.FunctionAt(call.address);
    if (!range) continue;
    Function& function = functions[range->start];
    function.range = *range;
    function.calls.push_back(call);
  }
  for (auto& [start, function] : functions) functions_.push_back(std::move(function));
}

bool RowMakerSearch::Calls(const Function& function, const std::vector<uint64_t>& targets) const {
  return std::any_of(function.calls.begin(), function.calls.end(),
                     [&](const CallSite& call) { return IsMemberOf(targets, call.target); });
}

void RowMakerSearch::AddGap(std::string feature, std::string reason) {
  facts_->gaps.push_back({std::move(feature), std::move(reason)});
}

bool RowMakerSearch::IsTimeUp() {
  if (ThreadCpuNs() <= deadline_ns_ && ReadBudget::PayAll(0)) return false;
  if (!std::exchange(is_cut_, true)) {
    AddGap("rows of functions that were not analysed", "the file took too long");
  }
  return true;
}

absl::StatusOr<FlowGraph> RowMakerSearch::Graph(const FunctionRange& range) const {
  const auto unwind = image_.UnwindRangeAt(range.start);
  const bool whole = unwind && unwind->start == range.start;
  return FlowGraph::Build(image_, range.start, whole ? unwind->end : range.end);
}

// Returns the value that the virtual function at `offset` of a TorchScript function's vtable
// returns.
std::optional<Value> RowMakerSearch::NamesFunctionReturn(int64_t offset) {
  uint64_t table = 0;
  image_.file().ForEachSymbol(/*full=*/false, [&](const ElfSymbol& symbol) {
    if (symbol.is_defined && symbol.name() == kScriptFunctionTable) table = symbol.address;
  });
  if (table == 0 || offset < 0) return std::nullopt;
  if (pointers_.empty()) pointers_ = ReadRelocatedPointers(image_.file());
  const uint64_t place = table + kVtableFunctions + static_cast<uint64_t>(offset);
  const auto at =
      std::lower_bound(pointers_.begin(), pointers_.end(), place,
                       [](const RelocatedPointer& p, uint64_t a) { return p.place < a; });
  if (at == pointers_.end() || at->place != place) return std::nullopt;
  const auto range = image_.FunctionAt(at->points_to);
  if (!range || range->start != at->points_to) return std::nullopt;
  const auto graph = Graph(*range);
  if (!graph.ok()) return std::nullopt;
  const Value returned = ValueWalk(*graph).ReturnValue();
  return returned.known() ? std::optional(returned) : std::nullopt;
}

std::optional<RowProbe> RowMakerSearch::Probe(uint64_t address, uint8_t role, uint8_t reg,
                                              int64_t offset) const {
  const auto file_offset = image_.file().FileOffset(address);
  if (!file_offset || offset < std::numeric_limits<int16_t>::min() ||
      offset > std::numeric_limits<int16_t>::max()) {
    return std::nullopt;
  }
  return RowProbe{*file_offset, role, reg, static_cast<int16_t>(offset), std::nullopt, {}};
}

namespace {

// Whether the function calls at::sequence_number::peek(), and so gives its row a sequence number.
bool CallsPeek(const FlowGraph& graph) {
  return CallsAny(
      graph, [](std::string_view callee) { return callee == "_ZN2at15sequence_number4peekEv"; });
}

}  // namespace

void RowMakerSearch::AddGuardsOf(const Function& function) {
  const auto graph = Graph(function.range);
  if (!graph.ok()) {
    AddGap("rows of function " + ReadableName(SymbolOf(function.range)),
           std::string(graph.status().message()));
    return;
  }
  VirtualReturn names;
  if (Contains(function.range.name, kScriptMethod)) {
    names = [this](int64_t offset) { return NamesFunctionReturn(offset); };
  }
  size_t unnamed = 0;
  for (const CallSite& call : function.calls) {
    if (!IsMemberOf(targets_.constructors, call.target)) continue;
    if (IsTimeUp()) return;
    const auto node = NodeAt(*graph, call.address);
    const auto name = node ? FindGivenName(image_, *graph, *node, targets_.constructors, names)
                           : std::optional<RowName>();
    const bool is_symbol = name && name->place && name->place->form == abi::PT_PLACE_SYMBOL;
    auto probe = Probe(call.address, abi::PT_ROLE_GUARD_BEGIN, kRdi, 0);
    if (!name || is_symbol || !probe) {
      ++unnamed;
      continue;
    }
    probe->place = name->place;
    probe->otherwise = name->otherwise;
    probe->inputs =
        FindGivenInputs(image_, *graph, *node, targets_.constructors).value_or(RowInputs());
    // The walk may have lost the object where its inputs are stored, so that the row seems to have
    // none.
    if (probe->inputs.kind == RowInputKind::kUnknown || probe->inputs.kind == RowInputKind::kNone) {
      const auto arguments = FindPythonArguments(image_, *graph, *node);
      if (arguments) probe->inputs = *arguments;
    }
    if (Contains(function.range.name, kMobile)) {
      probe->inputs = RowInputs{RowInputKind::kUnknown, {}};
    }
    if (CallsPeek(*graph)) {
      probe->handle_register |= PT_GUARD_HAS_SEQUENCE;
      // This is a custom Function, called with (class, tuple of arguments).
      const auto arguments = FindArgument(*graph, *node, kRsi);
      if (arguments) probe->inputs = RowInputs{RowInputKind::kPythonValues, {*arguments}};
    }
    facts_->rows.push_back({SymbolOf(function.range), name->literal, {*probe}});
  }
  if (unnamed > 0) {
    AddGap("rows of function " + ReadableName(SymbolOf(function.range)),
           "their name is made while a profiler runs only");
  }
}

void RowMakerSearch::AddGuardEnds() {
  // Functions that only run with a profiler; their cold parts are left out by these names.
  std::set<std::string, std::less<>> slow;
  std::set<std::string, std::less<>> engine;
  for (const Function& function : functions_) {
    if (function.range.name.empty()) continue;
    if (Calls(function, targets_.step_constructors)) slow.emplace(function.range.name);
    if (Calls(function, targets_.engine)) engine.emplace(function.range.name);
  }
  for (const Function& function : functions_) {
    std::string_view name = function.range.name;
    if (const size_t cold = name.find(kCold); cold != std::string_view::npos) {
      name = name.substr(0, cold);
    }
    if (Calls(function, targets_.step_constructors) || slow.contains(name) ||
        Calls(function, targets_.engine) || engine.contains(name) ||
        IsMemberOf(targets_.ends, function.range.start)) {
      continue;
    }
    if (IsTimeUp()) return;
    const auto graph = Graph(function.range);
    for (const CallSite& call : function.calls) {
      if (!IsMemberOf(targets_.ends, call.target)) continue;
      const bool normal = graph.ok() && NodeAt(*graph, call.address) && name == function.range.name;
      const auto probe = Probe(
          call.address, normal ? abi::PT_ROLE_GUARD_END : abi::PT_ROLE_GUARD_UNWOUND, kRdi, 0);
      if (probe) facts_->row_ends.push_back(*probe);
    }
  }
}

// Adds the row of a work. The row lasts until the work is finished, which may be on another thread;
// its at::RecordFunction itself is kept only if a profiler runs.
void RowMakerSearch::AddWork(const Function& function, const WorkArguments& arguments) {
  const auto graph = Graph(function.range);
  std::optional<RowProbe> begin;
  for (const CallSite& call : function.calls) {
    if (!graph.ok() || !IsMemberOf(targets_.constructors, call.target)) continue;
    if (IsTimeUp()) return;
    ValueWalk(*graph).Run(0, [&](uint32_t node, const ValueState& state) {
      if (graph->node(node).instruction.address != call.address || begin) return true;
      const auto work = state.Find(Value{static_cast<int>(kRdi), {0}});
      const auto text = state.Find(Value{static_cast<int>(arguments.title), {0}});
      if (!work || work->offsets.size() != 1 || !text) return false;
      begin = Probe(call.address,
                    arguments.is_later ? abi::PT_ROLE_WORK_TITLE : abi::PT_ROLE_GUARD_BEGIN,
                    static_cast<uint8_t>(work->base), 0);
      if (begin) begin->place = PlaceOf(*text, abi::PT_PLACE_C_STRING);
      const auto tensors = state.Find(Value{static_cast<int>(arguments.tensors), {0}});
      const auto place = tensors ? PlaceOf(*tensors, abi::PT_PLACE_WORD) : std::nullopt;
      if (begin && place) begin->inputs = RowInputs{RowInputKind::kTensorVector, {*place}};
      return false;
    });
  }
  const std::vector<RowProbe> ends = FindWorkProbes();
  if (!begin || !begin->place || ends.empty()) {
    AddGap("rows of function " + ReadableName(SymbolOf(function.range)),
           "where its work or its title is kept is not clear from its code");
    return;
  }
  facts_->rows.push_back({SymbolOf(function.range), "", {*begin}, /*is_async=*/true});
  for (const RowProbe& end : ends) {
    const bool known =
        std::any_of(facts_->row_ends.begin(), facts_->row_ends.end(),
                    [&](const RowProbe& other) { return other.offset == end.offset; });
    if (!known) facts_->row_ends.push_back(end);
  }
}

// Returns the probe of a function that a group of gloo is called by; nullopt: it is none, or its
// code does not show where the group counts.
std::optional<RowProbe> RowMakerSearch::GroupCallProbe(std::string_view name, uint64_t at) const {
  if (absl::c_linear_search(kGlooMessages, name)) {
    return Probe(at, abi::PT_ROLE_GROUP_CALL, kRsi, 0);
  }
  if (name != kGlooNextTag) return std::nullopt;
  std::array<uint8_t, kCounterCodeBytes> code{};
  if (image_.ReadCode(at, code.data(), code.size()) != code.size()) return std::nullopt;
  const GroupCounter counter = CounterOfCode(code);
  if (counter.bytes != sizeof(uint32_t)) return std::nullopt;
  return Probe(at, abi::PT_ROLE_GROUP_CALL, kRdi, counter.offset);
}

std::vector<RowProbe> RowMakerSearch::FindWorkProbes() const {
  std::vector<RowProbe> probes;
  image_.file().ForEachSymbol(/*full=*/false, [&](const ElfSymbol& symbol) {
    const std::string_view name = symbol.name();
    if (!symbol.is_defined || !symbol.is_function || name.ends_with(kCold)) return;
    if (const auto call = GroupCallProbe(name, symbol.address)) probes.push_back(*call);
    uint8_t role = 0;
    if (name.starts_with("_ZN4c10d4Work6finishE") ||
        name.starts_with("_ZN4c10d4Work14finishAndThrowE")) {
      role = abi::PT_ROLE_GUARD_END;
    } else if (name.starts_with("_ZN4c10d16ProcessGroupGloo9AsyncWork7executeE")) {
      role = abi::PT_ROLE_WORK_BEGIN;  // the argument is an intrusive_ptr, by reference or by value
    }
    if (role == 0) return;
    const auto probe = Probe(symbol.address, role, kRdi, 0);
    if (probe) probes.push_back(*probe);
  });
  return probes;
}

void RowMakerSearch::AddGuards() {
  for (const Function& function : functions_) {
    if (IsTimeUp()) return;
    if (!Calls(function, targets_.constructors) || Calls(function, targets_.engine)) continue;
    const NamelessMaker kind = KindOf(function);
    if (IsAnnotation(function.range) || kind == NamelessMaker::kAnnotation) {
      AddAnnotationGuards(function);
    } else if (const auto arguments = kind == NamelessMaker::kGlooWork
                                          ? std::optional(kGlooWorkArguments)
                                          : ArgumentsOfWork(function.range)) {
      AddWork(function, *arguments);
    } else if (!HasOtherProbes(function.range)) {
      AddGuardsOf(function);
    }
  }
  AddGuardEnds();
}

bool RowMakerSearch::AddOperatorCall(const FunctionRange& function, const FlowGraph& graph,
                                     uint32_t call) {
  const auto place = FindCalledOperator(graph, call);
  auto begin = Probe(graph.node(call).instruction.address, abi::PT_ROLE_PLACED_BEGIN, 0, 0);
  if (!place || !begin) return false;
  begin->place = place;
  begin->inputs = FindCallInputs(graph, call).value_or(RowInputs{RowInputKind::kUnknown, {}});
  if (const auto keys = FindKeySet(graph, call)) {
    begin->handle_register = keys->reg | PT_KEY_SET_KNOWN;
    begin->handle_offset = keys->offset;
  }
  return AddPlaced(function, graph, call, *std::move(begin));
}

// Adds a row that ends where the callbacks are destroyed. Returns false where its ends are not
// clear.
bool RowMakerSearch::AddPlaced(const FunctionRange& function, const FlowGraph& graph, uint32_t call,
                               RowProbe begin) {
  std::vector<uint32_t> ends;
  if (const auto meeting = FindMeetingPoint(graph, call)) {
    ends.push_back(*meeting);
  } else {
    ends = FindFlagTests(graph, call);
    if (ends.empty()) ends = FindDestructions(graph, call);
  }
  if (ends.empty()) return false;
  MadeRow row;
  row.symbol = SymbolOf(function);
  row.probes.push_back(std::move(begin));
  for (const uint32_t end : ends) {
    const auto over = Probe(graph.node(end).instruction.address, abi::PT_ROLE_END, 0, 0);
    if (!over) return false;
    row.probes.push_back(*over);
  }
  facts_->rows.push_back(std::move(row));
  return true;
}

bool RowMakerSearch::AddNodeCall(const FunctionRange& function, const FlowGraph& graph,
                                 uint32_t call) {
  auto called = FindCalledNode(graph, call);
  auto begin = Probe(graph.node(call).instruction.address, abi::PT_ROLE_PLACED_NODE, 0, 0);
  if (!called || !begin) return false;
  begin->place = called->node;
  begin->inputs = std::move(called->inputs);
  if (!AddPlaced(function, graph, call, *std::move(begin))) return false;
  for (const uint64_t address : FindCatches(image_, function)) {
    const auto end = Probe(address, abi::PT_ROLE_CATCH, 0, 0);
    if (end) facts_->row_ends.push_back(*end);
  }
  return true;
}

// Adds the row of a call that is named by the code itself, not by an operator, as in the static
// runtime.
bool RowMakerSearch::AddNamedCall(const FunctionRange& function, const FlowGraph& graph,
                                  uint32_t call) {
  const auto name = FindGivenName(image_, graph, call, {});
  const auto meeting = FindMeetingPoint(graph, call);
  if (!name || !meeting || (name->place && name->place->form != abi::PT_PLACE_SYMBOL)) return false;
  auto begin = Probe(graph.node(call).instruction.address, abi::PT_ROLE_PLACED_BEGIN, 0, 0);
  const auto end = Probe(graph.node(*meeting).instruction.address, abi::PT_ROLE_END, 0, 0);
  if (!begin || !end) return false;
  begin->place = name->place;
  begin->inputs = FindGivenInputs(image_, graph, call, {}).value_or(RowInputs());
  facts_->rows.push_back({SymbolOf(function), name->literal, {*begin, *end}});
  return true;
}

bool RowMakerSearch::AddFrames(const FunctionRange& function, const FlowGraph& graph,
                               uint32_t call) {
  const std::optional<FrameSlot> slot = FindFrameSlot(graph, call);
  if (!slot) return false;
  const auto name = FindGivenName(image_, graph, slot->node, {});
  if (!name || !name->place || name->place->base != slot->frame || name->place->count < 2) {
    return false;
  }
  // The name is that of the frame's code, to which the first step of the name's place leads.
  const int64_t code = name->place->offsets[0];
  auto begin = Probe(graph.node(slot->node).instruction.address, abi::PT_ROLE_FRAME_BEGIN,
                     slot->frame, code);
  if (!begin) return false;
  begin->place = name->place;
  begin->inputs = FindGivenInputs(image_, graph, slot->node, {})
                      .value_or(RowInputs{RowInputKind::kUnknown, {}});
  std::vector<RowProbe> ends;
  for (const FrameEnd& end : FindFrameEnds(image_, function, slot->offset - code)) {
    const auto probe = Probe(end.address, abi::PT_ROLE_FRAME_END, end.reg, end.offset);
    if (probe) ends.push_back(*probe);
  }
  if (ends.empty()) return false;
  facts_->row_ends.insert(facts_->row_ends.end(), ends.begin(), ends.end());
  facts_->rows.push_back({SymbolOf(function), "", {*begin}});
  return true;
}

bool RowMakerSearch::AddCaller(const FunctionRange& range) {
  const auto graph = Graph(range);
  if (!graph.ok()) return false;
  bool all = true;
  for (const Function& function : functions_) {
    if (function.range.start != range.start) continue;
    for (const CallSite& call : function.calls) {
      if (!IsMemberOf(targets_.step_callbacks, call.target)) continue;
      const auto node = NodeAt(*graph, call.address);
      if (!node) continue;          // the call is in code that only exceptions run
      if (IsTimeUp()) return true;  // the gap was added
      all &= AddOperatorCall(range, *graph, *node) || AddFrames(range, *graph, *node) ||
             AddNodeCall(range, *graph, *node) || AddNamedCall(range, *graph, *node);
    }
  }
  return all;
}

bool RowMakerSearch::HasOtherProbes(const FunctionRange& range) const {
  // caffe2's functions with that prefix make types of objects, not rows.
  return contexts_.contains(range.start) || range.name.starts_with("_ZN6caffe26detail");
}

NamelessMaker RowMakerSearch::KindOf(const Function& function) const {
  if (!function.range.name.empty()) return NamelessMaker::kNeither;
  const auto graph = Graph(function.range);
  return graph.ok() ? KindOfNameless(image_, *graph, targets_.constructors)
                    : NamelessMaker::kNeither;
}

void RowMakerSearch::AddAnnotationGuards(const Function& function) {
  // Annotations begin through the dispatcher. Their guards are noted because a future may end them.
  for (const CallSite& call : function.calls) {
    if (!IsMemberOf(targets_.constructors, call.target)) continue;
    const auto probe = Probe(call.address, abi::PT_ROLE_ANNOTATION_GUARD, kRdi, 0);
    if (probe) facts_->row_ends.push_back(*probe);
  }
}

void RowMakerSearch::AddFastContexts() {
  for (const ContextMethods& methods : FindContextMethods(image_.file())) {
    const auto enter = image_.FunctionAt(methods.enter);
    const auto exit = image_.FunctionAt(methods.exit);
    if (!enter || !exit) continue;
    if (IsTimeUp()) return;
    const auto makes_row = [&](const Function& function) {
      return function.range.start == enter->start && Calls(function, targets_.constructors);
    };
    if (std::none_of(functions_.begin(), functions_.end(), makes_row)) continue;
    contexts_.insert(enter->start);
    const auto graph = Graph(*enter);
    if (!graph.ok()) continue;
    // The name is the first str of the object that the code passes on.
    std::optional<abi::pt_place> place;
    ValueWalk(*graph).Run(0, [&](uint32_t node, const ValueState& state) {
      if (!graph->node(node).is_call || place) return true;
      for (const unsigned argument : {kRdi, kRsi}) {
        const Value& value = state.reg(argument);
        if (value.base == static_cast<int>(kRdi) && value.offsets.size() == 2 &&
            value.offsets[0] == kPythonObjectBytes && value.offsets[1] == 0) {
          place = PlaceOf(value, abi::PT_PLACE_PYTHON_STRING);
        }
      }
      return true;
    });
    auto begin = Probe(enter->start, abi::PT_ROLE_GUARD_BEGIN, kRdi, 0);
    const auto end = Probe(exit->start, abi::PT_ROLE_GUARD_END, kRdi, 0);
    if (!place || !begin || !end) {
      AddGap("rows of torch._C._profiler._RecordFunctionFast",
             "its name was not found in its code");
      continue;
    }
    begin->place = place;
    begin->inputs = FindContextInputs(*graph, targets_.constructors);
    // Both words, for the inputs and for the keywords, should have been found.
    if (begin->inputs.words.size() < 2 &&
        !FindReadOnlyText(image_.file(), kKeywordsArgument).empty()) {
      AddGap("keyword values of torch._C._profiler._RecordFunctionFast (--record-shapes)",
             "where it looks through the dict of them is not clear from its code");
    }
    facts_->rows.push_back({SymbolOf(*enter), "", {*begin}});
    facts_->row_ends.push_back(*end);
  }
}

}  // namespace proftrace
