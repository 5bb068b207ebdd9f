#include "userspace/aggregate/module_times.h"

#include <algorithm>
#include <cstdint>

#include "userspace/aggregate/each_span.h"
#include "userspace/base/saturating.h"

namespace proftrace {
namespace {

void Add(int64_t more, int64_t* sum) { *sum = SaturatingSum(*sum, more); }

// What spans did, by the stack that they have.
struct StackSums {
  int64_t backward_ns = 0;
  uint64_t operators = 0;
  int64_t cpu_memory_bytes = 0;
};

// Whether spans are, or lie in, a node of the backward pass: asked in the order of their start. The
// engine's row around a node (evaluate_function) knows the node's forward, too, but its stack is
// that of the call of backward().
class BackwardSpans {
 public:
  enum class Part : uint8_t { kNone, kEngine, kNode, kInside };

  explicit BackwardSpans(const Timeline& timeline)
      : timeline_(timeline), parts_(timeline.threads().size()) {}

  Part Of(SpanId id, const Span& span) {
    std::vector<Part>& open = parts_[Raw(span.thread)];
    // Spans of the thread are in the order of their start, so the parent was the last of its depth.
    const bool has_parent = span.parent != kNoSpan && span.depth > 0 && span.depth <= open.size();
    open.resize(span.depth + 1u, Part::kNone);
    open[span.depth] = PartOf(id, span, has_parent ? open[span.depth - 1u] : Part::kNone);
    return open[span.depth];
  }

 private:
  Part PartOf(SpanId id, const Span& span, Part around) const {
    if (around == Part::kNode || around == Part::kInside) return Part::kInside;
    if (!timeline_.columns().sequence.at(id).is_backward()) return around;
    const bool is_node = timeline_.label(span.label).scope == Scope::kBackwardFunction;
    return is_node ? Part::kNode : Part::kEngine;
  }

  const Timeline& timeline_;
  std::vector<std::vector<Part>> parts_;  // by thread and depth
};

// Of the operator that made it. torch's rule for stacks takes the first one of its number, which an
// operator that makes no node has, too (zero_grad's aten::zero_).
StackId StackOfNode(const Timeline& timeline, SpanId node) {
  const uint32_t forward = timeline.columns().sequence.at(node).forward_plus_1;
  return forward == 0 ? timeline.stack_of(node) : timeline.own_stack_of(SpanId{forward - 1});
}

std::vector<StackSums> SumStacks(const Timeline& timeline) {
  std::vector<StackSums> sums(timeline.python_frames().size());
  BackwardSpans backward(timeline);
  ForEachSpan(timeline, [&](SpanId id, const Span& span) {
    if (span.is_apart) return;
    const BackwardSpans::Part part = backward.Of(id, span);
    if (!span.is_complete()) return;
    if (part == BackwardSpans::Part::kNode) {
      Add(span.duration_ns, &sums[Raw(StackOfNode(timeline, id))].backward_ns);
    }
    if (part != BackwardSpans::Part::kNone) return;
    StackSums& sum = sums[Raw(timeline.stack_of(id))];
    if (timeline.label(span.label).kind == SpanKind::kOperator) ++sum.operators;
    Add(timeline.columns().memory.at(id).self_cpu_bytes, &sum.cpu_memory_bytes);
  });
  return sums;
}

// Each stack's sums to all modules in it, to each once.
void AddStacks(const Timeline& timeline, const std::vector<StackSums>& sums, ModuleSums* result) {
  std::vector<uint32_t> met;  // the modules of a stack
  for (uint32_t stack = 1; stack < sums.size(); ++stack) {
    const StackSums& sum = sums[stack];
    if (sum.backward_ns == 0 && sum.operators == 0 && sum.cpu_memory_bytes == 0) continue;
    met.clear();
    for (StackId at{stack}; at != kNoStack; at = timeline.python_frame(at).parent) {
      const uint32_t number = timeline.python_frame(at).module;
      if (number == 0 || std::find(met.begin(), met.end(), number) != met.end()) continue;
      ModuleTimes& module = result->modules[number - 1];
      Add(sum.backward_ns, &module.backward_ns);
      if (met.empty()) Add(sum.backward_ns, &module.self_backward_ns);
      module.operators += sum.operators;
      Add(sum.cpu_memory_bytes, &module.cpu_memory_bytes);
      met.push_back(number);
    }
    if (!met.empty()) Add(sum.backward_ns, &result->total_ns);
  }
}

struct OpenCall {
  uint32_t row = 0;
  uint32_t module = 0;  // + 1
};

void AddCalls(const Timeline& timeline, const PythonRows& rows, ModuleSums* result) {
  std::vector<std::vector<OpenCall>> open_calls(timeline.threads().size());
  for (uint32_t i = 0; i < rows.size(); ++i) {
    const PythonRow& row = rows.at(i);
    const uint32_t number = timeline.python_frame(row.frame).module;
    if (number == 0) continue;
    std::vector<OpenCall>& open = open_calls[Raw(row.thread)];
    while (!open.empty() && rows.at(open.back().row).end_ns <= row.start_ns) open.pop_back();
    const int64_t duration_ns = row.end_ns - row.start_ns;
    ModuleTimes& module = result->modules[number - 1];
    ++module.calls;
    Add(duration_ns, &module.self_forward_ns);
    const bool is_recursive = std::any_of(
        open.begin(), open.end(), [&](const OpenCall& call) { return call.module == number; });
    if (!is_recursive) Add(duration_ns, &module.forward_ns);
    if (open.empty()) {
      Add(duration_ns, &result->total_ns);
    } else {
      Add(-duration_ns, &result->modules[open.back().module - 1].self_forward_ns);
    }
    open.push_back({i, number});
  }
}

}  // namespace

ModuleSums SumModules(const Timeline& timeline, const PythonRows& rows) {
  ModuleSums result;
  result.modules.resize(timeline.python_modules().size());
  AddStacks(timeline, SumStacks(timeline), &result);
  AddCalls(timeline, rows, &result);
  return result;
}

}  // namespace proftrace
