// Groups stacks by their innermost frames, as torch's key_averages(group_by_stack_n=N) does.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <cstdint>
#include <string>
#include <vector>

#include "userspace/model/timeline.h"

namespace proftrace {

class StackGroups {
 public:
  // `timeline` must outlive this.
  StackGroups(const Timeline& timeline, uint32_t frames);

  // Returns a number that is equal for stacks whose innermost frames have equal names; 0: the stack
  // has no frame. As in FunctionEvent.stack, the frames of autograd's entrance are left out
  // (_filter_stack_entry in torch/autograd/profiler_util.py).
  uint32_t Of(StackId stack);

  // Returns the frames of a group, the innermost first.
  std::vector<std::string> Frames(uint32_t group) const;

 private:
  const Timeline& timeline_;
  uint32_t frames_;
  std::vector<std::string> names_;       // distinct
  std::vector<uint32_t> name_of_frame_;  // by StackId
  std::vector<bool> is_left_out_;        // by StackId
  std::vector<uint32_t> groups_plus_1_;  // by StackId; 0 = not looked up yet
  std::vector<std::vector<uint32_t>> names_of_group_;
  absl::flat_hash_map<std::vector<uint32_t>, uint32_t> group_ids_;
};

}  // namespace proftrace
