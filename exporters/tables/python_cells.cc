#include "exporters/tables/python_cells.h"

#include "exporters/sinks/escape.h"
#include "userspace/aggregate/python_text.h"

namespace proftrace {
namespace {

constexpr size_t kCacheBytes = size_t{32} << 20;

}  // namespace

PythonCells::PythonCells(const Timeline& timeline, CsvText kind)
    : timeline_(timeline), kind_(kind), backward_(timeline), stacks_plus_1_("") {
  if (!timeline.columns().stack.exists()) return;
  for (uint32_t id = 0; id < timeline.python_frames().size(); ++id) {
    const std::string text = id == 0 ? "" : PythonLineText(timeline, StackId{id});
    escaped_frames_.push_back(CsvEscaped(text));
    needs_quotes_.push_back(CsvNeedsQuotes(text));
    const PythonFrame& frame = timeline.python_frame(StackId{id});
    modules_.push_back(frame.module != 0 || id == 0 ? frame.module : modules_[Raw(frame.parent)]);
  }
  for (const PythonModule& module : timeline.python_modules()) {
    module_cells_.push_back(CsvField(module.path, kind) + "," +
                            CsvField(PythonModuleText(module), kind) + ",");
  }
  cached_.resize(timeline.python_frames().size());
}

std::string_view PythonCells::Of(SpanId id, const Span& span) {
  if (modules_.empty()) return {};
  const StackId stack = backward_.Of(id, span).stack;
  // A full disk costs rows of the kernel's the module of what they lie in.
  if (stack != timeline_.stack_of(id)) (void)stacks_plus_1_.Set(id, Raw(stack) + 1);
  return With(stack, id);
}

std::string_view PythonCells::Again(SpanId id) {
  if (modules_.empty()) return {};
  const uint32_t plus_1 = stacks_plus_1_.at(id);
  return With(plus_1 == 0 ? timeline_.stack_of(id) : StackId{plus_1 - 1}, id);
}

std::string_view PythonCells::With(StackId stack, SpanId id) {
  const StackId own = timeline_.stack_of(id);
  const std::string_view cells = own == kNoStack ? std::string_view() : OfStack(own);
  const uint32_t module = modules_[Raw(stack)];
  const uint32_t of_own = modules_[Raw(own)];
  if (module == of_own || module == 0) return cells;
  mixed_ = module_cells_[module - 1];
  if (own != kNoStack) mixed_ += cells.substr(of_own == 0 ? 2 : module_cells_[of_own - 1].size());
  return mixed_;
}

std::string_view PythonCells::OfStack(StackId stack) {
  std::string& cached = cached_[Raw(stack)];
  if (!cached.empty()) return cached;
  Build(stack);
  if (cache_bytes_ + cells_.size() > kCacheBytes) return cells_;
  cache_bytes_ += cells_.size();
  cached = cells_;
  return cached;
}

void PythonCells::Build(StackId stack) {
  to_root_.clear();
  bool needs_quotes = false;
  for (StackId at = stack; at != kNoStack; at = timeline_.python_frame(at).parent) {
    to_root_.push_back(Raw(at));
    needs_quotes = needs_quotes || needs_quotes_[Raw(at)];
  }
  const uint32_t module = modules_[Raw(stack)];
  cells_ = module == 0 ? ",," : module_cells_[module - 1];
  if (needs_quotes) cells_.push_back('"');
  const size_t begin = cells_.size();
  for (size_t i = to_root_.size(); i-- > 0;) {
    cells_ += escaped_frames_[to_root_[i]];
    if (i > 0) cells_.push_back(';');
  }
  if (CsvNeedsGuard(std::string_view(cells_).substr(begin), kind_)) {
    cells_.insert(begin, 1, kCsvGuard);
  }
  if (needs_quotes) cells_.push_back('"');
}

}  // namespace proftrace
