#include "exporters/stacks/folded.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "exporters/sinks/escape.h"
#include "exporters/sinks/text_writer.h"
#include "userspace/base/saturating.h"

namespace proftrace {
namespace {

// Returns nanoseconds as whole microseconds by the largest remainder method. Where remainders are
// equal, earlier lines come first.
std::vector<int64_t> Microseconds(const std::vector<int64_t>& ns,
                                  const std::vector<uint32_t>& positions) {
  std::vector<int64_t> weights(ns.size());
  std::vector<uint32_t> by_remainder(ns.size());
  int64_t total_ns = 0;
  int64_t given = 0;
  for (uint32_t index = 0; index < weights.size(); ++index) {
    weights[index] = ns[index] / 1000;
    by_remainder[index] = index;
    given += weights[index];
    total_ns = SaturatingSum(total_ns, ns[index]);
  }
  std::sort(by_remainder.begin(), by_remainder.end(), [&](uint32_t a, uint32_t b) {
    const int64_t left = ns[a] % 1000;
    const int64_t right = ns[b] % 1000;
    return left != right ? left > right : positions[a] < positions[b];
  });
  const int64_t rest = std::max<int64_t>(SaturatingSum(total_ns, 500) / 1000 - given, 0);
  for (size_t i = 0; i < std::min(static_cast<size_t>(rest), by_remainder.size()); ++i) {
    ++weights[by_remainder[i]];
  }
  return weights;
}

class FoldedWriter {
 public:
  FoldedWriter(const FoldedStacks& stacks, ByteSink& sink) : stacks_(stacks), writer_(sink) {
    frames_.reserve(stacks.frames.size());
    for (const StackFrame& frame : stacks.frames) frames_.push_back(FoldedFrame(frame.name));
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

  // Adds the next number to each line.
  void AddColumn(const StackValues& values) {
    std::vector<int64_t> sums = WithoutDeviceFrames(stacks_, values.self);
    if (InfoOf(values.weight).unit != StackUnit::kNanoseconds) {
      columns_.push_back(std::move(sums));
      return;
    }
    std::vector<uint32_t> positions(sums.size());
    uint32_t next = 0;
    VisitInOrder([&](const std::string&, uint32_t node) { positions[node] = next++; });
    columns_.push_back(Microseconds(sums, positions));
  }

  absl::Status Run() {
    VisitInOrder([this](const std::string& line, uint32_t node) { WriteLine(line, node); });
    return writer_.Flush();
  }

 private:
  // Calls visit(line, node) for all nodes except the root, depth first. There is no recursion,
  // because stacks of a target may have any depth.
  template <typename Visitor>
  void VisitInOrder(Visitor&& visit) {
    struct Open {
      uint32_t node;
      size_t next_child;
      size_t line_bytes;  // the length of the line without this node's frame
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
      visit(line, child);
      open.push_back({child, 0, line_bytes});
    }
  }

  void WriteLine(const std::string& line, uint32_t node) {
    const bool has_weight =
        std::any_of(columns_.begin(), columns_.end(),
                    [node](const std::vector<int64_t>& column) { return column[node] > 0; });
    if (!has_weight) return;
    writer_.Text(line);
    for (const std::vector<int64_t>& column : columns_) {
      writer_.Text(" ");
      writer_.Integer(column[node]);
    }
    writer_.Text("\n");
  }

  const std::string& FrameOf(uint32_t node) const { return frames_[stacks_.nodes[node].frame]; }

  const FoldedStacks& stacks_;
  TextWriter writer_;
  std::vector<std::vector<int64_t>> columns_;
  std::vector<std::string> frames_;
  std::vector<std::vector<uint32_t>> children_;
};

}  // namespace

absl::Status ExportFolded(const FoldedStacks& stacks, StackWeight weight, ByteSink& sink) {
  const absl::StatusOr<const StackValues*> values = RecordedValues(stacks, weight);
  if (!values.ok()) return values.status();
  FoldedWriter writer(stacks, sink);
  writer.AddColumn(**values);
  return writer.Run();
}

absl::Status ExportFoldedDiff(const StackDiff& diff, StackWeight weight, ByteSink& sink) {
  const absl::StatusOr<const StackValues*> after = RecordedValues(diff.after, weight);
  if (!after.ok()) return after.status();
  FoldedWriter writer(diff.after, sink);
  writer.AddColumn(diff.before[static_cast<size_t>(*after - diff.after.values.data())]);
  writer.AddColumn(**after);
  return writer.Run();
}

}  // namespace proftrace
