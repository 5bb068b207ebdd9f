#include "userspace/model/process_group.h"

#include <algorithm>
#include <utility>

namespace proftrace {

const ProcessGroup* DefaultGroup(const std::vector<ProcessGroup>& groups) {
  // Names count up from "0" (torch/distributed/distributed_c10d.py). Without names, the largest
  // group is taken.
  const auto it = std::max_element(groups.begin(), groups.end(), [](const auto& a, const auto& b) {
    return std::pair(a.name == "0", a.size) < std::pair(b.name == "0", b.size);
  });
  return it == groups.end() ? nullptr : &*it;
}

}  // namespace proftrace
