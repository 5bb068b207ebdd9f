#include "symbols/plan/planner.h"

#include <absl/container/flat_hash_map.h>
#include <absl/container/flat_hash_set.h>
#include <absl/strings/str_cat.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "symbols/plan/displaced_code.h"
#include "symbols/plan/input_plan.h"
#include "symbols/plan/module_reader.h"
#include "symbols/plan/process.h"
#include "symbols/plan/row_plan.h"
#include "symbols/plan/torch_copies.h"
#include "symbols/process/process_maps.h"
#include "symbols/process/process_memory.h"
#include "symbols/process/read_budget.h"
#include "symbols/python/python_runtime.h"
#include "symbols/torch/cuda_functions.h"
#include "symbols/torch/module_analysis.h"
#include "symbols/torch/operator_registry.h"
#include "symbols/torch/torch_layout.h"
#include "symbols/torch/version_layouts.h"
#include "userspace/base/exit_status.h"
#include "userspace/model/torch_rules.h"

namespace proftrace {
namespace {

// Puts the plan together from the files' facts and the live Dispatcher.
class PlanBuilder {
 public:
  PlanBuilder(Pid pid, std::vector<Module> modules, const PlanOptions& options)
      : pid_(pid),
        modules_(std::move(modules)),
        profile_memory_(options.profile_memory),
        record_shapes_(options.record_shapes),
        python_gc_(options.python_gc),
        cuda_calls_(options.cuda_calls) {}
  ProbePlan Run(const std::vector<MappedFile>& files);

 private:
  void ReadDispatcher();
  void PrepareInputs();
  void AddModule(const Module& module);
  bool AddFunction(const ProbedFunction& function, std::vector<ProbePoint>* points);
  void AddInputs(const ProbedFunction& function, std::vector<ProbePoint>* begin);
  std::optional<Label> LabelOf(const ProbedFunction& function) const;
  bool AddMemoryFunction(const ProbedFunction& function, std::vector<ProbePoint>* points);
  void AddGaps();
  void AddMemoryGaps();
  std::string UnknownLayout() const;
  void CheckNodeOffsets();
  // Finds where the process keeps the numbers from which sequence numbers are recorded, or adds a
  // gap.
  void FindAutogradLayout();
  bool HasSequence(const ProbedFunction& function) const;
  ProbePoint CallbacksPoint(const ProbedFunction& function, size_t site, abi::pt_role role) const;
  ProbePoint BeginPoint(const ProbedFunction& function, size_t site) const;
  bool HasRole(FunctionRole role) const;

  Pid pid_;
  std::vector<Module> modules_;
  bool profile_memory_;
  bool record_shapes_;
  bool python_gc_;
  CudaCalls cuda_calls_;
  SchemaReading schemas_;
  TorchLayout torch_layout_;
  std::optional<InputPlanner> inputs_;  // nullopt: inputs are not read
  ProbePlan plan_;
  absl::flat_hash_map<std::string, const OperatorInfo*> by_identifier_;
  RowOffsets offsets_;
};

void PlanBuilder::ReadDispatcher() {
  const ProcessMemory memory(pid_);
  for (const Module& module : modules_) plan_.old_string_abi |= module.facts.old_string_abi;
  for (const Module& module : modules_) {
    if (module.facts.dispatcher_slot == 0) continue;
    const uint64_t slot = module.load_bias + module.facts.dispatcher_slot;
    // Each library has a copy of the variable. The dynamic linker makes all libraries use one of
    // the copies, and the others stay 0.
    auto list = ReadOperatorList(memory, slot, plan_.old_string_abi);
    if (list.operators.size() <= plan_.operators.size()) continue;
    plan_.operators = std::move(list.operators);
    plan_.operators_whole = list.is_whole;
    plan_.dispatcher_slot = slot;
  }
  for (const OperatorInfo& info : plan_.operators) {
    const std::string identifier = OperatorSymbolIdentifier(info.name, info.overload_name);
    const auto [it, is_new] = by_identifier_.try_emplace(identifier, &info);
    if (!is_new && info.name.starts_with("aten::")) it->second = &info;
  }
}

void PlanBuilder::PrepareInputs() {
  if (!record_shapes_) return;
  uint64_t undefined_tensor = 0;
  for (const Module& module : modules_) {
    if (module.facts.undefined_tensor == 0) continue;
    undefined_tensor = module.load_bias + module.facts.undefined_tensor;
  }
  schemas_ = ReadSchemas(pid_, plan_, plan_.operators);
  torch_layout_ =
      FindTorchLayout(ProcessMemory(pid_), plan_.torch_version, undefined_tensor, schemas_);
  const std::string& refusal = schemas_.refusal.empty() ? torch_layout_.refusal : schemas_.refusal;
  if (!refusal.empty()) {
    plan_.gaps.push_back({"inputs of operators (--record-shapes)", refusal});
    return;
  }
  if (const auto python = PythonValueLayoutOf(plan_.torch_version, plan_.python_version)) {
    torch_layout_.layout.python_tensor = python->tensor;
    torch_layout_.layout.python_items = python->items;
    torch_layout_.layout.python_long_tag = python->long_tag ? 1 : 0;
    torch_layout_.layout.python_dict_kind = python->dict_kind;
    torch_layout_.layout.python_numbers = python->shows_numbers ? 1 : 0;
  } else {
    plan_.gaps.push_back({"inputs of custom autograd Functions and of annotations with arguments",
                          absl::StrCat("the layout of tensors in torch ", plan_.torch_version,
                                       " and Python ", plan_.python_version, " is not known")});
  }
  inputs_.emplace(torch_layout_, schemas_);
}

std::optional<Label> PlanBuilder::LabelOf(const ProbedFunction& function) const {
  Label label;
  switch (function.role) {
    case FunctionRole::kOperator: {
      const std::string_view identifier = OperatorIdentifier(function.symbol);
      const auto found = by_identifier_.find(std::string(identifier));
      if (found != by_identifier_.end()) {
        label.name = found->second->name;
        label.overload_name = found->second->overload_name;
      } else {
        label.name = "aten::" + std::string(identifier);
      }
      if (IsUnobserved(label.name)) return std::nullopt;
      return label;
    }
    case FunctionRole::kEvaluate:
      label.name = "autograd::engine::evaluate_function: ";
      label.kind = SpanKind::kAutograd;
      return label;
    case FunctionRole::kNodeCall:
      return LabelOfNodes();
    case FunctionRole::kDistEngine:
      label.name = kDistEngineName;
      label.kind = SpanKind::kAutograd;
      return label;
    case FunctionRole::kCollector:
      if (!python_gc_) return std::nullopt;
      label.name = "Python GC";
      label.category = Category::kPythonFunction;
      label.kind = SpanKind::kCollection;
      return label;
    case FunctionRole::kBoxed:
    case FunctionRole::kCatch:
      return label;
    case FunctionRole::kAllocation:
    case FunctionRole::kFree:
    case FunctionRole::kCpuOutOfMemory:
    case FunctionRole::kDeviceMemory:
    case FunctionRole::kDeviceOutOfMemory:
      return std::nullopt;  // these make no rows
    case FunctionRole::kCudaCall: {
      if (cuda_calls_ == CudaCalls::kNever) return std::nullopt;
      const bool is_runtime = FindCudaFunction(function.symbol).api == CudaApi::kRuntime;
      label.name = function.symbol;
      label.category = is_runtime ? Category::kCudaRuntime : Category::kCudaDriver;
      label.kind = SpanKind::kRuntime;
      return label;
    }
  }
  return std::nullopt;
}

bool PlanBuilder::AddMemoryFunction(const ProbedFunction& function,
                                    std::vector<ProbePoint>* points) {
  if (!profile_memory_ || plan_.sites.size() > kMaxSites) return false;
  if (plan_.memory_site == 0) {
    // All memory probes have one site, so that they are attached together or not at all:
    // allocations without their frees, or frees without allocations, would be worse than neither.
    plan_.memory_site = static_cast<uint16_t>(plan_.sites.size());
    plan_.sites.push_back({Label{}, "c10 memory reports", ExitRule::kNone});
  }
  // The roles of functions and probes have the same numbers.
  static_assert(static_cast<int>(FunctionRole::kAllocation) == abi::PT_ROLE_ALLOCATION);
  static_assert(static_cast<int>(FunctionRole::kDeviceOutOfMemory) ==
                abi::PT_ROLE_DEVICE_OUT_OF_MEMORY);
  points->push_back(
      {function.begin, PT_COOKIE(plan_.memory_site, static_cast<unsigned>(function.role), 0, 0)});
  return true;
}

// Whether the function asks for the profiler's callbacks at a known place, where torch's row
// begins.
bool PlanBuilder::HasSequence(const ProbedFunction& function) const {
  return plan_.autograd.has_value() && function.callbacks.offset != 0;
}

ProbePoint PlanBuilder::CallbacksPoint(const ProbedFunction& function, size_t site,
                                       abi::pt_role role) const {
  const CallbacksCall& call = function.callbacks;
  return {call.offset,
          PT_COOKIE(site, role, call.key_set, static_cast<uint16_t>(call.key_set_offset)) |
              PT_COOKIE_KEYS(call.frame_words, plan_.autograd->lowest_key,
                             plan_.autograd->highest_only)};
}

ProbePoint PlanBuilder::BeginPoint(const ProbedFunction& function, size_t site) const {
  switch (function.role) {
    case FunctionRole::kOperator:
      if (HasSequence(function)) {
        return CallbacksPoint(function, site, abi::PT_ROLE_OPERATOR_BEGIN);
      }
      return {function.begin, PT_COOKIE(site, abi::PT_ROLE_BEGIN, 0, 0)};
    case FunctionRole::kDistEngine:
    case FunctionRole::kCollector:
      return {function.begin, PT_COOKIE(site, abi::PT_ROLE_BEGIN, 0, 0)};
    case FunctionRole::kBoxed:
      return {function.begin, PT_COOKIE(site, abi::PT_ROLE_BOXED_BEGIN, function.argument,
                                        function.stack_argument)};
    case FunctionRole::kCudaCall: {
      const uint8_t bytes = FindCudaFunction(function.symbol).bytes_argument;
      if (bytes == 0) return {function.begin, PT_COOKIE(site, abi::PT_ROLE_BEGIN, 0, 0)};
      return {function.begin, PT_COOKIE(site, abi::PT_ROLE_SIZED_BEGIN, bytes - 1, 0)};
    }
    default: {
      // The engine's row gets its sequence number from the node's row inside it.
      const bool has_forward = function.role == FunctionRole::kNodeCall;
      return {function.begin,
              PT_COOKIE(site, abi::PT_ROLE_NODE_BEGIN, function.argument, offsets_.python_object) |
                  (has_forward ? PT_COOKIE_NODE(offsets_.node.sequence, offsets_.node.thread) : 0)};
    }
  }
}

bool PlanBuilder::AddFunction(const ProbedFunction& function, std::vector<ProbePoint>* points) {
  if (IsMemoryRole(function.role)) return AddMemoryFunction(function, points);
  const auto label = LabelOf(function);
  if (!label) return false;
  if (function.role == FunctionRole::kCatch) {
    points->push_back({function.begin, PT_COOKIE(0, abi::PT_ROLE_CATCH, 0, 0)});
    return true;
  }
  if (plan_.sites.size() > kMaxSites) return false;
  const size_t site = plan_.sites.size();
  plan_.sites.push_back({*label, function.symbol, function.exit_rule});
  plan_.has_cuda_calls |= function.role == FunctionRole::kCudaCall;
  const uint32_t end_role =
      function.role == FunctionRole::kBoxed ? abi::PT_ROLE_BOXED_END : abi::PT_ROLE_END;
  std::vector<ProbePoint> begin = {BeginPoint(function, site)};
  if (function.role == FunctionRole::kBoxed && HasSequence(function)) {
    begin.push_back(CallbacksPoint(function, site, abi::PT_ROLE_SEQUENCE));
  }
  if (inputs_) AddInputs(function, &begin);
  points->insert(points->end(), begin.begin(), begin.end());
  for (const uint64_t end : function.ends) {
    points->push_back({end, PT_COOKIE(site, end_role, 0, 0)});
  }
  return true;
}

void PlanBuilder::AddInputs(const ProbedFunction& function, std::vector<ProbePoint>* begin) {
  if (function.role == FunctionRole::kNodeCall) inputs_->AddNode();
  if (function.role == FunctionRole::kBoxed) inputs_->AddBoxed(function, &begin->front());
  if (function.role != FunctionRole::kOperator) return;
  const auto info = by_identifier_.find(std::string(OperatorIdentifier(function.symbol)));
  if (info == by_identifier_.end()) return;
  inputs_->AddOperator(function, *info->second, begin);
}

ProbePoint CostPoint(uint64_t file_offset, size_t site) {
  return {file_offset, PT_COOKIE(site, abi::PT_ROLE_COST, 0, 0)};
}

void PlanBuilder::AddModule(const Module& module) {
  ModulePlan plan;
  plan.name = FileName(module.mapped->path);
  plan.build_id = module.build_id;
  plan.file = {module.mapped->device, module.mapped->inode};
  plan.held = module.held;
  plan.mapped_path = module.mapped_path;
  plan.segments = module.segments;
  plan.load_bias = module.load_bias;
  absl::flat_hash_set<uint64_t> taken;
  for (const ProbedFunction& function : module.facts.functions) {
    // Two functions never share a place. Where the facts of a file say so nevertheless, the first
    // function keeps it.
    bool is_free = !taken.contains(function.begin) && !taken.contains(function.callbacks.offset);
    for (const uint64_t end : function.ends) is_free &= !taken.contains(end);
    if (!is_free || !AddFunction(function, &plan.points)) continue;
    taken.insert(function.begin);
    if (function.callbacks.offset != 0) taken.insert(function.callbacks.offset);
    if (function.saved_doubles.address != 0) taken.insert(function.saved_doubles.address);
    taken.insert(function.ends.begin(), function.ends.end());
    if (function.role != FunctionRole::kOperator) continue;
    ++plan_.operator_count;
    if (!by_identifier_.contains(std::string(OperatorIdentifier(function.symbol)))) {
      ++plan_.unlisted_operators;
    }
    if (HasSequence(function)) continue;
    if (function.cost_probe != 0 && taken.insert(function.cost_probe).second) {
      plan.cost_points.push_back(CostPoint(function.cost_probe, plan_.sites.size() - 1));
    }
  }
  if (plan_.autograd && module.facts.callbacks_entry != 0 &&
      taken.insert(module.facts.callbacks_entry).second) {
    // The function's entry is passed right behind each begin that is at a call of it.
    plan.cost_points.push_back(CostPoint(module.facts.callbacks_entry, 0));
    if (inputs_ && module.facts.callbacks_next != 0 &&
        taken.insert(module.facts.callbacks_next).second) {
      plan.cost_points.push_back(
          {module.facts.callbacks_next, PT_COOKIE(0, abi::PT_ROLE_COST_AGAIN, 0, 0)});
    }
  }
  RowPlanner(offsets_, inputs_ ? &*inputs_ : nullptr, &plan_)
      .AddRows(module.facts, module.load_bias, &taken, &plan.points);
  if (plan.points.empty()) return;
  for (std::vector<ProbePoint>* points : {&plan.points, &plan.cost_points}) {
    std::sort(points->begin(), points->end(),
              [](const auto& a, const auto& b) { return a.file_offset < b.file_offset; });
  }
  plan_.modules.push_back(std::move(plan));
}

void PlanBuilder::FindAutogradLayout() {
  abi::pt_autograd_layout layout{};
  std::optional<uint8_t> grad_mode_offset;
  uint8_t lowest_of_alias = 0;
  bool has_rule = false;
  const auto place = [](const Module& module, const ThreadVariable& variable,
                        abi::pt_thread_variable* out) {
    if (variable.known()) *out = {module.load_bias + variable.index, variable.offset};
  };
  for (const Module& module : modules_) {
    const AutogradFacts& facts = module.facts.autograd;
    place(module, facts.sequence, &layout.sequence);
    place(module, facts.thread_number, &layout.thread_number);
    place(module, facts.state, &layout.grad_mode);
    place(module, facts.state_set, &layout.grad_mode_set);
    if (facts.grad_mode_offset) grad_mode_offset = facts.grad_mode_offset;
    if (facts.lowest_key_of_alias != 0) lowest_of_alias = facts.lowest_key_of_alias;
    if (!facts.has_rule) continue;
    has_rule = true;
    layout.lowest_key = facts.lowest_key;
    layout.highest_only = facts.highest_only ? 1 : 0;
  }
  if (layout.highest_only != 0) layout.lowest_key = lowest_of_alias;
  layout.grad_mode.offset += grad_mode_offset.value_or(0);
  const char* missing =
      !has_rule || layout.lowest_key == 0 ? "which dispatch keys have them"
      : layout.sequence.index == 0        ? "at::sequence_number::peek"
      : layout.thread_number.index == 0   ? "at::RecordFunction::currentThreadId"
      : layout.grad_mode.index == 0 || layout.grad_mode_set.index == 0 || !grad_mode_offset
          ? "c10::GradMode::is_enabled"
          : nullptr;
  if (missing == nullptr) {
    plan_.autograd = layout;
    return;
  }
  plan_.gaps.push_back({"sequence numbers of forward rows",
                        absl::StrCat(missing, " is not clear from torch's code")});
}

bool PlanBuilder::HasRole(FunctionRole role) const {
  return std::any_of(modules_.begin(), modules_.end(), [role](const Module& module) {
    return std::any_of(module.facts.functions.begin(), module.facts.functions.end(),
                       [role](const auto& f) { return f.role == role; });
  });
}

void PlanBuilder::AddMemoryGaps() {
  if (!profile_memory_) return;
  plan_.has_memory_probes = HasRole(FunctionRole::kAllocation) && HasRole(FunctionRole::kFree);
  if (!plan_.has_memory_probes) {
    plan_.gaps.push_back({"CPU memory", "c10::ProfiledCPUMemoryReporter was not found"});
  }
  if (!HasRole(FunctionRole::kDeviceMemory)) {
    plan_.gaps.push_back({"device memory", "c10::reportMemoryUsageToProfiler was not found"});
  }
  if (!HasRole(FunctionRole::kCpuOutOfMemory) || !HasRole(FunctionRole::kDeviceOutOfMemory)) {
    plan_.gaps.push_back({"out-of-memory events", "torch's reports of them were not found"});
  }
}

std::string PlanBuilder::UnknownLayout() const {
  if (plan_.torch_version.empty()) return "which version of torch this is could not be found";
  return absl::StrCat("the layout of torch ", plan_.torch_version, " is not known");
}

// Drops the offsets of nodes where the code of this build reads the sequence number elsewhere,
// because a number read at a wrong offset would be wrong.
void PlanBuilder::CheckNodeOffsets() {
  for (const Module& module : modules_) {
    const uint32_t read_from = module.facts.autograd.node_sequence;
    if (read_from == 0 || offsets_.node.sequence == 0) continue;
    if (read_from == offsets_.node.sequence) continue;
    offsets_.node = NodeOffsets();
    plan_.gaps.push_back(
        {"sequence numbers and forward threads of autograd rows",
         absl::StrCat(FileName(module.mapped->path), " has them elsewhere than torch ",
                      plan_.torch_version, " does")});
  }
}

void PlanBuilder::AddGaps() {
  if (plan_.has_cuda_calls) {
    plan_.gaps.push_back(
        {kLaunchLevelFeature, "only the calls that start them are recorded (--gpu launch)"});
  } else if (cuda_calls_ == CudaCalls::kAlways) {
    plan_.gaps.push_back({"calls of the CUDA Runtime and Driver",
                          "no mapped file defines cudaLaunchKernel or cuLaunchKernel"});
  }
  for (const Module& module : modules_) {
    for (const PlanGap& gap : module.facts.gaps) {
      // Where the analysis was cut short, the gap may concern code that the job runs.
      plan_.gaps.push_back({gap.feature,
                            absl::StrCat(FileName(module.mapped->path), ": ", gap.reason),
                            !module.facts.is_cut});
    }
  }
  const auto has = [this](FunctionRole role) { return HasRole(role); };
  if (!has(FunctionRole::kBoxed)) {
    plan_.gaps.push_back({"operators called through the boxed interface (TorchScript, torch.ops)",
                          "no copy of c10::Dispatcher::callBoxed was found"});
  }
  if (!has(FunctionRole::kEvaluate)) {
    plan_.gaps.push_back({"autograd engine rows", "Engine::evaluate_function was not found"});
  }
  if (!has(FunctionRole::kNodeCall)) {
    plan_.gaps.push_back({"autograd node rows", "Node::operator() was not found"});
  }
  if (python_gc_ && !has(FunctionRole::kCollector)) {
    plan_.gaps.push_back({"garbage collections of Python (--python-gc)",
                          plan_.python_version.empty()
                              ? "no interpreter of Python was found in the process"
                              : absl::StrCat("the collector of Python ", plan_.python_version,
                                             " could not be told from its code")});
  }
  if (!has(FunctionRole::kCatch)) {
    plan_.gaps.push_back({"ends by exception", "no mapped file defines __cxa_begin_catch"});
  }
  if (offsets_.node.sequence == 0 && !NodeOffsetsOf(plan_.torch_version) &&
      has(FunctionRole::kNodeCall)) {
    plan_.gaps.push_back(
        {"sequence numbers and forward threads of autograd rows", UnknownLayout()});
  }
  if (plan_.python_node_vtable != 0 && offsets_.python_object == 0) {
    const bool is_known = PythonNodeObjectOffset(plan_.torch_version) != 0;
    plan_.gaps.push_back({"names of Python autograd functions",
                          is_known ? absl::StrCat("the layout of objects in Python ",
                                                  plan_.python_version, " is not known")
                                   : UnknownLayout()});
  }
}

ProbePlan PlanBuilder::Run(const std::vector<MappedFile>& files) {
  const TorchVersion version = FindTorchVersion(pid_, files);
  plan_.torch_version = version.torch;
  plan_.python_version = FindPythonVersion(files);
  offsets_.python_object = PythonNodeObjectOffset(version.torch);
  // The "t" is CPython's own mark of free-threaded builds. No layout of theirs is known here.
  const bool is_free_threaded =
      !plan_.python_version.empty() && IsFreeThreadedPython(pid_, ProcessMemory(pid_), files);
  if (is_free_threaded) plan_.python_version += 't';
  if (is_free_threaded) offsets_.python_object = 0;
  offsets_.python_text = PythonTextOffset(plan_.python_version);
  offsets_.node = NodeOffsetsOf(version.torch).value_or(NodeOffsets());
  // A CUDA build maps the Runtime even where there is no GPU, but the Driver only when CUDA is
  // first used.
  const bool is_used = std::any_of(files.begin(), files.end(), [](const MappedFile& file) {
    return FileName(file.path).starts_with("libcuda.so");
  });
  if (cuda_calls_ == CudaCalls::kWhereUsed && !is_used) cuda_calls_ = CudaCalls::kNever;
  plan_.sites.emplace_back();  // 0: unused
  plan_.from_cache = true;
  size_t most = 0;
  for (const Module& module : modules_) {
    plan_.from_cache &= module.from_cache;
    if (module.facts.python_node_vtable != 0) {
      plan_.python_node_vtable = module.load_bias + module.facts.python_node_vtable;
    }
    const size_t operators = CountOperators(module.facts);
    if (operators > most) {
      most = operators;
      plan_.torch_build_id = module.build_id;
      plan_.torch_data = module.zeroed_data;
    }
  }
  ReadDispatcher();
  CheckNodeOffsets();
  FindAutogradLayout();
  PrepareInputs();
  for (const Module& module : modules_) AddModule(module);
  if (inputs_) inputs_->Finish(ProcessMemory(pid_), &plan_);
  AddGaps();
  AddMemoryGaps();
  return std::move(plan_);
}

absl::Status NoTorch(Pid pid, size_t files, bool is_cut, const std::string& unread) {
  std::string comm = ReadSmallFile(absl::StrCat("/proc/", Raw(pid), "/comm"), 64);
  while (!comm.empty() && comm.back() == '\n') comm.pop_back();
  if (!unread.empty()) {
    return Fail(ExitCode::kNoTorch,
                absl::StrCat("process ", Raw(pid), " (", comm,
                             ") has a library of PyTorch's name that cannot be read (", unread,
                             "): it is damaged or made to do harm; see who runs the process"));
  }
  if (is_cut) {
    return Fail(ExitCode::kNoTorch,
                absl::StrCat("process ", Raw(pid), " (", comm,
                             ") has libraries that take too long to read: none of torch's "
                             "operators (at::_ops::*::call) was found in time; on a slow or busy "
                             "machine try again, what was read is kept"));
  }
  return Fail(
      ExitCode::kNoTorch,
      absl::StrCat(
          "process ", Raw(pid), " (", comm, ") has no libtorch: none of its ", files,
          " mapped libraries defines torch's operators (at::_ops::*::call); if it is a PyTorch "
          "job, wait until it has imported torch"));
}

}  // namespace

namespace {

// The most bytes that are read of the files and the memory of one process.
constexpr uint64_t kMostBytesOfProcess = uint64_t{32} << 30;

// The budget has more time than the reading of files, so that that reading ends first, with gaps
// that name the files.
constexpr int64_t kSlackNs = 2'000'000'000;

void AddBudgetGap(const ReadBudget& budget, Pid pid, ProbePlan* plan) {
  if (!budget.is_used_up()) return;
  plan->gaps.push_back(
      {"rows and names that were not read",
       absl::StrCat("PID ", Raw(pid), " was not read to the end: ", budget.Why())});
}

}  // namespace

absl::StatusOr<ProbePlan> BuildPlanInWorker(Pid pid, const PlanOptions& options,
                                            WorkerChannel* channel) {
#if !defined(__x86_64__)
  return Fail(ExitCode::kHostUnfit, "proftrace runs on x86-64 only: it reads x86-64 machine code");
#endif
  ReadBudget budget({.bytes = kMostBytesOfProcess,
                     .cpu_ns = std::max(options.longest_reading_ns, int64_t{0}) + kSlackNs});
  const ReadBudget::Scope scope(&budget);
  const auto mappings = ReadMaps(pid);
  if (!mappings.ok()) return mappings.status();
  const TorchChoice choice = ChooseTorch(GroupByFile(*mappings));
  const std::vector<MappedFile>& files = choice.files;
  if (files.empty()) {
    return Fail(ExitCode::kNoTarget,
                absl::StrCat("process ", Raw(pid),
                             " has no program any more (it has ended, or is the kernel's)"));
  }
  ModuleReader reader(pid, options, channel);
  std::vector<Module> modules = reader.ReadAll(files);
  const bool has_operators = std::any_of(modules.begin(), modules.end(), [](const Module& module) {
    return CountOperators(module.facts) > 0;
  });
  const std::vector<std::string> displaced = FindDisplacedCode(*mappings);
  if (!has_operators) {
    if (!reader.unopened().ok()) {
      return Fail(
          ExitCodeOf(reader.unopened()),
          absl::StrCat("process ", Raw(pid), " cannot be recorded: ", reader.unopened().message()));
    }
    if (absl::Status status = CheckTorchHasCode(pid, displaced); !status.ok()) return status;
    return NoTorch(pid, files.size(), reader.is_cut() || budget.is_used_up(), reader.unread());
  }
  ProbePlan plan = PlanBuilder(pid, std::move(modules), options).Run(files);
  reader.AddGaps(&plan);
  AddBudgetGap(budget, pid, &plan);
  AddDisplacedGaps(pid, displaced, &plan);
  ApplyChoice(choice, &plan);
  AddOperatorGaps(&plan);
  return plan;
}

}  // namespace proftrace
