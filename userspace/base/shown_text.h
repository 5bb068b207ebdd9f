// Names that others have chosen (of processes, threads, operators, files, modules, errors), for
// somebody's eyes. A traced program must not be able to command the terminal of whoever traces it,
// nor to make a line look as if it said something else.
#pragma once

#include <string>
#include <string_view>

namespace proftrace {

// Whether terminals take the character (one well-formed sequence of UTF-8) for a command, or show
// nothing, or what is around it in another order: control characters (C0, DEL, C1), controls of
// direction, line and paragraph separators, characters without width, tags.
bool IsUnshowable(std::string_view character);

// Returns the text, on one line: what is unshowable as \n, \x1b, \u202e; what is not UTF-8 as
// U+FFFD.
std::string ShownText(std::string_view text);

// Returns that text with its line ends: for text whose names went through ShownText(), and for
// errors' whole messages.
std::string ShownLines(std::string_view text);

}  // namespace proftrace
