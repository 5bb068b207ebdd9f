#include "userspace/aggregate/stack_groups.h"

#include <string_view>
#include <utility>

#include "userspace/aggregate/python_text.h"

namespace proftrace {
namespace {

bool IsLeftOut(std::string_view name) {
  static constexpr std::pair<std::string_view, std::string_view> kLeftOut[] = {
      {"autograd/__init__", "_make_grads"},
      {"autograd/__init__", "backward"},
      {"torch/tensor", "backward"},
      {"_internal/common_utils", "prof_callable"},
      {"_internal/common_utils", "prof_func_call"},
      {"_internal/common_utils", "prof_meth_call"},
  };
  for (const auto& [file, function] : kLeftOut) {
    if (name.find(file) != std::string_view::npos && name.find(function) != std::string_view::npos)
      return true;
  }
  return false;
}

}  // namespace

StackGroups::StackGroups(const Timeline& timeline, uint32_t frames)
    : timeline_(timeline), frames_(frames) {
  const size_t count = timeline.python_frames().size();
  name_of_frame_.resize(count);
  is_left_out_.resize(count);
  groups_plus_1_.resize(count);
  absl::flat_hash_map<std::string, uint32_t> name_ids;
  for (uint32_t id = 1; id < count; ++id) {
    const std::string name = PythonFrameText(timeline, StackId{id});
    const auto [it, inserted] = name_ids.try_emplace(name, static_cast<uint32_t>(names_.size()));
    if (inserted) names_.push_back(name);
    name_of_frame_[id] = it->second;
    is_left_out_[id] = IsLeftOut(name);
  }
  names_of_group_.emplace_back();
  group_ids_[{}] = 0;
}

uint32_t StackGroups::Of(StackId stack) {
  uint32_t& known = groups_plus_1_[Raw(stack)];
  if (known != 0) return known - 1;
  std::vector<uint32_t> names;
  for (StackId at = stack; at != kNoStack && names.size() < frames_;
       at = timeline_.python_frame(at).parent) {
    if (!is_left_out_[Raw(at)]) names.push_back(name_of_frame_[Raw(at)]);
  }
  const auto [it, inserted] =
      group_ids_.try_emplace(names, static_cast<uint32_t>(names_of_group_.size()));
  if (inserted) names_of_group_.push_back(std::move(names));
  known = it->second + 1;
  return it->second;
}

std::vector<std::string> StackGroups::Frames(uint32_t group) const {
  std::vector<std::string> frames;
  for (const uint32_t name : names_of_group_[group]) frames.push_back(names_[name]);
  return frames;
}

}  // namespace proftrace
