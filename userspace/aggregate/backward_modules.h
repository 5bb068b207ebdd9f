// Finds the nn.Module of backward rows: that of the forward operator which made the node.
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
    // The stack that the row's module is the innermost one of.
    StackId stack = kNoStack;
  };

  // `timeline` must outlive this.
  explicit BackwardModules(const Timeline& timeline);

  // Spans must be asked for in the order of their start, all of them.
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
  std::vector<bool> is_engines_;      // by LabelId: the engine's row around a node
  std::vector<bool> is_accumulator_;  // by LabelId: AccumulateGrad
  std::vector<ThreadState> threads_;
};

}  // namespace proftrace
