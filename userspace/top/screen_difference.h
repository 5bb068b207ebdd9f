// Turns grids into what a terminal understands: the sequences that VT100 and all after it know
// (ECMA-48), for the cells that differ.
#pragma once

#include <string>

#include "userspace/top/text_grid.h"

namespace proftrace {

// Begin and end of the screen: the terminal's other page, without a cursor. What was on the first
// page is there again afterwards. The end also ends a sequence that was cut off.
inline constexpr char kEnterScreen[] = "\x1b[?1049h\x1b[?25l\x1b[2J";
inline constexpr char kLeaveScreen[] = "\x18\x1b[0m\x1b[?25h\x1b[?1049l";

// Returns what makes the screen that shows `before` show `after`; nullptr: it shows anything, and
// is drawn whole. `with_colours`: false: colours are left out, bold and reverse are not.
std::string ScreenDifference(const TextGrid* before, const TextGrid& after, bool with_colours);

}  // namespace proftrace
