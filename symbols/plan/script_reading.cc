#include "symbols/plan/script_reading.h"

#include <absl/status/status.h>
#include <absl/strings/str_cat.h>

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "symbols/elf/elf_file.h"
#include "symbols/elf/module_image.h"
#include "symbols/plan/target_worker.h"
#include "symbols/process/cache_bytes.h"
#include "symbols/process/interned_strings.h"
#include "symbols/process/process_maps.h"
#include "symbols/process/process_memory.h"
#include "symbols/process/read_budget.h"
#include "symbols/torch/script_facts.h"
#include "symbols/x86/flow_graph.h"
#include "userspace/base/text.h"

namespace proftrace {
namespace {

constexpr uint64_t kMostReadBytes = uint64_t{2} << 30;
constexpr int64_t kLongestReadingNs = 5'000'000'000;
constexpr uint64_t kVtableHeaderBytes = 16;  // offset to top, typeinfo (Itanium C++ ABI)
// The numbers that are searched: the wanted symbols are among torch's built-in ones, which come
// first.
constexpr uint32_t kMostBuiltinSymbols = 8192;
constexpr uint64_t kMostOffset = 4096;
constexpr size_t kLongestAnswer = size_t{1} << 16;

// Whether code in a job may read memory by this layout. A worker has found it in a target that may
// be hostile, so that it is checked.
bool IsUsable(const abi::pt_script_layout& layout) {
  return layout.state.index != 0 && layout.frames <= kMostOffset && layout.frames % 8 == 0 &&
         layout.frame_bytes >= 3 * 8 && layout.frame_bytes <= kMostOffset &&
         layout.frame_bytes % 8 == 0 && layout.code_nodes <= kMostOffset;
}

absl::Status Unclear(const char* what) {
  return absl::UnimplementedError(absl::StrCat(what, " is not clear from torch's code"));
}

// The addresses (before relocation) of the symbols that are needed of a library.
struct Symbols {
  std::optional<FunctionRange> current_modules;
  std::optional<FunctionRange> code_nodes;
  std::optional<FunctionRange> code_inputs;
  std::optional<FunctionRange> stack_callee;
  std::optional<FunctionRange> stack_function;
  std::optional<FunctionRange> stack_module;
  uint64_t class_type = 0;
  uint64_t function_type = 0;
  uint64_t graph_function = 0;
  uint64_t inlined_stack = 0;
};

Symbols FindSymbols(ElfFile* file) {
  Symbols found;
  const std::array<std::pair<std::string_view, uint64_t*>, 4> vtables = {{
      {"_ZTVN3c109ClassTypeE", &found.class_type},
      {"_ZTVN3c1012FunctionTypeE", &found.function_type},
      {"_ZTVN5torch3jit13GraphFunctionE", &found.graph_function},
      {"_ZTVN5torch3jit16InlinedCallStackE", &found.inlined_stack},
  }};
  const std::array<std::pair<std::string_view, std::optional<FunctionRange>*>, 7> functions = {{
      {kCurrentModules, &found.current_modules},
      {kCurrentModulesOldStrings, &found.current_modules},
      {kCodeNodes, &found.code_nodes},
      {kInputsOfCode, &found.code_inputs},
      {kCalleeOfStack, &found.stack_callee},
      {kFunctionOfStack, &found.stack_function},
      {kModuleOfStack, &found.stack_module},
  }};
  file->ForEachSymbol(/*full=*/false, [&](const ElfSymbol& symbol) {
    if (!symbol.is_defined) return;
    const std::string_view name = symbol.name();
    const FunctionRange range{symbol.address, symbol.address + symbol.size, name};
    for (const auto& [function, place] : functions) {
      if (name == function) *place = range;
    }
    if (name.substr(0, 4) != "_ZTV") return;
    for (const auto& [vtable, address] : vtables) {
      if (name == vtable) *address = symbol.address;
    }
  });
  return found;
}

// Applies `read` to the code of a small function, if it was found.
template <typename Read>
std::optional<uint16_t> ReadAccessor(const ModuleImage& image,
                                     const std::optional<FunctionRange>& accessor,
                                     const Read& read) {
  if (!accessor) return std::nullopt;
  const auto graph = FlowGraph::Build(image, accessor->start, accessor->end);
  return graph.ok() ? read(*graph) : std::nullopt;
}

// Finds where the library's own code has the members of a graph's objects.
absl::StatusOr<ScriptObjects> ReadObjects(const ModuleImage& image, const Symbols& symbols) {
  const auto word = [](const FlowGraph& graph) { return ReadReturnedWord(graph, false); };
  const auto behind = [](const FlowGraph& graph) { return ReadReturnedWord(graph, true); };
  const auto callee = ReadAccessor(image, symbols.stack_callee, &ReadCopiedWord);
  const auto function = ReadAccessor(image, symbols.stack_function, word);
  const auto module = ReadAccessor(image, symbols.stack_module, &ReadCopiedWord);
  const auto inputs = ReadAccessor(image, symbols.code_inputs, behind);
  if (!callee) return Unclear("torch::jit::InlinedCallStack::callee");
  if (!function) return Unclear("torch::jit::InlinedCallStack::function");
  if (!module) return Unclear("torch::jit::InlinedCallStack::module_instance");
  if (!inputs) return Unclear("torch::jit::Code::num_inputs");
  return ScriptObjects{*callee, *function, *module, *inputs};
}

// Reads the code of one library. `bias`: from addresses in the file to those in the process.
absl::Status ReadCode(const ModuleImage& image, const Symbols& symbols, uint64_t bias,
                      abi::pt_script_layout* layout) {
  const FunctionRange& current = *symbols.current_modules;
  const auto graph = FlowGraph::Build(image, current.start, current.end);
  const auto state = graph.ok() ? ReadCurrentModules(*graph) : std::nullopt;
  if (!state) return Unclear("torch::jit::currentModuleHierarchy");
  const auto range = image.FunctionAt(state->hierarchy_entry);
  const auto hierarchy = range ? FlowGraph::Build(image, range->start, range->end)
                               : absl::StatusOr<FlowGraph>(absl::NotFoundError(""));
  const auto frames = hierarchy.ok() ? ReadScriptFrames(*hierarchy) : std::nullopt;
  if (!frames) return Unclear("InterpreterStateImpl::moduleHierarchy");
  const auto nodes = ReadAccessor(image, symbols.code_nodes, &ReadCodeNodes);
  if (!nodes) return Unclear("torch::jit::Code::instructions_source");
  layout->state = {bias + state->variable.index, state->variable.offset};
  layout->frames = frames->offset;
  layout->frame_bytes = frames->bytes;
  layout->code_nodes = *nodes;
  return absl::OkStatus();
}

// Finds the numbers of the symbols by their names.
bool FindSymbolNumbers(const TargetMemory& memory, const ProbePlan& plan, ScriptKinds* kinds) {
  const auto symbols = InternedStrings::Find(memory, plan.torch_data, plan.old_string_abi);
  if (!symbols) return false;
  const std::array<std::pair<std::string_view, uint32_t*>, 4> wanted = {{
      {"prim::CallMethod", &kinds->call_method},
      {"prim::CallFunction", &kinds->call_function},
      {"prim::GetAttr", &kinds->get_attribute},
      {"attr::name", &kinds->name},
  }};
  size_t found = 0;
  for (uint32_t i = 1; i < kMostBuiltinSymbols && found < wanted.size(); ++i) {
    const auto name = symbols->QualifiedName(i);
    if (!name) return false;
    for (const auto& [text, number] : wanted) {
      if (*name != text || *number != 0) continue;
      *number = i;
      ++found;
    }
  }
  return found == wanted.size();
}

absl::Status NotKnown(const ProbePlan& plan) {
  return absl::UnimplementedError(absl::StrCat(
      "the layout of TorchScript's graphs in torch ",
      plan.torch_version.empty() ? std::string("of an unknown version") : plan.torch_version,
      plan.old_string_abi ? " with strings as before C++11" : "", " is not known"));
}

absl::StatusOr<ScriptReading> ReadScriptsHere(Pid pid, const ProbePlan& plan) {
  ReadBudget budget({.bytes = kMostReadBytes, .cpu_ns = kLongestReadingNs});
  const ReadBudget::Scope scope(&budget);
  ScriptReading reading;
  const absl::StatusOr<std::vector<Mapping>> mappings = ReadMaps(pid);
  if (!mappings.ok()) return mappings.status();
  const ProcessMemory memory(pid);
  for (const MappedFile& mapped : GroupByFile(*mappings)) {
    if (!Contains(mapped.path, "torch_cpu")) continue;
    auto opened = OpenMappedFile(pid, mapped);
    if (!opened.ok()) continue;
    auto file = ElfFile::Open(std::move(opened->file));
    if (!file.ok()) continue;
    const auto bias = LoadBias(**file, mapped);
    const Symbols symbols = FindSymbols(file->get());
    if (!bias || !symbols.current_modules) continue;
    if (symbols.class_type == 0 || symbols.function_type == 0 || symbols.graph_function == 0 ||
        symbols.inlined_stack == 0) {
      return absl::UnimplementedError("classes of TorchScript's graphs were not found");
    }
    const ModuleImage image(file->get(), ModuleImage::Symbols::kExported);
    const absl::StatusOr<ScriptObjects> objects = ReadObjects(image, symbols);
    absl::Status status = objects.status();
    if (status.ok()) status = ReadCode(image, symbols, *bias, &reading.layout);
    if (!status.ok()) {
      return budget.is_used_up() ? absl::ResourceExhaustedError(budget.Why()) : status;
    }
    const auto names = ScriptLayoutOf(plan.torch_version, plan.old_string_abi, *objects);
    if (!names) return NotKnown(plan);
    reading.names = *names;
    reading.kinds.class_type = *bias + symbols.class_type + kVtableHeaderBytes;
    reading.kinds.function_type = *bias + symbols.function_type + kVtableHeaderBytes;
    reading.kinds.graph_function = *bias + symbols.graph_function + kVtableHeaderBytes;
    reading.kinds.inlined_stack = *bias + symbols.inlined_stack + kVtableHeaderBytes;
    if (!FindSymbolNumbers(memory, plan, &reading.kinds)) {
      return absl::UnimplementedError("torch's own symbols were not found");
    }
    return reading;
  }
  return absl::NotFoundError("torch::jit::currentModuleHierarchy was not found");
}

}  // namespace

absl::StatusOr<ScriptReading> ReadScripts(Pid pid, const ProbePlan& plan) {
  const absl::StatusOr<std::string> bytes = ReadInWorker(
      pid, kLongestReadingNs / 1'000'000'000 + 5, [&]() -> absl::StatusOr<std::string> {
        const absl::StatusOr<ScriptReading> reading = ReadScriptsHere(pid, plan);
        CacheWriter out;
        out.Text(std::string(reading.status().message()));
        out.Text(reading.ok() ? BytesOfPlain(*reading) : std::string_view());
        return out.Take();
      });
  if (!bytes.ok()) return bytes.status();
  CacheReader in(*bytes);
  ScriptReading reading;
  const std::string why = in.Text();
  if (in.ok() && !why.empty()) return absl::UnimplementedError(why);
  if (!TakePlain(in.Text(), &reading) || !in.at_end() || !IsUsable(reading.layout)) {
    return absl::DataLossError("what was read of it is none");
  }
  return reading;
}

std::string AskScript(const ScriptReading& reading, uint64_t code, uint64_t node) {
  CacheWriter out;
  out.Text(BytesOfPlain(reading.names));
  out.Text(BytesOfPlain(reading.kinds));
  out.Number(code);
  out.Number(node);
  return out.Take();
}

std::string AnswerScript(const TargetMemory& memory, std::string_view question) {
  CacheReader in(question);
  ScriptLayout layout;
  ScriptKinds kinds;
  if (!TakePlain(in.Text(), &layout) || !TakePlain(in.Text(), &kinds)) return "";
  const auto code = in.Number<uint64_t>();
  const auto node = in.Number<uint64_t>();
  const auto names = ReadScriptNames(memory, layout, kinds, code, node);
  if (!in.ok() || !names) return "";
  CacheWriter out;
  out.Text(names->text);
  out.Text(names->prefix);
  return out.Take();
}

std::optional<ScriptNames> ScriptIn(std::string_view answer) {
  CacheReader in(answer);
  ScriptNames names;
  names.text = in.Text();
  names.prefix = in.Text();
  const bool is_one =
      in.ok() && in.at_end() && !names.text.empty() && answer.size() <= kLongestAnswer;
  return is_one ? std::optional(std::move(names)) : std::nullopt;
}

}  // namespace proftrace
