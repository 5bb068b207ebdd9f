// How many different names a recording may have. Names that never repeat (a step's number in an
// annotation, a function that exec() makes, a kernel that is compiled for each shape) come without
// an end. The first ones are kept as they are. Later ones that have a number in them are told as a
// group ("step *"); names without a number are all called kOtherNames, one name for each kind of
// label. The summary says how many rows lost their own name.
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

// The limit for the names of each kind: labels of rows, functions of Python, modules, sampled
// functions, kernels. PyTorch itself has 3000 names.
inline constexpr size_t kMostNames = size_t{1} << 17;
// The limit for the groups of names of each kind. Groups are numbered after the names.
inline constexpr size_t kMostNameGroups = size_t{1} << 14;
// The limit for paths of names, for stacks, and for files.
inline constexpr size_t kMostPaths = size_t{1} << 20;
// The limit for further paths, in which an annotation's name is replaced by its group.
inline constexpr size_t kMostGroupPaths = size_t{1} << 17;
inline constexpr char kOtherNames[] = "<other names>";

// Returns the group of a name: the name with a `*` for each number in it. "step 17" and "step 18"
// give "step *", "lr=0.125" gives "lr=*". A UUID counts as a number; so does a word of hexadecimal
// digits that begins with 0x, or that has eight or more digits of which one is decimal. nullopt:
// the name has no number in it.
std::optional<std::string> GroupOfName(std::string_view name);

// Returns the label that stands for `label` where that is not kept. With `is_group` this is the
// label of its group, and nullopt where the name is in no group; without, the label of all other
// names of its kind.
std::optional<Label> LabelInstead(const Label& label, bool is_group);

// Returns the number of a label; numbers count from 0 on. Once `most` labels are known, a new label
// gets the number of its group, or that of all other names of its kind; these numbers are `most` or
// greater. The table has `most` + kMostNameGroups entries and one for each kind of label at most.
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
