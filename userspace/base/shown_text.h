// Makes names that others have chosen (of processes, threads, operators, files, modules, errors)
// fit to be shown. A traced program must not be able to command the terminal of whoever traces it,
// nor to make a line look as if it said something else.
#pragma once

#include <string>
#include <string_view>

namespace proftrace {

// Whether a terminal takes the character (one well-formed sequence of UTF-8) for a command, shows
// nothing for it, or shows the text around it in another order. This is so for control characters
// (C0, DEL, C1), controls of direction, line and paragraph separators, characters without width,
// and tags.
bool IsUnshowable(std::string_view character);

// Returns the text on one line. Unshowable characters become escapes as \n, \x1b, \u202e; bytes
// that are not UTF-8 become U+FFFD.
std::string ShownText(std::string_view text);

// Returns the same, but keeps line ends: for text whose names went through ShownText() already, and
// for whole messages of errors.
std::string ShownLines(std::string_view text);

}  // namespace proftrace
