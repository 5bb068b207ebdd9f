// The cells of events.csv that tell of Python: module, module_class, stack.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "exporters/sinks/escape.h"
#include "userspace/aggregate/backward_modules.h"
#include "userspace/model/timeline.h"

namespace proftrace {

class PythonCells {
 public:
  // `timeline` must outlive this.
  PythonCells(const Timeline& timeline, CsvText kind);

  // Returns "module,module_class,stack" of the span, quoted where needed; empty where neither is
  // known. Valid until the next call. The module is the innermost one in the stack, or that of the
  // forward (BackwardModules); frames are joined by ';', the innermost one last. Spans must be
  // asked for in the order of their start, all of them.
  std::string_view Of(SpanId id, const Span& span);
  // Returns the cells of a span that was asked for already.
  std::string_view Again(SpanId id);

 private:
  // Returns the cells with the module of `stack` and the stack of the span.
  std::string_view With(StackId stack, SpanId id);
  std::string_view OfStack(StackId stack);
  void Build(StackId stack);

  const Timeline& timeline_;
  CsvText kind_;
  std::vector<std::string> escaped_frames_;  // by StackId
  std::vector<bool> needs_quotes_;
  std::vector<std::string> module_cells_;  // "module,module_class,", by module
  // The cells of the stacks met first, as long as there is room.
  std::vector<std::string> cached_;
  size_t cache_bytes_ = 0;
  std::string cells_;
  std::vector<uint32_t> to_root_;
  BackwardModules backward_;
  std::vector<uint32_t> modules_;       // by StackId: 1 + the module; 0 = none
  SpanColumn<uint32_t> stacks_plus_1_;  // of spans whose module is another stack's: that
  std::string mixed_;
};

}  // namespace proftrace
