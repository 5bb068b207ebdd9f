// Writes the "Call stack" of rows in the chrome trace: the frames of Python that ran when a row
// began, the innermost first, as torch.profiler writes them and TensorBoard's plugin reads them.
// torch also has functions of C, which are not known here.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "userspace/model/timeline.h"

namespace proftrace {

class CallStacks {
 public:
  // `timeline` must outlive this.
  explicit CallStacks(const Timeline& timeline);

  // Returns `"Call stack": "file.py(1): f;file.py(9): main;"` of the span; empty where no stack
  // is known. Valid until the next call.
  std::string_view Of(SpanId span) {
    if (frames_.empty()) return {};
    const StackId stack = timeline_.own_stack_of(span);
    return stack == kNoStack ? std::string_view() : OfStack(stack);
  }
  // Returns the stack of a memory event: its own, or else that of the operator around it. Where no
  // operator is open, Python may have gone on since the last known stack.
  std::string_view Of(const MemoryEvent& event);

 private:
  std::string_view OfStack(StackId stack);

  const Timeline& timeline_;
  std::vector<std::string> frames_;  // by StackId, escaped
  // The texts of the stacks that came first, as long as there is room.
  std::vector<std::string> cached_;
  size_t cache_bytes_ = 0;
  std::string text_;
};

}  // namespace proftrace
