#include "symbols/torch/python_groups.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "symbols/python/python_objects.h"

namespace proftrace {
namespace {

constexpr char kModule[] = "torch.distributed.distributed_c10d";
constexpr size_t kMostGroups = 4096;
constexpr size_t kLongestName = 256;
constexpr size_t kLongestConfig = 1024;
// The offset of the pointer to the C++ object in a Python object of one C++ class, behind
// PyObject_HEAD (pybind11's instance, simple layout).
constexpr uint64_t kPybindValue = 16;

std::optional<int> Rank(const PythonObjects& objects, uint64_t object) {
  const auto number = objects.Number(object);
  if (!number || *number > static_cast<uint64_t>(std::numeric_limits<int>::max())) {
    return std::nullopt;
  }
  return static_cast<int>(*number);
}

// Returns the keys of a dict that maps ranks in the job to ranks in the group, where the latter
// count up from 0.
std::optional<std::vector<int>> RanksIn(const PythonObjects& objects, uint64_t dict) {
  const auto items = objects.DictItems(dict);
  if (!items) return std::nullopt;
  std::vector<int> ranks;
  for (const PythonItem& item : *items) {
    const auto rank = Rank(objects, item.key);
    const auto own = Rank(objects, item.value);
    if (!rank || !own || static_cast<size_t>(*own) != ranks.size()) return std::nullopt;
    ranks.push_back(*rank);
  }
  return ranks;
}

// Returns the value for the object `key` among the items of a dict.
std::optional<uint64_t> ValueOf(const std::vector<PythonItem>& items, uint64_t key) {
  const auto item = std::find_if(items.begin(), items.end(),
                                 [key](const PythonItem& one) { return one.key == key; });
  return item == items.end() ? std::nullopt : std::optional(item->value);
}

}  // namespace

std::optional<PythonGroups> ReadPythonGroups(const TargetMemory& memory, const PythonLayout& layout,
                                             uint64_t interpreter) {
  const PythonObjects objects(memory, layout);
  const auto variables = objects.ModuleVariables(interpreter, kModule);
  if (!variables) return std::nullopt;
  const auto items_of = [&](const char* variable) {
    const auto dict = objects.DictValue(*variables, variable);
    return dict ? objects.DictItems(*dict) : std::nullopt;
  };
  const auto names = items_of("_pg_names");
  const auto ranks = items_of("_pg_group_ranks");
  if (!names || !ranks) return std::nullopt;
  const std::vector<PythonItem> configs =
      items_of("_pg_backend_config").value_or(std::vector<PythonItem>());
  PythonGroups python;
  for (const PythonItem& item : *names) {
    if (python.groups.size() >= kMostGroups) break;
    const auto name = objects.Text(item.value, kLongestName);
    const auto dict = ValueOf(*ranks, item.key);
    auto members = dict ? RanksIn(objects, *dict) : std::nullopt;
    if (!name || !members) continue;
    PythonGroup& group = python.groups.emplace_back();
    group.name = *name;
    group.ranks = *std::move(members);
    if (!memory.Read(item.key + kPybindValue + layout.stack.object_head, &group.object,
                     sizeof(group.object))) {
      group.object = 0;
    }
    if (const auto config = ValueOf(configs, item.key)) {
      group.backend_config = objects.Text(*config, kLongestConfig).value_or("");
    }
  }
  if (const auto count = objects.DictValue(*variables, "_group_count")) {
    python.count = Rank(objects, *count);
  }
  return python;
}

size_t AddMembers(const PythonGroups& python, std::vector<ProcessGroup>* groups) {
  const ProcessGroup* all = DefaultGroup(*groups);
  if (all == nullptr) return 0;
  const int own_rank = all->rank;
  size_t known = 0;
  for (ProcessGroup& group : *groups) {
    for (const PythonGroup& one : python.groups) {
      const bool is_it = group.name.empty() ? group.address != 0 && group.address == one.object
                                            : group.name == one.name;
      if (!is_it || one.ranks.size() != static_cast<size_t>(group.size) ||
          one.ranks[static_cast<size_t>(group.rank)] != own_rank) {
        continue;
      }
      group.name = one.name;
      group.ranks = one.ranks;
      group.backend_config = one.backend_config;
      ++known;
      break;
    }
  }
  return known;
}

}  // namespace proftrace
