// Makes the cells of the table `events` about Python: module, module_class and stack. Also visits
// each stack once.
#pragma once

#include <absl/functional/function_ref.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "exporters/tables/cell_form.h"
#include "userspace/aggregate/backward_modules.h"
#include "userspace/model/timeline.h"

namespace proftrace {

class PythonCells {
 public:
  // The cells in the form that was passed to the constructor; empty: not known.
  struct Cells {
    std::string_view module;
    std::string_view module_class;
    std::string_view stack;
  };

  // `timeline` must outlive this. Where `used` is not nullptr, stacks are written as their numbers
  // (Raw()), and the element of each written stack is set in `used`, which must outlive this too.
  PythonCells(const Timeline& timeline, CellForm form, std::vector<bool>* used = nullptr);

  // Returns the cells of the span. Valid until the next call. The module is the innermost one in
  // the stack, or that of the forward (BackwardModules); frames are joined by ';', the innermost
  // one last. Must be called for all spans, in the order of their start.
  Cells Of(SpanId id, const Span& span);
  // Returns the cells of a span for which Of() was already called.
  Cells Again(SpanId id);
  // Returns the text of a stack, as in Cells where stacks are written as texts. Valid until the
  // next call.
  std::string_view TextOf(StackId stack);

 private:
  // Returns the cells with the module of `stack` and the stack of the span.
  Cells With(StackId stack, SpanId id);
  std::string_view NumberOf(StackId stack);
  void Build(StackId stack);

  struct ModuleTexts {
    std::string path;
    std::string class_name;
  };

  const Timeline& timeline_;
  CellForm form_;
  std::vector<bool>* used_;
  std::vector<std::string> escaped_frames_;  // by StackId
  std::vector<bool> needs_quotes_;
  std::vector<ModuleTexts> module_texts_;  // by module
  // The texts of the stacks that came first, as long as there is room.
  std::vector<std::string> cached_;
  size_t cache_bytes_ = 0;
  std::string text_;
  std::vector<uint32_t> to_root_;
  BackwardModules backward_;
  std::vector<uint32_t> modules_;  // by StackId: 1 + the module; 0 = none
  // 1 + the stack with the module, for spans whose module is that of another stack
  SpanColumn<uint32_t> stacks_plus_1_;
};

// Calls add(id, text) for each stack that is `used`, in the order of their numbers, until it
// returns false; the text is that of PythonCells.
void ForEachStackText(const Timeline& timeline, CellForm form, const std::vector<bool>& used,
                      absl::FunctionRef<bool(uint32_t id, std::string_view text)> add);

}  // namespace proftrace
