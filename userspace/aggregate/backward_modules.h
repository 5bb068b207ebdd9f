// Finds the nn.Module of backward rows, which is the module of the forward operator that made the
// node.
//
//     evaluate_function: AddmmBackward0    the node's sequence number leads to aten::addmm
//       AddmmBackward0                     the same; torch's own rule for stacks (the first row of
//         aten::mm                         that number) may lead to another one
//       aten::sum                          the engine adds the bias's gradient up: as its row
//     evaluate_function: AccumulateGrad    has no number. The engine runs it next after the node
//       AccumulateGrad                     that made the gradient (it comes first in its queue):
//                                          as that one
#pragma once

#include <cstdint>
#include <vector>

#include "userspace/model/timeline.h"

namespace proftrace {

class BackwardModules {
 public:
  enum class Part : uint8_t { kNone, kOutermost, kInside };  // of the backward pass
  struct Place {
    Part part = Part::kNone;
    // The stack whose innermost module is the row's module.
    StackId stack = kNoStack;
  };

  // `timeline` must outlive this.
  explicit BackwardModules(const Timeline& timeline);

  // Returns the place of a span. Must be called for all spans, in the order of their start.
  Place Of(SpanId id, const Span& span);

 private:
  // The row that the engine ran last on a thread.
  struct Last {
    SpanId parent = kNoSpan;
    StackId stack = kNoStack;
  };
  struct ThreadState {
    std::vector<Place> open;  // by depth
    Last last;
  };

  Place PlaceOf(SpanId id, const Span& span, const Place& around, Last* last) const;

  const Timeline& timeline_;
  std::vector<bool> is_engines_;      // by LabelId: whether it is the engine's row around a node
  std::vector<bool> is_accumulator_;  // by LabelId: whether it is AccumulateGrad
  std::vector<ThreadState> threads_;
};

}  // namespace proftrace
