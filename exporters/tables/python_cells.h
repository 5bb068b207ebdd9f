// The cells of the table `events` that tell of Python: module, module_class, stack. And the stacks,
// each once.
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
  // Texts in the form that the constructor was given; empty where nothing is known.
  struct Cells {
    std::string_view module;
    std::string_view module_class;
    std::string_view stack;
  };

  // `timeline` must outlive this. `used`: not null: stacks are told by their numbers (Raw()), and
  // each that is has its place set; it must outlive this, too.
  PythonCells(const Timeline& timeline, CellForm form, std::vector<bool>* used = nullptr);

  // Returns the cells of the span. Valid until the next call. The module is the innermost one in
  // the stack, or that of the forward (BackwardModules); frames are joined by ';', the innermost
  // one last. Spans must be asked for in the order of their start, all of them.
  Cells Of(SpanId id, const Span& span);
  // Returns the cells of a span that was asked for already.
  Cells Again(SpanId id);
  // Returns a stack as Cells have it where stacks are told by their text. Valid until the next
  // call.
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
  // The stacks met first, as long as there is room.
  std::vector<std::string> cached_;
  size_t cache_bytes_ = 0;
  std::string text_;
  std::vector<uint32_t> to_root_;
  BackwardModules backward_;
  std::vector<uint32_t> modules_;       // by StackId: 1 + the module; 0 = none
  SpanColumn<uint32_t> stacks_plus_1_;  // of spans whose module is another stack's: that
};

// Calls add(id, text) for each stack that is `used`, in the order of their numbers, until it
// returns false; the text is that of PythonCells.
void ForEachStackText(const Timeline& timeline, CellForm form, const std::vector<bool>& used,
                      absl::FunctionRef<bool(uint32_t id, std::string_view text)> add);

}  // namespace proftrace
