// A process whose memory is the input, with pointers into itself: what its Python, its Dispatcher
// and its dynamic linker have there may be anything. The first byte chooses the reader.
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "symbols/elf/link_map.h"
#include "symbols/plan/process_groups.h"
#include "symbols/process/interned_strings.h"
#include "symbols/process/read_budget.h"
#include "symbols/python/python_modules.h"
#include "symbols/python/python_objects.h"
#include "symbols/python/python_runtime.h"
#include "symbols/python/python_stacks.h"
#include "symbols/python/python_state_place.h"
#include "symbols/torch/operator_registry.h"
#include "symbols/torch/operator_schema.h"
#include "symbols/torch/python_groups.h"
#include "symbols/torch/torch_layout.h"
#include "userspace/model/python_lines.h"

namespace proftrace {
namespace {

constexpr uint64_t kBase = 0x7f0000000000;
// As much as one look at a process may take, by a tenth.
constexpr ReadBudget::Limits kLimits{.bytes = uint64_t{256} << 20, .cpu_ns = 2'000'000'000};

// The input at kBase, and nothing else. A word of the input whose upper half is kPointerMark is a
// pointer to the byte that its lower half says: a fuzzer finds those, and not the addresses.
class SelfMemory final : public TargetMemory {
 public:
  explicit SelfMemory(std::span<const uint8_t> input) : bytes_(input.begin(), input.end()) {
    for (size_t at = 0; at + sizeof(uint64_t) <= bytes_.size(); at += sizeof(uint64_t)) {
      uint64_t word;
      std::memcpy(&word, &bytes_[at], sizeof(word));
      if (word >> 48 != kPointerMark) continue;
      word = kBase + (word & 0xffffffff) % bytes_.size();
      std::memcpy(&bytes_[at], &word, sizeof(word));
    }
  }
  bool Read(uint64_t address, void* buffer, size_t bytes) const override {
    if (!ReadBudget::PayAll(bytes)) return false;
    if (address < kBase || address - kBase > bytes_.size()) return false;
    if (bytes > bytes_.size() - (address - kBase)) return false;
    if (bytes > 0) std::memcpy(buffer, &bytes_[address - kBase], bytes);
    return true;
  }
  uint64_t size() const { return bytes_.size(); }

 private:
  static constexpr uint64_t kPointerMark = 0x5050;
  std::vector<uint8_t> bytes_;
};

void ReadPython(const SelfMemory& memory, uint32_t version) {
  auto layout = KnownPythonLayout(version);
  const auto own = ReadPythonLayout(memory, kBase);
  if (own.ok() && *own) layout = **own;
  if (!layout) return;
  if (!IsUsable(*layout)) __builtin_trap();
  layout->stack.interpreters = kBase + layout->interpreters_head;
  PythonRuntime runtime;
  runtime.layout = *layout;
  runtime.address = kBase;
  for (const PythonThread& thread :
       ReadPythonThreads(memory, *layout, {.threads = 16, .frames = 64}).threads) {
    for (const PythonStackFrame& frame : thread.frames) {
      const auto code = ReadPythonCode(memory, *layout, frame.code);
      if (code) PythonLine(version, code->first_line, code->lines, frame.instruction);
    }
  }
  (void)FindPythonStatePlace(memory, runtime);
  (void)ConfirmPython(memory, {.runtime = kBase, .version = version, .file = "/python"});
  const PythonObjects objects(memory, *layout);
  for (uint64_t at = 0; at < memory.size() && at < 1024; at += 8) {
    objects.Text(kBase + at, 100);
    objects.Number(kBase + at);
    objects.DictValue(kBase + at, "key");
    objects.Attribute(kBase + at, "name");
    objects.ClassNames(kBase + at);
  }
  ReadPythonGroups(memory, *layout, kBase);
  ReadPythonModules(memory, *layout, kBase, {.modules = 50, .depth = 10, .bytes = 1 << 20});
}

// Nothing here is named before the Dispatcher is read: the name of one operator is enough.
void ReadDispatcher(const SelfMemory& memory, bool old_abi) {
  std::vector<OperatorInfo> operators = ReadOperatorList(memory, kBase, old_abi).operators;
  if (operators.empty()) operators.push_back({kBase + 16, "aten::add", "Tensor", ""});
  const auto symbols = InternedStrings::Find(memory, {kBase, memory.size()}, old_abi);
  const SchemaReading reading =
      ReadSchemas(memory, operators, old_abi, symbols ? &*symbols : nullptr);
  for (const auto& [address, schema] : reading.schemas) FormatSchema(*schema);
  for (const char* version : {"1.13.1", "2.2.0", "2.11.0"}) {
    FindTorchLayout(memory, version, kBase + 256, reading);
  }
}

void ReadLinker(const SelfMemory& memory) {
  uint64_t debug = kBase;
  for (int i = 0; i < 16 && debug != 0; ++i) {
    const uint64_t last = LastLoaded(memory, debug);
    HasSuccessor(memory, last);
    debug = NextNamespace(memory, debug);
  }
}

void ReadGroups(const SelfMemory& memory, bool old_abi) {
  const uint64_t vtable = memory.ReadWord(kBase).value_or(0);
  const std::vector<GroupClass> classes = {{vtable, "gloo"}};
  const std::vector<MemoryRange> ranges = {{kBase, memory.size()}};
  for (const char* version : {"1.13.1", "2.1.0", "2.3.0", "2.11.0"}) {
    FindGroups(memory, ranges, classes, GroupLayoutOf(version), old_abi);
  }
}

}  // namespace
}  // namespace proftrace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace proftrace;
  if (size < 64) return 0;
  const SelfMemory memory({data + 1, size - 1});
  ReadBudget budget(kLimits);
  const ReadBudget::Scope scope(&budget);
  switch (data[0] % 9) {
    case 6:
      ReadDispatcher(memory, data[0] >= 128);
      break;
    case 7:
      ReadLinker(memory);
      break;
    case 8:
      ReadGroups(memory, data[0] >= 128);
      break;
    default:
      ReadPython(memory, kPython39 + data[0] % 6);
  }
  return 0;
}
