#include "userspace/aggregate/bound_stacks.h"

#include <absl/container/flat_hash_map.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>
#include <vector>

#include "userspace/base/saturating.h"

namespace proftrace {
namespace {

// Returns for each node the largest of its shares of the totals of the weights, with the nodes
// below it included. Nodes without any weight come after all others, ordered by their count.
std::vector<double> Shares(const FoldedStacks& stacks) {
  std::vector<double> shares(stacks.nodes.size());
  for (const StackValues& values : stacks.values) {
    if (values.total <= 0) continue;
    std::vector<double> sums(values.self.begin(), values.self.end());
    for (size_t node = sums.size(); node-- > 1;) sums[stacks.nodes[node].parent] += sums[node];
    for (size_t node = 0; node < sums.size(); ++node) {
      shares[node] = std::max(shares[node], sums[node] / static_cast<double>(values.total));
    }
  }
  return shares;
}

class Bounder {
 public:
  Bounder(size_t most, FoldedStacks* stacks) : from_(*stacks), places_(from_.nodes.size()) {
    const std::vector<double> shares = Shares(from_);
    std::vector<uint32_t> order(from_.nodes.size() - 1);
    std::iota(order.begin(), order.end(), 1);
    std::stable_sort(order.begin(), order.end(),
                     [&](uint32_t a, uint32_t b) { return shares[a] > shares[b]; });
    order.resize(std::min(order.size(), most));
    is_kept_.resize(from_.nodes.size());
    is_kept_[0] = true;
    for (const uint32_t node : order) is_kept_[node] = true;
  }

  FoldedStacks Run() {
    to_.nodes.push_back(from_.nodes[0]);
    for (uint32_t node = 1; node < from_.nodes.size(); ++node) Place(node);
    for (const auto& [above, others] : others_) {
      StackFrame frame{OthersName(others.count), FrameKind::kAnnotation, {}, 0};
      to_.nodes[others.node].frame = static_cast<uint32_t>(to_.frames.size());
      to_.frames.push_back(std::move(frame));
    }
    for (const StackValues& values : from_.values) {
      StackValues& sums = to_.values.emplace_back();
      sums.weight = values.weight;
      sums.total = values.total;
      sums.self.resize(to_.nodes.size());
      for (uint32_t node = 0; node < values.self.size(); ++node) {
        int64_t& sum = sums.self[places_[node]];
        sum = SaturatingSum(sum, values.self[node]);
      }
    }
    return std::move(to_);
  }

 private:
  struct Others {
    uint32_t node = 0;
    uint64_t count = 0;  // the number of children that are left out
  };

  // Gives a node its place in the new tree. Its parent must already have one.
  void Place(uint32_t node) {
    const StackNode& source = from_.nodes[node];
    const uint32_t above = places_[source.parent];
    const bool is_above_kept = is_kept_[source.parent];
    if (is_kept_[node] && is_above_kept) {
      places_[node] = static_cast<uint32_t>(to_.nodes.size());
      to_.nodes.push_back({above, FrameOf(source.frame), source.count});
      return;
    }
    is_kept_[node] = false;
    places_[node] = above;
    if (is_above_kept) {
      const auto [it, is_new] =
          others_.try_emplace(above, Others{static_cast<uint32_t>(to_.nodes.size()), 0});
      if (is_new) to_.nodes.push_back({above, 0, 0});
      ++it->second.count;
      places_[node] = it->second.node;
    }
    to_.nodes[places_[node]].count += source.count;
  }

  uint32_t FrameOf(uint32_t frame) {
    const auto [it, is_new] = frames_.try_emplace(frame, static_cast<uint32_t>(to_.frames.size()));
    if (is_new) to_.frames.push_back(from_.frames[frame]);
    return it->second;
  }

  const FoldedStacks& from_;
  std::vector<uint32_t> places_;  // in the new tree, by node
  std::vector<bool> is_kept_;
  FoldedStacks to_;
  std::map<uint32_t, Others> others_;  // by the node above, in the new tree
  absl::flat_hash_map<uint32_t, uint32_t> frames_;
};

}  // namespace

std::string OthersName(uint64_t count) {
  return "… and " + std::to_string(count) + (count == 1 ? " other" : " others");
}

void BoundStacks(size_t most, FoldedStacks* stacks) {
  if (stacks->nodes.size() <= most + 1) return;
  *stacks = Bounder(most, stacks).Run();
}

}  // namespace proftrace
