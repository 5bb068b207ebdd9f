#include "exporters/python_cells.h"

#include "exporters/escape.h"
#include "userspace/aggregate/python_text.h"

namespace proftrace {
namespace {

constexpr size_t kCacheBytes = size_t{32} << 20;

}  // namespace

PythonCells::PythonCells(const Timeline& timeline) : timeline_(timeline) {
  if (!timeline.columns().stack.exists()) return;
  for (uint32_t id = 0; id < timeline.python_frames().size(); ++id) {
    const std::string text = id == 0 ? "" : PythonLineText(timeline, StackId{id});
    escaped_frames_.push_back(CsvEscaped(text));
    needs_quotes_.push_back(CsvNeedsQuotes(text));
  }
  for (const PythonModule& module : timeline.python_modules()) {
    module_cells_.push_back(CsvField(module.path) + "," + CsvField(PythonModuleText(module)) + ",");
  }
  cached_.resize(timeline.python_frames().size());
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
  uint32_t module = 0;
  bool needs_quotes = false;
  for (StackId at = stack; at != kNoStack; at = timeline_.python_frame(at).parent) {
    to_root_.push_back(Raw(at));
    if (module == 0) module = timeline_.python_frame(at).module;
    needs_quotes = needs_quotes || needs_quotes_[Raw(at)];
  }
  cells_ = module == 0 ? ",," : module_cells_[module - 1];
  if (needs_quotes) cells_.push_back('"');
  for (size_t i = to_root_.size(); i-- > 0;) {
    cells_ += escaped_frames_[to_root_[i]];
    if (i > 0) cells_.push_back(';');
  }
  if (needs_quotes) cells_.push_back('"');
}

}  // namespace proftrace
