#include "userspace/aggregate/stack_folder.h"

#include "userspace/aggregate/python_text.h"
#include "userspace/aggregate/sample_text.h"
#include "userspace/model/system_calls.h"

namespace proftrace {

StackFolder::StackFolder(const Timeline& timeline, FoldedStacks* stacks)
    : timeline_(timeline), frames_(timeline), stacks_(*stacks) {
  stacks_.nodes.emplace_back();
  for (const Label& label : timeline.labels()) {
    const bool is_step = label.name.starts_with("ProfilerStep#");
    frame_of_label_.push_back(
        FrameOf(is_step ? "ProfilerStep*" : label.name, static_cast<FrameKind>(label.kind)));
  }
  frame_plus_1_of_device_.resize(timeline.device_names().size());
  if (!timeline.columns().stack.exists()) {
    AddPaths();
    return;
  }
  frame_of_stack_.resize(timeline.python_frames().size());
  for (uint32_t id = 1; id < frame_of_stack_.size(); ++id) {
    const PythonFrame& python = timeline.python_frame(StackId{id});
    const bool is_module = python.module != 0;
    const uint32_t frame = frame_of_stack_[id] =
        FrameOf(PythonFrameText(timeline, StackId{id}),
                is_module ? FrameKind::kModule : FrameKind::kPython);
    if (is_module) continue;
    stacks_.frames[frame].file = timeline.python_codes()[python.code].file;
    stacks_.frames[frame].line = timeline.python_codes()[python.code].first_line;
  }
  places_.resize(timeline.threads().size());
}

void StackFolder::AddPaths() {
  // A path's parent has a smaller id, so its node is there already.
  node_of_path_.resize(timeline_.paths().size());
  for (size_t path = 1; path < node_of_path_.size(); ++path) {
    const PathNode& source = timeline_.paths()[path];
    node_of_path_[path] =
        Below(node_of_path_[Raw(source.parent)], frame_of_label_[Raw(source.label)]);
  }
}

uint32_t StackFolder::DeviceNode(uint32_t asker, DeviceNameId name) {
  uint32_t& known = frame_plus_1_of_device_[Raw(name)];
  if (known == 0) {
    // A kernel may have the name of an operator, so it has a frame of its own.
    stacks_.frames.push_back(StackFrame{timeline_.device_name(name), FrameKind::kDevice, {}, 0});
    known = static_cast<uint32_t>(stacks_.frames.size());
  }
  return Below(asker, known - 1);
}

uint32_t StackFolder::FrameOfSample(const SampleFrame& frame) {
  const SampleFunction& function = timeline_.sample_function(frame);
  if (frame.function >= frame_plus_1_of_function_.size()) {
    frame_plus_1_of_function_.resize(frame.function + 1);
  }
  uint32_t& known = frame_plus_1_of_function_[frame.function];
  if (known != 0) return known - 1;
  const FrameKind kind = function.kind == SampleFrameKind::kPython   ? FrameKind::kPython
                         : function.kind == SampleFrameKind::kNative ? FrameKind::kNative
                                                                     : FrameKind::kKernel;
  const uint32_t id = FrameOf(SampleFunctionText(function), kind);
  if (stacks_.frames[id].file.empty()) {
    stacks_.frames[id].file = function.file;
    stacks_.frames[id].line = function.first_line;
  }
  known = id + 1;
  return id;
}

uint32_t StackFolder::BelowPath(uint32_t node, PathId path) {
  std::vector<uint32_t> frames;
  for (; path != kRootPath; path = timeline_.path(path).parent) {
    frames.push_back(frame_of_label_[Raw(timeline_.path(path).label)]);
  }
  for (size_t i = frames.size(); i-- > 0;) node = Below(node, frames[i]);
  return node;
}

uint32_t StackFolder::SampleNode(const Sample& sample) {
  const std::vector<SampleFrame>& frames = timeline_.sample_frames();
  node_plus_1_of_sample_.resize(frames.size());
  std::vector<uint32_t> to_root;
  uint32_t node = 0;
  for (uint32_t at = sample.frame; at != 0; at = frames[at].parent) {
    if (node_plus_1_of_sample_[at] != 0) {
      node = node_plus_1_of_sample_[at] - 1;
      break;
    }
    to_root.push_back(at);
  }
  for (size_t i = to_root.size(); i-- > 0;) {
    node = Below(node, FrameOfSample(frames[to_root[i]]));
    node_plus_1_of_sample_[to_root[i]] = node + 1;
  }
  const bool has_c = sample.frame != 0 && timeline_.sample_function(frames[sample.frame]).kind !=
                                              SampleFrameKind::kPython;
  if (sample.span != kNoSpan && !has_c) {
    return BelowPath(node, timeline_.span(sample.span).path);
  }
  return node != 0 ? node : TopNode(kNoFrameFrame);
}

uint32_t StackFolder::WaitNode(uint32_t above, const OffCpuFacts& wait) {
  const bool is_in_call = wait.call >= 0 && wait.reason != WaitReason::kPreempted;
  // A system call is named as in the stacks of samples.
  const std::string name = is_in_call
                               ? SystemCallName(wait.abi, static_cast<uint64_t>(wait.call)) + "_[k]"
                               : "[" + std::string(WaitReasonName(wait.reason)) + "]";
  return Below(above, FrameOf(name, FrameKind::kKernel));
}

uint32_t StackFolder::TopNode(std::string_view name) {
  return Below(0, FrameOf(std::string(name), FrameKind::kAnnotation));
}

uint32_t StackFolder::NodeByStacks(SpanId id) {
  missing_.clear();
  const Place* around = nullptr;
  for (SpanId at = id; at != kNoSpan && around == nullptr;) {
    const Span& span = timeline_.span(at);
    around = Kept(at, span);
    if (around == nullptr) missing_.push_back(at);
    at = span.parent;
  }
  for (size_t i = missing_.size(); i-- > 0;) {
    around = &Add(missing_[i], timeline_.span(missing_[i]), around);
  }
  return around == nullptr ? 0 : around->node;
}

const StackFolder::Place* StackFolder::Kept(SpanId id, const Span& span) const {
  const std::vector<Place>& places = places_[Raw(span.thread)];
  if (span.depth >= places.size() || places[span.depth].span != id) return nullptr;
  return &places[span.depth];
}

const StackFolder::Place& StackFolder::Add(SpanId id, const Span& span, const Place* parent) {
  Place place;
  place.span = id;
  place.stack = frames_.Shown(id);
  place.is_in_node = timeline_.label(span.label).scope == Scope::kBackwardFunction;
  const bool begins_anew =
      place.is_in_node && place.stack != kNoStack && (parent == nullptr || !parent->is_in_node);
  uint32_t depth = 0;
  if (parent != nullptr && !begins_anew) {
    place.node = parent->node;
    place.is_in_node |= parent->is_in_node;
    if (place.stack == kNoStack) place.stack = parent->stack;
    depth = frames_.at(frames_.Common(place.stack, parent->stack)).depth;
  }
  place.node = Below(BelowFrames(place.node, place.stack, depth), frame_of_label_[Raw(span.label)]);
  std::vector<Place>& places = places_[Raw(span.thread)];
  if (span.depth >= places.size()) places.resize(span.depth + 1u);
  return places[span.depth] = place;
}

uint32_t StackFolder::BelowFrames(uint32_t node, StackId stack, uint32_t depth) {
  if (frames_.at(stack).depth <= depth) return node;
  const auto [it, inserted] = below_frames_.try_emplace({node, Raw(stack), depth}, 0);
  if (!inserted) return it->second;
  to_root_.clear();
  for (; frames_.at(stack).depth > depth; stack = frames_.at(stack).parent) {
    to_root_.push_back(stack);
  }
  for (size_t i = to_root_.size(); i-- > 0;) node = Below(node, frame_of_stack_[Raw(to_root_[i])]);
  return it->second = node;
}

uint32_t StackFolder::Below(uint32_t node, uint32_t frame) {
  const uint64_t key = (uint64_t{node} << 32) | frame;
  const auto [it, inserted] =
      node_ids_.try_emplace(key, static_cast<uint32_t>(stacks_.nodes.size()));
  if (inserted) stacks_.nodes.push_back(StackNode{node, frame});
  return it->second;
}

uint32_t StackFolder::FrameOf(const std::string& name, FrameKind kind) {
  const auto [it, inserted] =
      frame_ids_.try_emplace(name, static_cast<uint32_t>(stacks_.frames.size()));
  if (inserted) stacks_.frames.push_back(StackFrame{name, kind, {}, 0});
  return it->second;
}

}  // namespace proftrace
