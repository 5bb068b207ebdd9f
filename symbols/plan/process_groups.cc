#include "symbols/plan/process_groups.h"

#include <algorithm>
#include <array>
#include <optional>
#include <tuple>
#include <utility>

#include "symbols/elf/elf_file.h"
#include "symbols/plan/target_worker.h"
#include "symbols/process/cache_bytes.h"
#include "symbols/process/read_budget.h"
#include "symbols/python/python_runtime.h"
#include "symbols/torch/python_groups.h"
#include "userspace/base/text.h"

namespace proftrace {
namespace {

constexpr uint64_t kVtableHeaderBytes = 16;  // offset to top, typeinfo (Itanium C++ ABI)
constexpr size_t kPieceBytes = size_t{1} << 20;
// glibc's heaps of threads have 64 MiB (HEAP_MAX_SIZE). Larger anonymous memory is mostly tensors,
// but the kernel shows heaps that lie side by side as one range. So the first kMostOfRangeBytes of
// a larger range are searched, after all smaller ranges.
constexpr uint64_t kLargestArenaBytes = uint64_t{64} << 20;
constexpr uint64_t kMostOfRangeBytes = uint64_t{128} << 20;
// Only the begin and the end of a larger heap are searched. Groups are mostly made before there is
// much in the heap, so that they lie at its begin.
constexpr uint64_t kHeapBeginBytes = uint64_t{256} << 20;
constexpr uint64_t kHeapEndBytes = uint64_t{128} << 20;
constexpr uint64_t kMostBytes = uint64_t{768} << 20;
// The limit of all reading: of the heap, of the files that define the classes, and of Python's
// variables.
constexpr uint64_t kMostGroupSearchBytes = uint64_t{8} << 30;
constexpr int64_t kLongestGroupSearchNs = 10'000'000'000;
constexpr int kLargestWorld = 1 << 20;
constexpr uint32_t kMostReferences = 1 << 20;
constexpr size_t kLongestName = 256;
constexpr size_t kMostGroups = 4096;

constexpr std::array<std::pair<std::string_view, std::string_view>, 5> kClasses = {{
    {"_ZTVN4c10d12ProcessGroupE", ""},
    {"_ZTVN4c10d16ProcessGroupGlooE", "gloo"},
    {"_ZTVN4c10d16ProcessGroupNCCLE", "nccl"},
    {"_ZTVN4c10d15ProcessGroupMPIE", "mpi"},
    {"_ZTVN4c10d15ProcessGroupUCCE", "ucc"},
}};

// Functions that return a backend's counter (GroupCounter).
constexpr std::array<std::pair<std::string_view, std::string_view>, 2> kCounterFunctions = {{
    {kGlooNextTag, "gloo"},
    {"_ZN4c10d16ProcessGroupNCCL25getSequenceNumberForGroupEv", "nccl"},
}};

// Returns {0, 0} for a text that is no version.
std::pair<int, int> MajorAndMinor(std::string_view version) {
  const std::vector<std::string_view> parts = SplitText(version, ".", /*skip_empty=*/false);
  if (parts.size() < 2) return {0, 0};
  return {ParseNumber<int>(parts[0]).value_or(0), ParseNumber<int>(parts[1]).value_or(0)};
}

bool IsText(const std::string& text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c >= ' ' && c <= '~'; });
}

std::optional<ProcessGroup> ReadGroup(const TargetMemory& memory, uint64_t object,
                                      const GroupClass& what, const GroupLayout& layout,
                                      bool old_abi) {
  uint32_t references = 0;
  int32_t place[2] = {-1, -1};  // rank, size
  if (!memory.Read(object + 8, &references, sizeof(references)) ||
      !memory.Read(object + layout.rank, place, sizeof(place))) {
    return std::nullopt;
  }
  if (references == 0 || references > kMostReferences) return std::nullopt;
  if (place[0] < 0 || place[0] >= place[1] || place[1] > kLargestWorld) return std::nullopt;
  ProcessGroup group;
  group.rank = place[0];
  group.size = place[1];
  group.backend = what.backend;
  if (!layout.is_base) group.address = object;
  if (layout.name == 0) return group;
  const uint64_t string_bytes = old_abi ? 8 : 32;
  const uint64_t name = object + layout.name;
  auto text = ReadStdString(memory, name, old_abi, kLongestName);
  if (!text || !IsText(*text)) return std::nullopt;
  group.name = *std::move(text);
  if (!layout.has_description) return group;
  auto description = ReadStdString(memory, name + string_bytes, old_abi, kLongestName);
  if (!description || !IsText(*description)) return std::nullopt;
  group.description = *std::move(description);
  return group;
}

std::optional<uint64_t> ReadCounter(const TargetMemory& memory, uint64_t object,
                                    const GroupCounter& counter) {
  uint64_t value = 0;
  if (counter.bytes == 0 || counter.bytes > sizeof(value)) return std::nullopt;
  if (!memory.Read(object + counter.offset, &value, counter.bytes)) return std::nullopt;
  return value;
}

std::vector<GroupClass> FindClasses(Pid pid, const TargetMemory& memory,
                                    const std::vector<MappedFile>& files, bool is_base) {
  std::vector<GroupClass> classes;
  std::vector<std::pair<std::string_view, GroupCounter>> counters;
  for (const MappedFile& mapped : files) {
    // The backends' classes lie in libtorch_cpu, libtorch_cuda or, statically linked, elsewhere.
    if (!Contains(mapped.path, "torch")) continue;
    auto opened = OpenMappedFile(pid, mapped);
    if (!opened.ok()) continue;
    auto file = ElfFile::Open(std::move(opened->file));
    if (!file.ok()) continue;
    const auto load_bias = LoadBias(**file, mapped);
    if (!load_bias) continue;
    (*file)->ForEachSymbol(/*full=*/false, [&](const ElfSymbol& symbol) {
      if (!symbol.is_defined) return;
      const std::string_view symbol_name = symbol.name();
      for (const auto& [name, backend] : kCounterFunctions) {
        std::array<uint8_t, kCounterCodeBytes> code{};
        if (symbol_name != name ||
            !memory.Read(*load_bias + symbol.address, code.data(), code.size())) {
          continue;
        }
        counters.emplace_back(backend, CounterOfCode(code));
      }
      if (symbol_name.substr(0, 9) != "_ZTVN4c10") return;
      for (const auto& [name, backend] : kClasses) {
        if (symbol_name != name || backend.empty() != is_base) continue;
        classes.push_back(
            GroupClass{*load_bias + symbol.address + kVtableHeaderBytes, std::string(backend)});
      }
    });
  }
  for (GroupClass& what : classes) {
    for (const auto& [backend, counter] : counters) {
      if (what.backend == backend) what.counter = counter;
    }
  }
  return classes;
}

}  // namespace

std::vector<MemoryRange> HeapRanges(const std::vector<Mapping>& mappings) {
  std::vector<MemoryRange> ranges;
  uint64_t left = kMostBytes;
  const auto add = [&](uint64_t address, uint64_t bytes) {
    bytes = std::min(bytes, left);
    if (bytes == 0) return;
    left -= bytes;
    ranges.push_back(MemoryRange{address, bytes});
  };
  const auto is_readable = [](const Mapping& mapping) {
    return mapping.accessible && !mapping.executable;
  };
  // The ranges that are likelier to have groups come first: the heap, then small anonymous ranges,
  // then large ones.
  for (const Mapping& mapping : mappings) {
    if (mapping.path != "[heap]" || !is_readable(mapping)) continue;
    const uint64_t bytes = mapping.end - mapping.start;
    if (bytes <= kHeapBeginBytes + kHeapEndBytes) {
      add(mapping.start, bytes);
      continue;
    }
    add(mapping.start, kHeapBeginBytes);
    add(mapping.end - kHeapEndBytes, kHeapEndBytes);
  }
  for (const bool is_large : {false, true}) {
    for (const Mapping& mapping : mappings) {
      if (!mapping.path.empty() || !is_readable(mapping)) continue;
      const uint64_t bytes = mapping.end - mapping.start;
      if ((bytes > kLargestArenaBytes) != is_large) continue;
      add(mapping.start, std::min(bytes, kMostOfRangeBytes));
    }
  }
  return ranges;
}

GroupLayout GroupLayoutOf(std::string_view torch_version) {
  const auto [major, minor] = MajorAndMinor(torch_version);
  // An intrusive_ptr_target, with which the objects begin, has 24 bytes up to 2.2 and 16 since.
  if (major == 1 && minor == 13) return {.rank = 24};
  if (major == 2 && minor <= 1) return {.rank = 32, .is_base = true};
  if (major == 2 && minor == 2) return {.rank = 24, .name = 40};
  if (major == 2 && minor == 3) return {.rank = 16, .name = 32};
  if (major == 2 && minor >= 4 && minor <= 15) {
    return {.rank = 16, .name = 32, .has_description = true};
  }
  return {};
}

bool NamesGroupThreads(std::string_view torch_version) {
  return MajorAndMinor(torch_version) >= std::pair(2, 11);
}

std::vector<FoundGroup> FindGroups(const TargetMemory& memory, std::span<const MemoryRange> ranges,
                                   std::span<const GroupClass> classes, const GroupLayout& layout,
                                   bool old_string_abi) {
  std::vector<FoundGroup> groups;
  std::vector<uint64_t> words(kPieceBytes / 8);
  for (const MemoryRange& range : ranges) {
    for (uint64_t at = range.address; at < range.address + range.bytes; at += kPieceBytes) {
      const size_t bytes = std::min<uint64_t>(kPieceBytes, range.address + range.bytes - at);
      if (!memory.Read(at, words.data(), bytes)) continue;
      // malloc() returns multiples of 16, so that every second word is looked at.
      for (size_t i = 0; i < bytes / 8; i += 2) {
        for (const GroupClass& what : classes) {
          if (words[i] != what.vtable || groups.size() >= kMostGroups) continue;
          auto group = ReadGroup(memory, at + 8 * i, what, layout, old_string_abi);
          if (!group) continue;
          groups.push_back({*std::move(group), ReadCounter(memory, at + 8 * i, what.counter)});
        }
      }
    }
  }
  const auto key = [](const FoundGroup& found) {
    const ProcessGroup& group = found.group;
    return std::tuple(group.name.size(), group.name, group.description, group.backend, group.rank,
                      group.size);
  };
  std::sort(groups.begin(), groups.end(), [&](const auto& a, const auto& b) {
    // Among equal objects, the one that has begun the most collectives comes first and is kept.
    return std::tuple(key(a), b.entered) < std::tuple(key(b), a.entered);
  });
  // Without names, only their addresses tell two groups of the same size apart.
  const bool has_names = layout.name != 0 || layout.is_base;
  groups.erase(std::unique(groups.begin(), groups.end(),
                           [&](const auto& a, const auto& b) {
                             return key(a) == key(b) &&
                                    (has_names || a.group.address == b.group.address);
                           }),
               groups.end());
  return groups;
}

namespace {

// Removes objects that are no groups, in versions whose objects have no names. Where Python has
// given some of the objects names, the others are remains of freed memory. Where Python has given
// none, objects that look alike count as one group.
void KeepKnownGroups(ProcessGroupReading* reading) {
  const bool are_known = std::any_of(reading->groups.begin(), reading->groups.end(),
                                     [](const ProcessGroup& group) { return !group.name.empty(); });
  ProcessGroupReading kept;
  for (size_t i = 0; i < reading->groups.size(); ++i) {
    ProcessGroup& group = reading->groups[i];
    if (are_known && group.name.empty()) continue;
    if (!are_known) {
      group.address = 0;
      if (!kept.groups.empty() && kept.groups.back() == group) continue;
    }
    kept.groups.push_back(std::move(group));
    kept.entered.push_back(reading->entered[i]);
  }
  reading->groups = std::move(kept.groups);
  reading->entered = std::move(kept.entered);
}

ProcessGroupReading ReadGroupsHere(Pid pid, const ProbePlan& plan) {
  ProcessGroupReading reading;
  ReadBudget budget({.bytes = kMostGroupSearchBytes, .cpu_ns = kLongestGroupSearchNs});
  const ReadBudget::Scope scope(&budget);
  const GroupLayout layout = GroupLayoutOf(plan.torch_version);
  const auto mappings = ReadMaps(pid);
  if (layout.rank == 0 || !mappings.ok()) return reading;
  const std::vector<MappedFile> files = GroupByFile(*mappings);
  const ProcessMemory memory(pid);
  const std::vector<GroupClass> classes = FindClasses(pid, memory, files, layout.is_base);
  if (classes.empty()) return reading;
  for (FoundGroup& found :
       FindGroups(memory, HeapRanges(*mappings), classes, layout, plan.old_string_abi)) {
    reading.groups.push_back(std::move(found.group));
    reading.entered.push_back(found.entered);
  }
  reading.cut = budget.Why();
  if (reading.groups.empty() || layout.is_base) return reading;
  const auto runtime = FindPythonRuntime(pid, memory, files);
  if (!runtime.ok()) {
    if (layout.name == 0) {
      KeepKnownGroups(&reading);
    } else {
      reading.without_members = std::string(runtime.status().message());
    }
    return reading;
  }
  const auto python = ReadPythonGroups(memory, runtime->layout, runtime->main_interpreter);
  if (python) reading.count = python->count;
  const size_t known = python ? AddMembers(*python, &reading.groups) : 0;
  if (layout.name == 0) KeepKnownGroups(&reading);
  if (known < reading.groups.size()) {
    reading.without_members =
        budget.is_used_up() ? budget.Why() : "torch.distributed's variables do not say them";
  }
  return reading;
}

void PutGroup(const ProcessGroup& group, CacheWriter* out) {
  for (const std::string* text :
       {&group.name, &group.description, &group.backend, &group.backend_config}) {
    out->Text(*text);
  }
  out->Number(static_cast<uint32_t>(group.rank));
  out->Number(static_cast<uint32_t>(group.size));
  out->Number(group.address);
  out->Number(static_cast<uint32_t>(group.ranks.size()));
  for (const int rank : group.ranks) out->Number(static_cast<uint32_t>(rank));
}

ProcessGroup TakeGroup(CacheReader* in) {
  ProcessGroup group;
  for (std::string* text :
       {&group.name, &group.description, &group.backend, &group.backend_config}) {
    *text = in->Text();
  }
  group.rank = static_cast<int>(in->Number<uint32_t>());
  group.size = static_cast<int>(in->Number<uint32_t>());
  group.address = in->Number<uint64_t>();
  const uint32_t ranks = in->Number<uint32_t>();
  for (uint32_t i = 0; i < ranks && in->ok(); ++i) {
    group.ranks.push_back(static_cast<int>(in->Number<uint32_t>()));
  }
  return group;
}

std::string EncodeReading(const ProcessGroupReading& reading) {
  CacheWriter out;
  out.Text(reading.without_members);
  out.Text(reading.cut);
  out.Number(static_cast<uint8_t>(reading.count.has_value() ? 1 : 0));
  out.Number(static_cast<uint32_t>(reading.count.value_or(0)));
  out.Number(static_cast<uint32_t>(reading.groups.size()));
  for (const ProcessGroup& group : reading.groups) PutGroup(group, &out);
  for (const std::optional<uint64_t>& entered : reading.entered) {
    out.Number(static_cast<uint8_t>(entered.has_value() ? 1 : 0));
    out.Number(entered.value_or(0));
  }
  return out.Take();
}

std::optional<ProcessGroupReading> DecodeReading(std::string_view bytes) {
  CacheReader in(bytes);
  ProcessGroupReading reading;
  reading.without_members = in.Text();
  reading.cut = in.Text();
  const bool has_count = in.Number<uint8_t>() != 0;
  const auto count = static_cast<int>(in.Number<uint32_t>());
  if (has_count) reading.count = count;
  const uint32_t groups = in.Number<uint32_t>();
  for (uint32_t i = 0; i < groups && in.ok(); ++i) {
    reading.groups.push_back(TakeGroup(&in));
    const ProcessGroup& group = reading.groups.back();
    if (group.rank < 0 || group.rank >= group.size) return std::nullopt;
  }
  for (uint32_t i = 0; i < groups && in.ok(); ++i) {
    const bool is_known = in.Number<uint8_t>() != 0;
    const auto entered = in.Number<uint64_t>();
    reading.entered.push_back(is_known ? std::optional(entered) : std::nullopt);
  }
  return in.ok() && in.at_end() ? std::optional(std::move(reading)) : std::nullopt;
}

}  // namespace

ProcessGroupReading ReadProcessGroups(Pid pid, const ProbePlan& plan) {
  const auto bytes = ReadInWorker(pid, kLongestGroupSearchNs / 1'000'000'000 + 5, [&] {
    return absl::StatusOr<std::string>(EncodeReading(ReadGroupsHere(pid, plan)));
  });
  ProcessGroupReading failed;
  if (!bytes.ok()) {
    failed.cut = std::string(bytes.status().message());
    return failed;
  }
  if (auto reading = DecodeReading(*bytes)) return *std::move(reading);
  failed.cut = "what was read of them is none";
  return failed;
}

}  // namespace proftrace
