#include "symbols/torch/module_analysis.h"

#include <absl/container/flat_hash_map.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <utility>

#include "symbols/elf/code_image.h"
#include "symbols/elf/rtti_search.h"
#include "symbols/torch/cuda_functions.h"
#include "symbols/torch/function_analysis.h"
#include "symbols/torch/garbage_collector.h"
#include "symbols/torch/node_calls.h"
#include "symbols/torch/range_functions.h"
#include "symbols/torch/row_makers.h"
#include "symbols/torch/unwinder_entry.h"
#include "symbols/x86/argument_use.h"
#include "symbols/x86/call_scan.h"
#include "userspace/base/text.h"

namespace proftrace {
namespace {

constexpr std::string_view kOperatorPrefix = "_ZN2at4_ops";
constexpr std::string_view kStepCallbacks = "_ZN2at27getStepCallbacksUnlessEmptyENS_11RecordScopeE";
constexpr std::string_view kRecordFunctionPrefix = "_ZN2at14RecordFunctionC";
constexpr std::string_view kRecordFunctionSuffix = "ENS_11RecordScopeE";
constexpr std::string_view kStepConstructorSuffix = "EONS_13StepCallbacksE";
constexpr std::string_view kRecordFunctionDestructor = "_ZN2at14RecordFunctionD";
constexpr std::string_view kRecordFunctionEnd = "_ZN2at14RecordFunction3endEv";
constexpr std::string_view kEvaluate = "_ZN5torch8autograd6Engine17evaluate_functionE";
constexpr std::string_view kDistEngineLoop =
    "_ZN5torch11distributed8autograd10DistEngine42execute_graph_task_until_ready_queue_emptyE";
constexpr std::string_view kNodeCall = "_ZN5torch8autograd4NodeclE";
constexpr std::string_view kDispatcherCallBoxed = "_ZNK3c1010Dispatcher9callBoxedE";
constexpr std::string_view kDispatcherSlot = "_ZZN3c1010Dispatcher9singletonEvE1s";
constexpr std::string_view kUndefinedTensor = "_ZN3c1019UndefinedTensorImpl10_singletonE";
constexpr std::string_view kPythonNodeVtable = "_ZTVN5torch8autograd6PyNodeE";
constexpr std::string_view kPythonNodeType = "N5torch8autograd6PyNodeE";
constexpr std::string_view kCheckFailed = "_ZN3c106detail14torchCheckFailE";
constexpr std::string_view kEnterAnnotation =
    "_ZN5torch8autograd8profiler25record_function_enter_newE";
constexpr std::string_view kAssignTimeout = "_ZN4c10d16ProcessGroupNCCL19assignTimeoutToWorkE";
constexpr std::string_view kEnqueueWork = "_ZN4c10d16ProcessGroupNCCL11workEnqueueE";
constexpr std::string_view kBeginCatch = "__cxa_begin_catch";
constexpr std::string_view kUnwinderSetIp = "_Unwind_SetIP";
constexpr std::string_view kUnwinderGetCfa = "_Unwind_GetCFA";
// Functions in c10/core/CPUAllocator.h and Allocator.h. The type of their last argument differs
// between versions, but its place does not.
struct MemoryFunction {
  std::string_view prefix;
  FunctionRole role;
};
constexpr MemoryFunction kMemoryFunctions[] = {
    {"_ZN3c1025ProfiledCPUMemoryReporter3NewEPvm", FunctionRole::kAllocation},
    {"_ZN3c1025ProfiledCPUMemoryReporter6DeleteEPv", FunctionRole::kFree},
    {"_ZN3c1025ProfiledCPUMemoryReporter11OutOfMemoryEm", FunctionRole::kCpuOutOfMemory},
    {"_ZN3c1027reportMemoryUsageToProfilerEPvl", FunctionRole::kDeviceMemory},
    {"_ZN3c1027reportOutOfMemoryToProfilerEl", FunctionRole::kDeviceOutOfMemory},
};
constexpr std::string_view kPythonInit = "THPAutograd_initFunctions";
// A vtable begins with offset-to-top and typeinfo; objects point behind them (Itanium C++ ABI).
constexpr uint64_t kVtableHeaderBytes = 16;
// The most operators of a file. No real build has as many, but a hostile file may claim millions.
constexpr size_t kMaxFunctions = 20000;
// The longest mangled name of an operator that is accepted, because names are kept. torch's own
// have up to 600 bytes.
constexpr size_t kLongestOperator = 4096;
constexpr size_t kMaxCallers = 5000;

bool IsRecordFunctionConstructor(std::string_view name) {
  return name.size() == kRecordFunctionPrefix.size() + 1 + kRecordFunctionSuffix.size() &&
         name.starts_with(kRecordFunctionPrefix) && name.ends_with(kRecordFunctionSuffix);
}

bool IsStepConstructor(std::string_view name) {
  return name.size() == kRecordFunctionPrefix.size() + 1 + kStepConstructorSuffix.size() &&
         name.starts_with(kRecordFunctionPrefix) && name.ends_with(kStepConstructorSuffix);
}

bool IsRecordFunctionEnd(std::string_view name) {
  // D0, the deleting destructor, does not count, because it calls D1.
  if (!name.starts_with(kRecordFunctionDestructor)) return name == kRecordFunctionEnd;
  name.remove_prefix(kRecordFunctionDestructor.size());
  return name == "1Ev" || name == "2Ev";
}

const MemoryFunction* FindMemoryFunction(std::string_view name) {
  if (!name.starts_with("_ZN3c102") || Contains(name, ".")) return nullptr;
  for (const MemoryFunction& function : kMemoryFunctions) {
    if (name.starts_with(function.prefix)) return &function;
  }
  return nullptr;
}

bool IsInteresting(std::string_view name, bool is_defined) {
  if (name == kStepCallbacks || IsRecordFunctionConstructor(name)) return true;
  return is_defined && (name == kBeginCatch || name == kUnwinderSetIp || RangeRole(name) != 0 ||
                        FindAutogradFunction(name) != AutogradFunction::kNone ||
                        name == kDispatcherSlot || !OperatorIdentifier(name).empty() ||
                        FindMemoryFunction(name) != nullptr || IsCudaLaunch(name));
}

std::string StatusText(const absl::Status& status) { return std::string(status.message()); }

// Collects one file's facts, step by step.
class Analysis {
 public:
  Analysis(ElfFile* file, int64_t limit_ns)
      : image_(file), analysis_(image_, targets_.step_callbacks, limit_ns) {}
  ModuleFacts Run();

 private:
  void ReadSymbols();
  void NoteSymbol(const ElfSymbol& symbol);
  void NoteImports();
  void AddStepCallbackCallers();
  void AddCaller(const FunctionRange& range);
  void AddBoxed(const FunctionRange& range, const FlowGraph& graph);
  void NoteTarget(std::string_view name, uint64_t address);
  void AddEntries();
  void AddUnwinderEntry();
  void AddRanges();
  void AddNcclWorkEnds();
  void AddCudaCalls();
  void AddCollectors();
  void AddAutograd();
  void AddEntry(FunctionRole role, const NamedFunction& symbol);

  std::vector<FunctionRange> Callers(const std::vector<uint64_t>& targets) const;

  ModuleImage image_;
  ModuleFacts facts_;
  std::vector<NamedFunction> operators_;
  std::vector<NamedFunction> catches_;
  uint64_t unwinder_set_ip_ = 0;  // the addresses of both functions; 0 = not in this file
  uint64_t unwinder_get_cfa_ = 0;
  std::vector<std::pair<FunctionRole, NamedFunction>> memory_functions_;
  std::map<uint64_t, NamedFunction> range_functions_;  // by address
  std::map<uint64_t, NamedFunction> cuda_functions_;   // by address
  std::vector<NamedFunction> nccl_work_ends_;
  bool has_collector_ = false;
  std::optional<NamedFunction> evaluate_;
  std::optional<NamedFunction> dist_engine_;
  std::optional<NamedFunction> callbacks_;
  std::vector<std::pair<AutogradFunction, NamedFunction>> autograd_functions_;
  RowTargets targets_;  // functions whose callers make rows, or end them
  FunctionAnalysis analysis_;
  std::vector<CallSite> calls_;  // calls of any of `targets_`
  std::optional<RowMakerSearch> row_makers_;
  std::vector<std::string> other_callers_;
};

void Analysis::NoteSymbol(const ElfSymbol& symbol) {
  const std::string_view name = symbol.name();
  if (symbol.is_defined && symbol.is_function && RangeRole(name) != 0) {
    range_functions_[symbol.address] = NamedFunction{name, symbol.address, symbol.size};
    return;
  }
  if (symbol.is_defined && symbol.is_function && FindCudaFunction(name).api != CudaApi::kNone) {
    cuda_functions_.try_emplace(symbol.address, NamedFunction{name, symbol.address, symbol.size});
    return;
  }
  if (name.starts_with(kAssignTimeout) || name.starts_with(kEnqueueWork)) {
    if (symbol.is_defined && symbol.is_function) {
      nccl_work_ends_.push_back(NamedFunction{name, symbol.address, symbol.size});
    }
    return;
  }
  // Both functions take a std::string const&, which is "Ss" for the pre-C++11 string and is spelled
  // out for the other one.
  if (name.starts_with(kCheckFailed) || name.starts_with(kEnterAnnotation)) {
    facts_.old_string_abi |= Contains(name, "RKSs");
  }
  if (!symbol.is_defined || !name.starts_with("_")) {
    if (symbol.is_defined && name.starts_with(kPythonInit)) facts_.is_python_binding = true;
    has_collector_ |= symbol.is_defined && name == kCollectorEntry;
    return;
  }
  if (const auto function = FindAutogradFunction(name); function != AutogradFunction::kNone) {
    autograd_functions_.emplace_back(function, NamedFunction{name, symbol.address, symbol.size});
    return;
  }
  if (name == kStepCallbacks) callbacks_ = NamedFunction{name, symbol.address, symbol.size};
  const auto is_new = [&](const std::vector<NamedFunction>& list) {
    return std::none_of(list.begin(), list.end(),
                        [&](const auto& known) { return known.address == symbol.address; });
  };
  if (name == kDispatcherSlot) {
    facts_.dispatcher_slot = symbol.address;
  } else if (name == kPythonNodeVtable) {
    facts_.python_node_vtable = symbol.address + kVtableHeaderBytes;
  } else if (name == kUndefinedTensor) {
    facts_.undefined_tensor = symbol.address;
  } else if (!symbol.is_function) {
    return;
  } else if (!OperatorIdentifier(name).empty()) {
    if (operators_.size() < kMaxFunctions) {
      operators_.push_back({name, symbol.address, symbol.size});
    }
  } else if (name.starts_with(kEvaluate) && !Contains(name, ".cold")) {
    evaluate_ = NamedFunction{name, symbol.address, symbol.size};
    NoteTarget(name, symbol.address);
  } else if (name.starts_with(kDistEngineLoop) && !Contains(name, ".cold")) {
    dist_engine_ = NamedFunction{name, symbol.address, symbol.size};
  } else if (const MemoryFunction* memory = FindMemoryFunction(name); memory != nullptr) {
    const bool is_known =
        std::any_of(memory_functions_.begin(), memory_functions_.end(),
                    [&](const auto& known) { return known.first == memory->role; });
    if (!is_known) {
      memory_functions_.emplace_back(memory->role,
                                     NamedFunction{name, symbol.address, symbol.size});
    }
  } else if (name == kBeginCatch && catches_.size() < 16 && is_new(catches_)) {
    catches_.push_back({name, symbol.address, symbol.size});
  } else if (name == kUnwinderSetIp) {
    unwinder_set_ip_ = symbol.address;
  } else if (name == kUnwinderGetCfa) {
    unwinder_get_cfa_ = symbol.address;
  } else {
    NoteTarget(name, symbol.address);
  }
}

void Analysis::NoteTarget(std::string_view name, uint64_t address) {
  if (name == kStepCallbacks) targets_.step_callbacks.push_back(address);
  if (IsRecordFunctionConstructor(name)) targets_.constructors.push_back(address);
  if (IsStepConstructor(name)) targets_.step_constructors.push_back(address);
  if (IsRecordFunctionEnd(name)) targets_.ends.push_back(address);
  if (name.starts_with(kEvaluate) && !Contains(name, ".cold")) targets_.engine.push_back(address);
}

void Analysis::ReadSymbols() {
  image_.file().ForEachSymbol(/*full=*/false, [&](const ElfSymbol& s) { NoteSymbol(s); });
  image_.file().ForEachSymbol(/*full=*/true, [&](const ElfSymbol& s) { NoteSymbol(s); });
  image_.file().ForgetFullSymbols();
  // An operator may be in the list several times, because both tables name exported symbols and a
  // symbol may have two versions.
  std::stable_sort(operators_.begin(), operators_.end(),
                   [](const auto& a, const auto& b) { return a.address < b.address; });
  operators_.erase(std::unique(operators_.begin(), operators_.end(),
                               [](const auto& a, const auto& b) { return a.address == b.address; }),
                   operators_.end());
}

void Analysis::NoteImports() {
  for (const auto* names : {&image_.file().PltNames(), &image_.file().SlotNames()}) {
    for (const auto& [address, name] : *names) NoteTarget(name, address);
  }
  for (std::vector<uint64_t>* targets :
       {&targets_.step_callbacks, &targets_.constructors, &targets_.step_constructors,
        &targets_.ends, &targets_.engine}) {
    std::sort(targets->begin(), targets->end());
    targets->erase(std::unique(targets->begin(), targets->end()), targets->end());
  }
}

std::vector<FunctionRange> Analysis::Callers(const std::vector<uint64_t>& targets) const {
  std::map<uint64_t, FunctionRange> callers;
  for (const CallSite& call : calls_) {
    if (!std::binary_search(targets.begin(), targets.end(), call.target)) continue;
    const auto function = image_.FunctionAt(call.address);
    if (function && callers.size() < kMaxCallers) callers.emplace(function->start, *function);
  }
  std::vector<FunctionRange> out;
  for (const auto& [start, range] : callers) out.push_back(range);
  return out;
}

void Analysis::AddBoxed(const FunctionRange& range, const FlowGraph& graph) {
  ProbedFunction function;
  function.role = FunctionRole::kBoxed;
  function.symbol = SymbolOf(range);
  const auto place = FindBoxedArguments(graph);
  if (!place) {
    analysis_.AddFunctionGap(function, "its arguments could not be told from its code");
    return;
  }
  function.argument = place->handle;
  function.stack_argument = place->stack;
  function.callbacks = analysis_.FindCallbacksCall(graph);
  analysis_.Add(std::move(function), graph, WorkRule::kDispatch);
}

void Analysis::AddCaller(const FunctionRange& range) {
  if (!OperatorIdentifier(range.name).empty()) return;
  const bool is_boxed = range.name.starts_with(kDispatcherCallBoxed);
  const bool is_node = range.name.starts_with(kNodeCall);
  const auto graph = analysis_.BuildGraph(range.start, range.end);
  if (!graph.ok()) {
    analysis_.AddGap("function " + ReadableName(SymbolOf(range)), StatusText(graph.status()));
    return;
  }
  const CallerKind kind = is_boxed  ? CallerKind::kBoxed
                          : is_node ? CallerKind::kNode
                          : !range.name.empty()
                              ? CallerKind::kUnknown
                              : ClassifyCaller(image_, *graph, targets_.step_callbacks);
  if (kind == CallerKind::kBoxed) {
    AddBoxed(range, *graph);
  } else if (kind == CallerKind::kNode) {
    ProbedFunction function;
    function.role = FunctionRole::kNodeCall;
    function.symbol = SymbolOf(range);
    function.argument = abi::PT_RSI;  // rdi: where the result goes
    if (const auto place = FindNodeSequence(*graph)) facts_.autograd.node_sequence = *place;
    analysis_.Add(std::move(function), *graph, WorkRule::kDispatch);
  } else if (!row_makers_->AddCaller(range)) {
    other_callers_.push_back(SymbolOf(range));
  }
}

void Analysis::AddStepCallbackCallers() {
  for (const FunctionRange& range : Callers(targets_.step_callbacks)) AddCaller(range);
  for (const std::string& name : other_callers_) {
    analysis_.AddGap("rows of function " + ReadableName(name),
                     "what it calls, or where that ends, is not clear from its code");
  }
}

void Analysis::AddEntry(FunctionRole role, const NamedFunction& symbol) {
  ProbedFunction function;
  function.role = role;
  function.symbol = std::string(symbol.name);
  const auto graph = analysis_.BuildGraph(symbol.address, symbol.address + symbol.size);
  if (graph.ok()) {
    WorkRule rule = WorkRule::kDispatch;
    if (role == FunctionRole::kCudaCall) {
      const bool is_driver = FindCudaFunction(symbol.name).api == CudaApi::kDriver;
      rule = is_driver ? WorkRule::kThroughWord : WorkRule::kAnyCall;
    }
    // The function cleans up by indirect calls. Its work has names, because that is in the same
    // library.
    if (role == FunctionRole::kDistEngine) rule = WorkRule::kNamed;
    analysis_.Add(std::move(function), *graph, rule);
  } else {
    analysis_.AddFunctionGap(function, StatusText(graph.status()));
  }
}

void Analysis::AddEntries() {
  for (const NamedFunction& symbol : catches_) AddEntry(FunctionRole::kCatch, symbol);
  if (dist_engine_) AddEntry(FunctionRole::kDistEngine, *dist_engine_);
  for (const auto& [role, symbol] : memory_functions_) AddEntry(role, symbol);
}

void Analysis::AddUnwinderEntry() {
  // A row that an unwinder not found here unwinds ends where the exception is caught.
  std::vector<HiddenUnwinderEntry> entries = FindHiddenUnwinders(image_.file());
  if (unwinder_set_ip_ != 0 && unwinder_get_cfa_ != 0) {
    const auto entry = FindUnwinderEntry(image_, unwinder_set_ip_, unwinder_get_cfa_);
    std::erase_if(entries, [this](const auto& one) { return one.address == unwinder_set_ip_; });
    if (entry) entries.push_back({unwinder_set_ip_, *entry});
  }
  for (HiddenUnwinderEntry& entry : entries) {
    const auto offset = image_.file().FileOffset(entry.address);
    if (!offset) continue;
    entry.probe.offset = *offset;
    facts_.row_ends.push_back(std::move(entry.probe));
  }
}

void Analysis::AddRanges() {
  for (const auto& [address, symbol] : range_functions_) {
    MadeRow row;
    row.symbol = std::string(symbol.name);
    row.literal = std::string(RangePrefix(symbol.name));
    const auto graph = analysis_.BuildGraph(address, address + symbol.size);
    const auto begin = graph.ok() ? FindBeginSite(*graph) : std::nullopt;
    const auto offset = begin ? image_.file().FileOffset(begin->address) : std::nullopt;
    if (!offset) {
      analysis_.AddGap("ranges by " + ReadableName(row.symbol),
                       "its entry is not clear from its code");
      continue;
    }
    row.probes.push_back(RowProbe{*offset, RangeRole(symbol.name), 0, 0, std::nullopt});
    facts_.rows.push_back(std::move(row));
  }
}

// Adds the ends of rows of NCCL's works. ProcessGroupNCCL keeps such a row only if a profiler runs,
// and ends it when it has given the collective to the device. The row is ended here at the next
// step: setting the work's timeout (2.4 and later), or queueing the work.
void Analysis::AddNcclWorkEnds() {
  for (const std::string_view which : {kAssignTimeout, kEnqueueWork}) {
    for (const NamedFunction& symbol : nccl_work_ends_) {
      if (!symbol.name.starts_with(which)) continue;
      const auto graph = analysis_.BuildGraph(symbol.address, symbol.address + symbol.size);
      const auto begin = graph.ok() ? FindBeginSite(*graph) : std::nullopt;
      const auto offset = begin ? image_.file().FileOffset(begin->address) : std::nullopt;
      if (!offset) continue;
      facts_.row_ends.push_back({*offset, abi::PT_ROLE_WORK_END, kRsi, 0, std::nullopt, {}, {}});
      return;
    }
  }
  if (!nccl_work_ends_.empty()) {
    analysis_.AddGap("ends of rows of NCCL's collectives", "they are not clear from its code");
  }
}

void Analysis::AddCudaCalls() {
  const bool is_cuda =
      std::any_of(cuda_functions_.begin(), cuda_functions_.end(),
                  [](const auto& entry) { return IsCudaLaunch(entry.second.name); });
  if (!is_cuda) return;
  for (const auto& [address, symbol] : cuda_functions_) AddEntry(FunctionRole::kCudaCall, symbol);
}

// Adds Python's garbage collectors. Adds no gap where none is found; the plan does that, if
// collections are wanted.
void Analysis::AddCollectors() {
  if (!has_collector_) return;
  for (const FunctionRange& range : FindCollectors(image_, &analysis_)) {
    const auto graph = analysis_.BuildGraph(range.start, range.end);
    if (!graph.ok()) continue;
    ProbedFunction function;
    function.role = FunctionRole::kCollector;
    function.symbol = SymbolOf(range);
    analysis_.Add(std::move(function), *graph, WorkRule::kAnyCall);
  }
}

void Analysis::AddAutograd() {
  for (const auto& [function, symbol] : autograd_functions_) {
    const auto graph = analysis_.BuildGraph(symbol.address, symbol.address + symbol.size);
    if (graph.ok()) ReadAutogradFunction(function, *graph, &facts_.autograd);
  }
  if (!callbacks_) return;
  const auto graph =
      analysis_.BuildGraph(callbacks_->address, callbacks_->address + callbacks_->size);
  if (!graph.ok()) return;
  const auto begin = FindBeginSite(*graph);
  if (begin && begin->emulated) {
    facts_.callbacks_entry = image_.file().FileOffset(begin->address).value_or(0);
    if (begin->next != 0) {
      facts_.callbacks_next = image_.file().FileOffset(begin->next).value_or(0);
    }
  }
}

ModuleFacts Analysis::Run() {
  ReadSymbols();
  NoteImports();
  AddAutograd();
  AddOperators(image_, targets_.step_callbacks, operators_, &analysis_);
  if (evaluate_) {
    ProbedFunction function;
    function.role = FunctionRole::kEvaluate;
    function.symbol = std::string(evaluate_->name);
    function.argument = abi::PT_RDX;
    const auto graph =
        analysis_.BuildGraph(evaluate_->address, evaluate_->address + evaluate_->size);
    if (graph.ok()) {
      analysis_.Add(std::move(function), *graph,
                    image_.has_full_symbols() ? WorkRule::kNamed : WorkRule::kDispatch);
    } else {
      analysis_.AddFunctionGap(function, StatusText(graph.status()));
    }
  }
  std::vector<uint64_t> targets;
  for (const std::vector<uint64_t>* part :
       {&targets_.step_callbacks, &targets_.constructors, &targets_.step_constructors,
        &targets_.ends, &targets_.engine}) {
    targets.insert(targets.end(), part->begin(), part->end());
  }
  FoundCalls found = FindCalls(image_.file(), targets, analysis_.left_ns());
  calls_ = std::move(found.sites);
  analysis_.is_cut |= found.is_cut;
  if (found.is_cut || found.left_out > 0) {
    analysis_.AddGap("rows of functions that were not looked for",
                     found.is_cut ? "the file took too long"
                                  : "it has sections of code that are too large to read");
  }
  row_makers_.emplace(image_, targets_, calls_, analysis_.left_ns(), &facts_);
  AddStepCallbackCallers();
  row_makers_->AddFastContexts();
  row_makers_->AddGuards();
  AddEntries();
  AddUnwinderEntry();
  AddRanges();
  AddNcclWorkEnds();
  AddCudaCalls();
  AddCollectors();
  // Only torch's Python binding has the class: a file without operators that imports the functions
  // which make rows.
  if (facts_.python_node_vtable == 0 && operators_.empty() && !targets_.step_callbacks.empty()) {
    facts_.python_node_vtable = FindVtable(image_.file(), kPythonNodeType).value_or(0);
  }
  facts_.is_cut = analysis_.is_cut || row_makers_->is_cut();
  facts_.functions = std::move(analysis_.functions);
  std::move(analysis_.gaps.begin(), analysis_.gaps.end(), std::back_inserter(facts_.gaps));
  return std::move(facts_);
}

}  // namespace

std::string_view OperatorIdentifier(std::string_view symbol) {
  if (!symbol.starts_with(kOperatorPrefix) || symbol.size() > kLongestOperator) return {};
  symbol.remove_prefix(kOperatorPrefix.size());
  size_t length = 0;
  size_t digits = 0;
  while (digits < symbol.size() && digits < 4 && symbol[digits] >= '0' && symbol[digits] <= '9') {
    length = length * 10 + static_cast<size_t>(symbol[digits] - '0');
    ++digits;
  }
  if (digits == 0 || symbol.size() < digits + length) return {};
  const std::string_view identifier = symbol.substr(digits, length);
  const std::string_view rest = symbol.substr(digits + length);
  if (!rest.starts_with("4callE") || Contains(rest, ".")) return {};
  return identifier;
}

bool MayContribute(ElfFile& file, bool full, bool has_collector) {
  bool found = false;
  file.ForEachSymbol(full, [&](const ElfSymbol& symbol) {
    // 'n' as in nvtxRangePushA, 'c' as in cudaLaunchKernel.
    const char first = symbol.text[0];
    const bool may_be = first == '_' || first == 'n' || first == 'c';
    if (!found && may_be) found = IsInteresting(symbol.name(), symbol.is_defined);
    if (has_collector && first == 'P') {
      found |= symbol.is_defined && symbol.name() == kCollectorEntry;
    }
  });
  return found || !FindHiddenUnwinders(file).empty();
}

uint64_t FindDispatcherSlot(ElfFile& file) {
  uint64_t slot = 0;
  file.ForEachSymbol(/*full=*/false, [&](const ElfSymbol& symbol) {
    const bool may_be = slot == 0 && symbol.is_defined && symbol.text[0] == '_';
    if (may_be && symbol.name() == kDispatcherSlot) slot = symbol.address;
  });
  return slot;
}

ModuleFacts AnalyzeModule(ElfFile* file, int64_t limit_ns) {
  return Analysis(file, limit_ns).Run();
}

}  // namespace proftrace
