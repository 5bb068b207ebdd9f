// The process groups of torch.distributed that a process has made: rank, size and names, from the
// objects themselves.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "symbols/probe_plan.h"
#include "symbols/process/process_maps.h"
#include "symbols/process/process_memory.h"
#include "symbols/torch/group_counter.h"
#include "userspace/model/process_group.h"

namespace proftrace {

// Where a version of PyTorch keeps what describes a group, from the object's begin on.
struct GroupLayout {
  uint32_t rank = 0;     // two ints: rank and size; 0 = not known
  uint32_t name = 0;     // std::string; 0 = it has none
  bool is_base = false;  // c10d::ProcessGroup itself, which holds the backends; else the backends
  bool has_description = false;  // std::string behind the name
};

// Returns the layout as measured with each version's headers: 1.13, 2.0 to 2.15.
GroupLayout GroupLayoutOf(std::string_view torch_version);

// Whether a process that has groups has threads named pt_gloo_…, pt_nccl_…: 2.11 and later.
bool NamesGroupThreads(std::string_view torch_version);

// A class whose objects are looked for.
struct GroupClass {
  uint64_t vtable = 0;  // as objects point to it
  std::string backend;  // "gloo"; empty for c10d::ProcessGroup itself
  GroupCounter counter{};
};

struct FoundGroup {
  ProcessGroup group;
  std::optional<uint64_t> entered;  // how many collectives it has begun
};

// Finds the objects in `ranges` that hold together: 0 <= rank < size, a live reference count, names
// that are text. Ascending by name, each once.
std::vector<FoundGroup> FindGroups(const TargetMemory& memory, std::span<const MemoryRange> ranges,
                                   std::span<const GroupClass> classes, const GroupLayout& layout,
                                   bool old_string_abi);

// Returns where a process has its heaps: not more than can be looked through in a few tenths of a
// second, and only parts of large ranges.
std::vector<MemoryRange> HeapRanges(const std::vector<Mapping>& mappings);

struct ProcessGroupReading {
  std::vector<ProcessGroup> groups;
  // For each of `groups`, how many collectives it had begun when it was read.
  std::vector<std::optional<uint64_t>> entered;
  std::optional<int> count;     // of groups that were made, also those that it is not in
  std::string without_members;  // why a group's ranks are not known; empty: all are
  std::string cut;              // why the search ended early; empty: it did not
};

// Reads the groups of a running process. Looks through its heap: a tenth of a second, some hundred
// megabytes at most. Empty: there are none, or this version of PyTorch is not known.
ProcessGroupReading ReadProcessGroups(Pid pid, const ProbePlan& plan);

}  // namespace proftrace
