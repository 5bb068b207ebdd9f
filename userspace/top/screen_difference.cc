#include "userspace/top/screen_difference.h"

namespace proftrace {
namespace {

constexpr char kErase[] = "\x1b[0m\x1b[2J";

std::string_view SequenceOf(TextStyle style, bool with_colours) {
  switch (style) {
    case TextStyle::kPlain:
      return "\x1b[0m";
    case TextStyle::kBold:
      return "\x1b[0;1m";
    case TextStyle::kReverse:
      return "\x1b[0;7m";
    case TextStyle::kGood:
      return with_colours ? "\x1b[0;32m" : "\x1b[0m";
    case TextStyle::kNotable:
      return with_colours ? "\x1b[0;33m" : "\x1b[0m";
    case TextStyle::kBad:
      return with_colours ? "\x1b[0;31m" : "\x1b[0;1m";
    case TextStyle::kTitle:
      return with_colours ? "\x1b[0;36m" : "\x1b[0m";
  }
  return "\x1b[0m";
}

class Painter {
 public:
  explicit Painter(bool with_colours) : with_colours_(with_colours) {}

  // Puts the cells of a row from `from` to `to`.
  void PutRow(const TextGrid& grid, int row, int from, int to) {
    MoveTo(row, from);
    for (int column = from; column < to; ++column) {
      const GridCell& cell = grid.at(row, column);
      if (cell.code == 0) continue;
      if (cell.style != style_ || !has_style_) {
        bytes_ += SequenceOf(cell.style, with_colours_);
        style_ = cell.style;
        has_style_ = true;
      }
      AppendUtf8(cell.code, &bytes_);
      // The terminal may give this character another width than ColumnsOf(), so that the next
      // character is put at its own place.
      const int next = column + ColumnsOf(cell.code);
      if (cell.code >= 0x300 && next < to) MoveTo(row, next);
    }
  }

  std::string Take() {
    if (!bytes_.empty()) bytes_ += SequenceOf(TextStyle::kPlain, with_colours_);
    return std::move(bytes_);
  }

 private:
  void MoveTo(int row, int column) {
    bytes_ += "\x1b[" + std::to_string(row + 1) + ";" + std::to_string(column + 1) + "H";
  }

  bool with_colours_;
  bool has_style_ = false;
  TextStyle style_ = TextStyle::kPlain;
  std::string bytes_;
};

}  // namespace

std::string ScreenDifference(const TextGrid* before, const TextGrid& after, bool with_colours) {
  const bool is_same_size =
      before != nullptr && before->rows() == after.rows() && before->columns() == after.columns();
  const TextGrid empty(after.rows(), after.columns(), after.is_utf8());
  const TextGrid& shown = is_same_size ? *before : empty;
  Painter painter(with_colours);
  for (int row = 0; row < after.rows(); ++row) {
    int from = 0;
    int to = after.columns();
    const auto is_same = [&](int column) { return shown.at(row, column) == after.at(row, column); };
    while (from < to && is_same(from)) ++from;
    while (to > from && is_same(to - 1)) --to;
    // The stretch must neither begin nor end within a wide character of the old or the new row.
    while (from > 0 && from < to &&
           (after.at(row, from).code == 0 || shown.at(row, from).code == 0))
      --from;
    while (to < after.columns() && to > from &&
           (after.at(row, to).code == 0 || shown.at(row, to).code == 0))
      ++to;
    if (from < to) painter.PutRow(after, row, from, to);
  }
  const std::string changes = painter.Take();
  return is_same_size ? changes : kErase + changes;
}

}  // namespace proftrace
