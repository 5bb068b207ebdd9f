// The cells of events.csv that tell of Python: module, module_class, stack.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "userspace/model/timeline.h"

namespace proftrace {

class PythonCells {
 public:
  // `timeline` must outlive this.
  explicit PythonCells(const Timeline& timeline);

  // "module,module_class,stack" of the span, quoted where needed; nothing where no stack is
  // known. Valid until the next call. The module is the innermost one in the stack; frames are
  // joined by ';', the innermost one last.
  std::string_view Of(SpanId span) {
    const StackId stack = timeline_.stack_of(span);
    return stack == kNoStack ? std::string_view() : OfStack(stack);
  }

 private:
  std::string_view OfStack(StackId stack);
  void Build(StackId stack);

  const Timeline& timeline_;
  std::vector<std::string> escaped_frames_;  // by StackId
  std::vector<bool> needs_quotes_;
  std::vector<std::string> module_cells_;  // "module,module_class,", by module
  // Of the stacks met first, as long as there is room.
  std::vector<std::string> cached_;
  size_t cache_bytes_ = 0;
  std::string cells_;
  std::vector<uint32_t> to_root_;
};

}  // namespace proftrace
