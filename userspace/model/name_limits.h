// How many different names a recording may have. Names that never repeat (a step's number in an
// annotation, a function that exec() makes, a kernel that is compiled for each shape) come without
// an end. The first ones are kept as they are. Later ones that have a number in them are told as a
// group ("step *"); those that are in no group are one name of their kind. It is told that they
// are.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "userspace/model/label.h"

namespace proftrace {

// Names of a kind: labels of rows, functions of Python, modules, sampled functions, kernels.
// PyTorch has 3000 names of its own.
inline constexpr size_t kMostNames = size_t{1} << 17;
// Groups of names of a kind, which come after these.
inline constexpr size_t kMostNameGroups = size_t{1} << 14;
// Paths of names, stacks, files.
inline constexpr size_t kMostPaths = size_t{1} << 20;
// Paths after these, in which a name with a number is its group.
inline constexpr size_t kMostGroupPaths = size_t{1} << 17;
inline constexpr char kOtherNames[] = "<other names>";

// Returns the group that a name is of: each number in it is a `*`. "step 17" and "step 18" are of
// "step *", "lr=0.125" of "lr=*". UUIDs are numbers, too, and so are words of hexadecimal digits
// that begin with 0x, or are eight or more with a decimal one. nullopt: there is no number in it.
std::optional<std::string> GroupOfName(std::string_view name);

// Returns the label that stands for one that is not kept: `is_group`: its group's, nullopt where it
// is of none; else that of all other names of its kind.
std::optional<Label> LabelInstead(const Label& label, bool is_group);

// Returns the number of a label; numbers count from 0 on. When there are `most`, new ones get that
// of their group or of all others of their kind: these numbers are `most` or greater. The table has
// `most` + kMostNameGroups entries and one for each kind of label at most.
template <typename Id>
Id InternBounded(const Label& label, size_t most, std::vector<Label>* labels,
                 absl::flat_hash_map<Label, Id>* ids) {
  const auto add = [&](const Label& one) {
    const auto [it, is_new] = ids->try_emplace(one, static_cast<Id>(labels->size()));
    if (is_new) labels->push_back(one);
    return it->second;
  };
  if (ids->size() < most) return add(label);
  if (const auto known = ids->find(label); known != ids->end()) return known->second;
  const std::optional<Label> group = LabelInstead(label, /*is_group=*/true);
  if (group && (ids->size() < most + kMostNameGroups || ids->contains(*group))) return add(*group);
  return add(*LabelInstead(label, /*is_group=*/false));
}

}  // namespace proftrace
