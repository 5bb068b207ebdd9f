// Finds the place of spans in the merged tree of Python frames and rows. The path of a span has the
// frames that ran when its outermost row began, then that row, the frames that the row called, the
// next row, and so on. Without Python's stacks they stand on the Timeline's own paths.
//
// A node of the backward pass begins anew at the root with the stack of its forward operator, as in
// torch's export_stacks(), so that the backward pass of a layer lies below the layer. The engine's
// row around the node stays where backward() was called, with its own time. All steps are one
// frame, ProfilerStep*, as in torch's key averages.
#pragma once

#include <absl/container/flat_hash_map.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "userspace/aggregate/folded_stacks.h"
#include "userspace/aggregate/frame_tree.h"
#include "userspace/model/timeline.h"

namespace proftrace {

class StackFolder {
 public:
  // Both must outlive this. `stacks` must be empty; it gets its root.
  StackFolder(const Timeline& timeline, FoldedStacks* stacks);

  // Returns the span's node. Fast for spans that come in the order of their start.
  uint32_t NodeOf(SpanId id, const Span& span) {
    return node_of_path_.empty() ? NodeByStacks(id) : node_of_path_[Raw(span.path)];
  }
  // Returns the node of a device's work below `asker`, the node of the row that asked for it.
  uint32_t DeviceNode(uint32_t asker, DeviceNameId name);
  // Returns the node of a sample, which lies below the sampled frames of Python and of C. Where no
  // function of C was found, it lies below the frames of Python and the open rows.
  uint32_t SampleNode(const Sample& sample);
  // Returns the node of time off the CPU below `above`: the system call that the thread waited in,
  // or why it had no CPU ("[preempted]").
  uint32_t WaitNode(uint32_t above, const OffCpuFacts& wait);
  // Returns a node below the root.
  uint32_t TopNode(std::string_view name);

 private:
  struct Place {
    SpanId span = kNoSpan;
    uint32_t node = 0;
    StackId stack = kNoStack;
    bool is_in_node = false;  // of the backward pass
  };

  void AddPaths();
  uint32_t FrameOfSample(const SampleFrame& frame);
  // Returns the node below `node` for the labels of `path`.
  uint32_t BelowPath(uint32_t node, PathId path);
  uint32_t NodeByStacks(SpanId id);
  // Returns the span's place; nullptr: it is not kept.
  const Place* Kept(SpanId id, const Span& span) const;
  const Place& Add(SpanId id, const Span& span, const Place* parent);
  // Returns the node below `node` for the frames of `stack`, without the `depth` outermost ones.
  uint32_t BelowFrames(uint32_t node, StackId stack, uint32_t depth);
  uint32_t Below(uint32_t node, uint32_t frame);
  uint32_t FrameOf(const std::string& name, FrameKind kind);

  const Timeline& timeline_;
  FrameTree frames_;
  FoldedStacks& stacks_;
  absl::flat_hash_map<std::string, uint32_t> frame_ids_;
  std::vector<uint32_t> frame_of_label_;
  std::vector<uint32_t> frame_of_stack_;            // by StackId
  std::vector<uint32_t> frame_plus_1_of_device_;    // by DeviceNameId; 0 = none yet
  std::vector<uint32_t> node_of_path_;              // used where there are no stacks
  std::vector<uint32_t> frame_plus_1_of_function_;  // of samples; 0 = none yet
  std::vector<uint32_t> node_plus_1_of_sample_;     // by frame of samples; 0 = none yet
  absl::flat_hash_map<uint64_t, uint32_t> node_ids_;
  absl::flat_hash_map<std::tuple<uint32_t, uint32_t, uint32_t>, uint32_t> below_frames_;
  std::vector<std::vector<Place>> places_;  // by thread and depth: the last span there
  std::vector<StackId> to_root_;
  std::vector<SpanId> missing_;
};

}  // namespace proftrace
