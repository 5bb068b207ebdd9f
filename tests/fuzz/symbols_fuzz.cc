// What a hostile process can put before the planner: a file, machine code, a maps text, a cache
// entry, the Dispatcher's memory. The first byte chooses which.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

#include "symbols/plan/plan_cache.h"
#include "symbols/plan/process.h"
#include "symbols/plan/window_cache.h"
#include "symbols/torch/module_analysis.h"
#include "symbols/torch/operator_registry.h"
#include "symbols/torch/operator_schema.h"
#include "symbols/torch/row_inputs.h"
#include "symbols/x86/argument_use.h"
#include "symbols/x86/exit_sites.h"
#include "symbols/x86/moved_code.h"
#include "symbols/x86/patch_windows.h"
#include "tests/unit/symbols/fake_code.h"

namespace proftrace {
namespace {

// Memory that repeats the input over the whole address space.
class RepeatedMemory final : public TargetMemory {
 public:
  RepeatedMemory(const uint8_t* data, size_t size) : data_(data), size_(size) {}
  bool Read(uint64_t address, void* buffer, size_t bytes) const override {
    for (size_t i = 0; i < bytes; ++i) {
      static_cast<uint8_t*>(buffer)[i] = data_[(address + i) % size_];
    }
    return true;
  }

 private:
  const uint8_t* data_;
  size_t size_;
};

void FuzzElf(const uint8_t* data, size_t size) {
  UniqueFd fd(memfd_create("fuzz", MFD_CLOEXEC));
  if (!fd.valid() || write(fd.get(), data, size) != static_cast<ssize_t>(size)) return;
  auto file = ElfFile::Open(std::move(fd));
  if (!file.ok()) return;
  MayContribute(**file, true, true);
  const ModuleFacts facts = AnalyzeModule(file->get());
  const ModuleImage image(file->get());
  ModulePlan module;
  for (const ProbedFunction& function : facts.functions) {
    module.points.push_back({function.begin, PT_COOKIE(1, abi::PT_ROLE_BEGIN, 0, 0)});
  }
  // And whatever is at the file's begin, which no analysis has accepted.
  for (uint64_t offset = 0; offset < std::min<size_t>(size, 64); ++offset) {
    module.points.push_back({offset, PT_COOKIE(1, abi::PT_ROLE_END, 0, 0)});
  }
  FindPatchWindows(image, module, ProbePlan());
}

void FuzzWindows(const CodeImage& image, uint64_t start, uint64_t end) {
  const auto code = FunctionCode::Read(image, start, end);
  if (!code.ok()) return;
  std::vector<PatchPoint> points;
  for (const Instruction& instruction : code->instructions()) {
    if (points.size() < 64) points.push_back({instruction.address, {}});
  }
  for (const PatchPoint& point : points) {
    const PointPatch patch = ChooseWindows(image, *code, {point})[0];
    if (!patch.window) continue;
    std::vector<uint8_t> bytes(patch.window->size);
    bytes.resize(image.ReadCode(patch.window->address, bytes.data(), bytes.size()));
    const auto moved = MoveCode(bytes, patch.window->address, patch.window->address + 0x100000);
    // Only what it refers to may be too far from there.
    if (!moved.ok() && !absl::IsOutOfRange(moved.status())) __builtin_trap();
  }
}

void FuzzCode(const uint8_t* data, size_t size) {
  FakeCode image;
  image.Add(0x1000, std::vector<uint8_t>(data, data + size));
  FuzzWindows(image, 0x1000, 0x1000 + size);
  const auto graph = FlowGraph::Build(image, 0x1000, 0x1000 + size);
  if (!graph.ok()) return;
  FindExitSites(*graph, WorkRule::kDispatch);
  FindBeginSite(*graph);
  FindBoxedArguments(*graph);
  ClassifyCaller(image, *graph, {0x1000});
  // Each call may begin a row; the functions that it calls are the same one.
  for (uint32_t i = 0; i < std::min<size_t>(graph->size(), 64); ++i) {
    if (graph->node(i).is_call) FindGivenInputs(image, *graph, i, {});
  }
}

// Both forms of strings; where the symbols are is given, not found: that needs a thousand of them.
void FuzzSchemas(const uint8_t* data, size_t size) {
  const RepeatedMemory memory(data, size);
  const bool old_abi = size % 2 == 0;
  std::vector<OperatorInfo> operators = ReadOperatorList(memory, 0, old_abi).operators;
  if (operators.empty()) {
    std::string name(reinterpret_cast<const char*>(data), std::min<size_t>(size, 8));
    operators.push_back({0, std::move(name), "", ""});
  }
  const auto symbols = InternedStrings::Find(memory, {0, 65536}, old_abi);
  const SchemaReading reading =
      ReadSchemas(memory, operators, old_abi, symbols ? &*symbols : nullptr);
  for (const auto& [address, schema] : reading.schemas) FormatSchema(*schema);
}

}  // namespace
}  // namespace proftrace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace proftrace;
  if (size < 2) return 0;
  const uint8_t* rest = data + 1;
  const size_t left = size - 1;
  const std::string_view text(reinterpret_cast<const char*>(rest), left);
  switch (data[0] % 7) {
    case 0:
      FuzzElf(rest, left);
      break;
    case 1:
      FuzzCode(rest, left);
      break;
    case 2:
      GroupByFile(ParseMaps(text));
      break;
    case 3:
      DecodeFacts(text, "", UINT64_MAX);
      OpenEntry({}, text);
      DecodeWindows(text, "", std::vector<PatchPoint>(2));
      break;
    case 4:
      ReadOperatorList(RepeatedMemory(rest, left), 0, left % 2 == 0);
      break;
    case 5:
      ParseTorchVersion(text);
      OperatorIdentifier(text);
      break;
    case 6:
      FuzzSchemas(rest, left);
      break;
  }
  return 0;
}
