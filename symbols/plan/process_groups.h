// Finds the process groups of torch.distributed that a process has made, with rank, size and names
// from the objects themselves.
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

// The offsets of the fields that describe a group, in the objects of one version of PyTorch.
struct GroupLayout {
  uint32_t rank = 0;  // two ints: rank and size; 0 = not known
  uint32_t name = 0;  // std::string; 0 = objects have no name
  // true: the object is c10d::ProcessGroup itself, which holds the backends; false: it is a backend
  bool is_base = false;
  bool has_description = false;  // another std::string lies behind the name
};

// Returns the layout as measured with each version's headers: 1.13, 2.0 to 2.15.
GroupLayout GroupLayoutOf(std::string_view torch_version);

// Whether the threads of this version's groups are named pt_gloo_… and pt_nccl_…: 2.11 and later.
bool NamesGroupThreads(std::string_view torch_version);

// A class whose objects FindGroups() looks for.
struct GroupClass {
  uint64_t vtable = 0;  // as objects point to it
  std::string backend;  // "gloo"; empty for c10d::ProcessGroup itself
  GroupCounter counter{};
};

struct FoundGroup {
  ProcessGroup group;
  std::optional<uint64_t> entered;  // how many collectives the group has begun
};

// Finds the groups in `ranges`: objects of `classes` whose fields make sense (0 <= rank < size, a
// live reference count, names that are text). Returns each group once, ascending by name.
std::vector<FoundGroup> FindGroups(const TargetMemory& memory, std::span<const MemoryRange> ranges,
                                   std::span<const GroupClass> classes, const GroupLayout& layout,
                                   bool old_string_abi);

// Returns the heaps of a process, but no more than can be searched in a few tenths of a second, so
// that large ranges are cut.
std::vector<MemoryRange> HeapRanges(const std::vector<Mapping>& mappings);

struct ProcessGroupReading {
  std::vector<ProcessGroup> groups;
  // For each of `groups`, how many collectives it had begun when it was read; nullopt: not known.
  std::vector<std::optional<uint64_t>> entered;
  std::optional<int> count;  // how many groups were made, those included that the process is not in
  std::string without_members;  // why a group's ranks are not known; empty: all are
  std::string cut;              // why the search ended early; empty: it did not
};

// Reads the groups of a running process. Searches its heap, some hundred megabytes at most, which
// takes a tenth of a second. Empty: there are no groups, or this version of PyTorch is not known.
ProcessGroupReading ReadProcessGroups(Pid pid, const ProbePlan& plan);

}  // namespace proftrace
