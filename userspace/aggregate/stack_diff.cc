#include "userspace/aggregate/stack_diff.h"

#include <absl/container/flat_hash_map.h>

#include <algorithm>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "userspace/base/saturating.h"
#include "userspace/base/text.h"

namespace proftrace {
namespace {

using FrameKey = std::pair<std::string_view, FrameKind>;

// Returns the part of a function's frame that stays the same when the function moves in its file:
// "model.py(12): forward" without the number. Frames of C have a file too, but it is not in their
// name.
std::string PlaceOfFunction(const StackFrame& frame) {
  std::string_view rest = frame.name;
  ConsumeText(&rest, frame.file);
  const size_t end = rest.find("): ");
  return frame.file + '\0' + std::string(end == std::string_view::npos ? rest : rest.substr(end));
}

struct MovedFunctions {
  std::vector<uint32_t> before;
  std::vector<uint32_t> after;
};

class StackPairing {
 public:
  StackPairing(const FoldedStacks& before, StackDiff* diff) : before_(before), diff_(*diff) {}

  void Run() {
    PairFrames();
    PairNodes();
    AddValues();
  }

 private:
  // Fills frame_of_ with the frames of the earlier recording among all frames.
  void PairFrames() {
    std::vector<StackFrame>& frames = diff_.after.frames;
    std::vector<bool> is_paired(frames.size());
    std::map<FrameKey, uint32_t> by_name;
    for (uint32_t i = 0; i < frames.size(); ++i) {
      by_name.emplace(FrameKey(frames[i].name, frames[i].kind), i);
    }
    std::map<std::string, MovedFunctions> moved;
    frame_of_.assign(before_.frames.size(), kNone);
    for (uint32_t i = 0; i < before_.frames.size(); ++i) {
      const StackFrame& frame = before_.frames[i];
      const auto found = by_name.find(FrameKey(frame.name, frame.kind));
      if (found != by_name.end()) {
        frame_of_[i] = found->second;
        is_paired[found->second] = true;
      } else if (!frame.file.empty()) {
        moved[PlaceOfFunction(frame)].before.push_back(i);
      }
    }
    for (uint32_t i = 0; i < is_paired.size(); ++i) {
      if (is_paired[i] || frames[i].file.empty()) continue;
      const auto found = moved.find(PlaceOfFunction(frames[i]));
      if (found != moved.end()) found->second.after.push_back(i);
    }
    for (auto& [place, functions] : moved) PairMoved(&functions);
    for (uint32_t i = 0; i < frame_of_.size(); ++i) {
      if (frame_of_[i] != kNone) continue;
      frame_of_[i] = static_cast<uint32_t>(frames.size());
      frames.push_back(before_.frames[i]);
    }
  }

  void PairMoved(MovedFunctions* functions) {
    if (functions->before.size() != functions->after.size()) return;
    const auto by_line = [](const std::vector<StackFrame>& frames) {
      return [&frames](uint32_t a, uint32_t b) { return frames[a].line < frames[b].line; };
    };
    std::sort(functions->before.begin(), functions->before.end(), by_line(before_.frames));
    std::sort(functions->after.begin(), functions->after.end(), by_line(diff_.after.frames));
    for (size_t i = 0; i < functions->before.size(); ++i) {
      frame_of_[functions->before[i]] = functions->after[i];
    }
  }

  // Fills node_of_ with the nodes of the earlier recording among all nodes.
  void PairNodes() {
    std::vector<StackNode>& nodes = diff_.after.nodes;
    absl::flat_hash_map<uint64_t, uint32_t> ids;
    const auto key = [](const StackNode& node) { return uint64_t{node.parent} << 32 | node.frame; };
    for (uint32_t i = 1; i < nodes.size(); ++i) ids[key(nodes[i])] = i;
    node_of_.resize(before_.nodes.size());
    for (uint32_t i = 1; i < before_.nodes.size(); ++i) {
      const StackNode node{node_of_[before_.nodes[i].parent], frame_of_[before_.nodes[i].frame], 0};
      const auto [it, inserted] = ids.try_emplace(key(node), static_cast<uint32_t>(nodes.size()));
      if (inserted) nodes.push_back(node);
      node_of_[i] = it->second;
    }
    diff_.before_counts.resize(nodes.size());
    for (uint32_t i = 1; i < before_.nodes.size(); ++i) {
      diff_.before_counts[node_of_[i]] += before_.nodes[i].count;
    }
  }

  void AddValues() {
    std::erase_if(diff_.after.values, [this](const StackValues& values) {
      return before_.Find(values.weight) == nullptr;
    });
    for (StackValues& values : diff_.after.values) {
      values.self.resize(diff_.after.nodes.size());
      const StackValues& source = *before_.Find(values.weight);
      StackValues before{source.weight, std::vector<int64_t>(diff_.after.nodes.size()),
                         source.total};
      for (uint32_t i = 0; i < before_.nodes.size(); ++i) {
        int64_t& self = before.self[node_of_[i]];
        self = SaturatingSum(self, source.self[i]);
      }
      diff_.before.push_back(std::move(before));
    }
  }

  static constexpr uint32_t kNone = 0xffffffffu;

  const FoldedStacks& before_;
  StackDiff& diff_;
  std::vector<uint32_t> frame_of_;
  std::vector<uint32_t> node_of_;
};

}  // namespace

StackDiff DiffStacks(const FoldedStacks& before, const FoldedStacks& after) {
  StackDiff diff;
  diff.after = after;
  StackPairing(before, &diff).Run();
  return diff;
}

}  // namespace proftrace
