// Makes the cells of the table `events` that hold a path: the names from the root, joined by '/'.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "exporters/tables/cell_form.h"
#include "userspace/model/timeline.h"

namespace proftrace {

class PathCells {
 public:
  // `timeline` must outlive this.
  PathCells(const Timeline& timeline, CellForm form);

  // Returns the cell of a path, quoted where needed, and guarded. Valid until the next call.
  std::string_view Of(PathId path);
  // Removes the guard for spreadsheets from the front of a cell's text, without its quote, and
  // returns the guard.
  std::string_view TakeGuard(std::string_view* text) const;

 private:
  void Build(PathId path);

  const Timeline& timeline_;
  CellForm form_;
  std::vector<std::string> escaped_names_;  // by label
  std::vector<bool> needs_quotes_;
  // The cells of the paths that came first, as long as there is room.
  std::vector<std::string> cached_;
  size_t cache_bytes_ = 0;
  std::vector<uint32_t> labels_to_root_;
  std::string cell_;
};

}  // namespace proftrace
