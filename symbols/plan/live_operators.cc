// Follows the changes in a process after its plan was made: libraries that it maps, and operators
// that they register.
#include <algorithm>
#include <functional>
#include <string>
#include <utility>

#include "symbols/elf/elf_file.h"
#include "symbols/plan/plan_codec.h"
#include "symbols/plan/planner.h"
#include "symbols/plan/target_worker.h"
#include "symbols/plan/torch_copies.h"
#include "symbols/process/cache_bytes.h"
#include "symbols/process/cached_memory.h"
#include "symbols/process/process_maps.h"
#include "symbols/process/process_memory.h"
#include "symbols/process/read_budget.h"
#include "symbols/torch/module_analysis.h"
#include "symbols/torch/operator_registry.h"

namespace proftrace {
namespace {

// Limits for one look at a process. A normal look takes a tenth of a second.
constexpr uint64_t kMostLookBytes = uint64_t{4} << 30;
constexpr int64_t kLongestLookNs = 10'000'000'000;

constexpr int64_t kLongestLookS = kLongestLookNs / 1'000'000'000;

bool IsContributor(Pid pid, const MappedFile& mapped, bool has_collector) {
  auto opened = OpenMappedFile(pid, mapped);
  if (!opened.ok()) return false;
  const auto file = ElfFile::Open(std::move(opened->file));
  return file.ok() && MayContribute(**file, /*full=*/false, has_collector);
}

}  // namespace

bool HasNewContributor(Pid pid, bool has_collector, std::set<FileId>* known) {
  ReadBudget budget({.bytes = kMostLookBytes, .cpu_ns = kLongestLookNs});
  const ReadBudget::Scope scope(&budget);
  const auto mappings = ReadMaps(pid);
  if (!mappings.ok()) return false;
  std::vector<MappedFile> added;
  for (MappedFile& mapped : GroupByFile(*mappings)) {
    bool is_new = false;
    for (const FileId& id : IdsOf(mapped)) is_new |= known->insert(id).second;
    if (is_new) added.push_back(std::move(mapped));
  }
  if (added.empty()) return false;
  const auto found = ReadInWorker(pid, kLongestLookS, [&]() -> absl::StatusOr<std::string> {
    return std::any_of(
               added.begin(), added.end(),
               [&](const MappedFile& mapped) { return IsContributor(pid, mapped, has_collector); })
               ? "found"
               : "";
  });
  return found.ok() && !found->empty();
}

std::vector<OperatorInfo> ReadOperators(Pid pid, const ProbePlan& plan) {
  if (plan.dispatcher_slot == 0) return {};
  const auto bytes = ReadInWorker(pid, kLongestLookS, [&]() -> absl::StatusOr<std::string> {
    ReadBudget budget({.bytes = kMostLookBytes, .cpu_ns = kLongestLookNs});
    const ReadBudget::Scope scope(&budget);
    return EncodeOperators(
        ReadOperatorList(ProcessMemory(pid), plan.dispatcher_slot, plan.old_string_abi).operators);
  });
  return bytes.ok() ? DecodeOperators(*bytes).value_or(std::vector<OperatorInfo>())
                    : std::vector<OperatorInfo>();
}

SchemaReading ReadSchemas(Pid pid, const ProbePlan& plan,
                          const std::vector<OperatorInfo>& operators) {
  ReadBudget budget({.bytes = kMostLookBytes, .cpu_ns = kLongestLookNs});
  const ReadBudget::Scope scope(&budget);
  const ProcessMemory process(pid);
  const CachedMemory memory(process);
  const auto symbols = InternedStrings::Find(process, plan.torch_data, plan.old_string_abi);
  // The layout of default values is learned from the defaults of the operators that are read. A few
  // operators may have none, so that others are read with them.
  constexpr size_t kSample = 256;
  std::vector<OperatorInfo> all = operators;
  if (operators.size() < kSample) {
    const size_t stride = plan.operators.size() / kSample + 1;
    for (size_t i = 0; i < plan.operators.size(); i += stride) all.push_back(plan.operators[i]);
  }
  SchemaReading reading =
      ReadSchemas(memory, all, plan.old_string_abi, symbols ? &*symbols : nullptr);
  if (budget.is_used_up()) reading.refusal = "reading them was given up: " + budget.Why();
  return reading;
}

SchemaTexts ReadSchemaTexts(Pid pid, const ProbePlan& plan,
                            const std::vector<OperatorInfo>& operators) {
  const auto bytes = ReadInWorker(pid, kLongestLookS, [&]() -> absl::StatusOr<std::string> {
    const SchemaReading reading = ReadSchemas(pid, plan, operators);
    CacheWriter out;
    out.Text(reading.refusal);
    out.Number(reading.unreadable);
    std::vector<OperatorInfo> found;
    for (const OperatorInfo& info : operators) {
      const auto schema = reading.schemas.find(info.address);
      if (schema == reading.schemas.end()) continue;
      found.push_back({.address = info.address, .schema = FormatSchema(*schema->second)});
    }
    out.Text(EncodeOperators(found));
    return out.Take();
  });
  SchemaTexts texts;
  if (!bytes.ok()) {
    texts.refusal = std::string(bytes.status().message());
    return texts;
  }
  CacheReader in(*bytes);
  texts.refusal = in.Text();
  texts.unreadable = in.Number<uint32_t>();
  if (auto found = DecodeOperators(in.Text())) {
    texts.found = *std::move(found);
  } else {
    texts.refusal = "what was read of them is none";
  }
  return texts;
}

bool IsRegistering(const ProbePlan& plan) {
  // The Dispatcher of a complete PyTorch lacks at most one in kFewest of the operators with
  // functions.
  constexpr uint32_t kFewest = 16;
  if (plan.operator_count < kFewest) return false;  // the plan is not of torch's own library
  return plan.dispatcher_slot == 0 || plan.unlisted_operators > plan.operator_count / kFewest;
}

uint64_t LastOperator(const TargetMemory& memory, uint64_t dispatcher_slot, bool old_string_abi) {
  const uint64_t list = memory.ReadWord(dispatcher_slot).value_or(0);
  // A std::list begins with the pointers to the first and the last node, in both ABIs.
  const uint64_t last = list == 0 ? 0 : memory.ReadWord(list + 8).value_or(0);
  if (last == 0 || last == list) return 0;
  // The name is part of the number, because a new operator may lie where a deregistered one did.
  return last + std::hash<std::string>()(NameOfOperatorNode(memory, last, old_string_abi));
}

}  // namespace proftrace
