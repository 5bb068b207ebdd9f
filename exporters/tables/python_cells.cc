#include "exporters/tables/python_cells.h"

#include "userspace/aggregate/python_text.h"

namespace proftrace {
namespace {

constexpr size_t kCacheBytes = size_t{32} << 20;

}  // namespace

PythonCells::PythonCells(const Timeline& timeline, CellForm form, std::vector<bool>* used)
    : timeline_(timeline), form_(form), used_(used), backward_(timeline), stacks_plus_1_("") {
  if (!timeline.columns().stack.exists()) return;
  for (uint32_t id = 0; id < timeline.python_frames().size(); ++id) {
    const std::string text = id == 0 ? "" : PythonLineText(timeline, StackId{id});
    escaped_frames_.push_back(form.Escaped(text));
    needs_quotes_.push_back(form.NeedsQuotes(text));
    const PythonFrame& frame = timeline.python_frame(StackId{id});
    modules_.push_back(frame.module != 0 || id == 0 ? frame.module : modules_[Raw(frame.parent)]);
  }
  for (const PythonModule& module : timeline.python_modules()) {
    module_texts_.push_back({form.Cell(module.path), form.Cell(PythonModuleText(module))});
  }
  cached_.resize(timeline.python_frames().size());
}

PythonCells::Cells PythonCells::Of(SpanId id, const Span& span) {
  if (modules_.empty()) return {};
  const StackId stack = backward_.Of(id, span).stack;
  // Where the disk is full, rows of the kernel lose the module of the span around them.
  if (stack != timeline_.stack_of(id)) (void)stacks_plus_1_.Set(id, Raw(stack) + 1);
  return With(stack, id);
}

PythonCells::Cells PythonCells::Again(SpanId id) {
  if (modules_.empty()) return {};
  const uint32_t plus_1 = stacks_plus_1_.at(id);
  return With(plus_1 == 0 ? timeline_.stack_of(id) : StackId{plus_1 - 1}, id);
}

PythonCells::Cells PythonCells::With(StackId stack, SpanId id) {
  const StackId own = timeline_.stack_of(id);
  Cells cells;
  if (own != kNoStack) cells.stack = used_ != nullptr ? NumberOf(own) : TextOf(own);
  uint32_t module = modules_[Raw(stack)];
  if (module == 0) module = modules_[Raw(own)];
  if (module == 0) return cells;
  const ModuleTexts& texts = module_texts_[module - 1];
  cells.module = texts.path;
  cells.module_class = texts.class_name;
  return cells;
}

std::string_view PythonCells::NumberOf(StackId stack) {
  if (used_->size() <= Raw(stack)) used_->resize(timeline_.python_frames().size());
  (*used_)[Raw(stack)] = true;
  text_ = std::to_string(Raw(stack));
  return text_;
}

std::string_view PythonCells::TextOf(StackId stack) {
  std::string& cached = cached_[Raw(stack)];
  if (!cached.empty()) return cached;
  Build(stack);
  if (cache_bytes_ + text_.size() > kCacheBytes) return text_;
  cache_bytes_ += text_.size();
  cached = text_;
  return cached;
}

void PythonCells::Build(StackId stack) {
  to_root_.clear();
  bool needs_quotes = false;
  for (StackId at = stack; at != kNoStack; at = timeline_.python_frame(at).parent) {
    to_root_.push_back(Raw(at));
    needs_quotes = needs_quotes || needs_quotes_[Raw(at)];
  }
  text_.clear();
  if (needs_quotes) text_.push_back('"');
  const size_t begin = text_.size();
  for (size_t i = to_root_.size(); i-- > 0;) {
    text_ += escaped_frames_[to_root_[i]];
    if (i > 0) text_.push_back(';');
  }
  if (form_.NeedsGuard(std::string_view(text_).substr(begin))) {
    text_.insert(begin, 1, kCsvGuard);
  }
  if (needs_quotes) text_.push_back('"');
}

void ForEachStackText(const Timeline& timeline, CellForm form, const std::vector<bool>& used,
                      absl::FunctionRef<bool(uint32_t id, std::string_view text)> add) {
  PythonCells cells(timeline, form);
  for (uint32_t id = 0; id < used.size(); ++id) {
    if (used[id] && !add(id, cells.TextOf(StackId{id}))) return;
  }
}

}  // namespace proftrace
