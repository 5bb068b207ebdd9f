// Turns the cells in which two grids differ into sequences for a terminal (ECMA-48), as VT100 and
// all later terminals know them.
#pragma once

#include <string>

#include "userspace/top/text_grid.h"

namespace proftrace {

// Sequences that begin and end the screen. The screen is the terminal's alternate page, without a
// cursor, so that the first page is as it was afterwards. kLeaveScreen also ends a sequence that
// was cut off.
inline constexpr char kEnterScreen[] = "\x1b[?1049h\x1b[?25l\x1b[2J";
inline constexpr char kLeaveScreen[] = "\x18\x1b[0m\x1b[?25h\x1b[?1049l";

// Returns the bytes that make a screen with `before` on it show `after`. `before`: nullptr where
// the screen may show anything; all of it is drawn then. `with_colours`: false leaves out colours,
// but not bold and reverse.
std::string ScreenDifference(const TextGrid* before, const TextGrid& after, bool with_colours);

}  // namespace proftrace
