#include "exporters/folded.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "exporters/escape.h"
#include "exporters/text_writer.h"
#include "userspace/base/saturating.h"

namespace proftrace {
namespace {

std::vector<int64_t> Counts(const FoldedStacks& stacks) {
  std::vector<int64_t> counts;
  counts.reserve(stacks.nodes.size());
  for (const StackNode& node : stacks.nodes) counts.push_back(static_cast<int64_t>(node.count));
  return counts;
}

// Whole microseconds by node (largest remainder method).
std::vector<int64_t> Microseconds(const FoldedStacks& stacks) {
  std::vector<int64_t> weights(stacks.nodes.size());
  std::vector<uint32_t> by_remainder(stacks.nodes.size());
  int64_t total_ns = 0;
  int64_t given = 0;
  for (uint32_t index = 0; index < weights.size(); ++index) {
    weights[index] = stacks.nodes[index].self_ns / 1000;
    by_remainder[index] = index;
    given += weights[index];
    total_ns = SaturatingSum(total_ns, stacks.nodes[index].self_ns);
  }
  std::sort(by_remainder.begin(), by_remainder.end(), [&](uint32_t a, uint32_t b) {
    const int64_t left = stacks.nodes[a].self_ns % 1000;
    const int64_t right = stacks.nodes[b].self_ns % 1000;
    return left != right ? left > right : a < b;
  });
  const int64_t rest = std::max<int64_t>(SaturatingSum(total_ns, 500) / 1000 - given, 0);
  for (size_t i = 0; i < std::min(static_cast<size_t>(rest), by_remainder.size()); ++i) {
    ++weights[by_remainder[i]];
  }
  return weights;
}

class FoldedWriter {
 public:
  FoldedWriter(const FoldedStacks& stacks, std::vector<int64_t> weights, ByteSink& sink)
      : stacks_(stacks), writer_(sink), weights_(std::move(weights)) {
    frames_.reserve(stacks.frames.size());
    for (const std::string& frame : stacks.frames) frames_.push_back(FoldedFrame(frame));
    children_.resize(stacks.nodes.size());
    for (uint32_t index = 1; index < stacks.nodes.size(); ++index) {
      children_[stacks.nodes[index].parent].push_back(index);
    }
    for (std::vector<uint32_t>& siblings : children_) {
      std::sort(siblings.begin(), siblings.end(), [&](uint32_t a, uint32_t b) {
        const int order = FrameOf(a).compare(FrameOf(b));
        return order != 0 ? order < 0 : a < b;
      });
    }
  }

  // Depth first, without recursion: stacks of a target may be of any depth.
  absl::Status Run() {
    struct Open {
      uint32_t node;
      size_t next_child;
      size_t line_bytes;  // of the line without this node's frame
    };
    std::vector<Open> open = {{0, 0, 0}};
    std::string line;
    while (!open.empty()) {
      Open& top = open.back();
      if (top.next_child == children_[top.node].size()) {
        line.resize(top.line_bytes);
        open.pop_back();
        continue;
      }
      const uint32_t child = children_[top.node][top.next_child++];
      const size_t line_bytes = line.size();
      if (!line.empty()) line.push_back(';');
      line += FrameOf(child);
      if (weights_[child] > 0) {
        writer_.Text(line);
        writer_.Text(" ");
        writer_.Integer(weights_[child]);
        writer_.Text("\n");
      }
      open.push_back({child, 0, line_bytes});
    }
    return writer_.Flush();
  }

 private:
  const std::string& FrameOf(uint32_t node) const { return frames_[stacks_.nodes[node].frame]; }

  const FoldedStacks& stacks_;
  TextWriter writer_;
  std::vector<int64_t> weights_;
  std::vector<std::string> frames_;
  std::vector<std::vector<uint32_t>> children_;
};

}  // namespace

absl::Status ExportFolded(const FoldedStacks& stacks, ByteSink& sink, FoldedWeight weight) {
  const bool by_count = weight == FoldedWeight::kCount;
  return FoldedWriter(stacks, by_count ? Counts(stacks) : Microseconds(stacks), sink).Run();
}

}  // namespace proftrace
