#include "exporters/tables/path_cells.h"

namespace proftrace {
namespace {

constexpr size_t kPathCacheBytes = 16 * 1024 * 1024;

}  // namespace

PathCells::PathCells(const Timeline& timeline, CellForm form) : timeline_(timeline), form_(form) {
  for (const Label& label : timeline.labels()) {
    escaped_names_.push_back(form.Escaped(label.name));
    needs_quotes_.push_back(form.NeedsQuotes(label.name));
  }
  cached_.resize(timeline.paths().size());
}

std::string_view PathCells::Of(PathId path) {
  std::string& cached = cached_[Raw(path)];
  if (!cached.empty()) return cached;
  Build(path);
  if (cache_bytes_ + cell_.size() > kPathCacheBytes) return cell_;
  cache_bytes_ += cell_.size();
  cached = cell_;
  return cached;
}

std::string_view PathCells::TakeGuard(std::string_view* text) const {
  const bool is_guarded = text->starts_with(kCsvGuard) && form_.NeedsGuard(text->substr(1));
  const std::string_view guard = text->substr(0, is_guarded ? 1 : 0);
  text->remove_prefix(guard.size());
  return guard;
}

void PathCells::Build(PathId path) {
  labels_to_root_.clear();
  bool needs_quotes = false;
  for (PathId at = path; at != kRootPath; at = timeline_.path(at).parent) {
    const uint32_t label = Raw(timeline_.path(at).label);
    labels_to_root_.push_back(label);
    needs_quotes = needs_quotes || needs_quotes_[label];
  }
  cell_.clear();
  if (needs_quotes) cell_.push_back('"');
  const size_t begin = cell_.size();
  for (size_t i = labels_to_root_.size(); i-- > 0;) {
    cell_ += escaped_names_[labels_to_root_[i]];
    if (i > 0) cell_.push_back('/');
  }
  if (form_.NeedsGuard(std::string_view(cell_).substr(begin))) cell_.insert(begin, 1, kCsvGuard);
  if (needs_quotes) cell_.push_back('"');
}

}  // namespace proftrace
