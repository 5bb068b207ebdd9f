// Names in the four grammars that we write. A name is any bytes that the target had; what is not
// UTF-8, and NUL, becomes U+FFFD, and everything else stays exactly as it was, unless the function
// says otherwise.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace proftrace {

// One U+FFFD for each maximal invalid part, as the Unicode standard recommends and Python decodes.
std::string ToValidUtf8(std::string_view text);

// Without the quotes around it. What a terminal would not show as it is (IsUnshowable()) is written
// as \uXXXX: readers get the same text.
std::string JsonEscaped(std::string_view text);
// With them.
std::string JsonQuoted(std::string_view text);

// The inside of a quoted CSV field (RFC 4180): quotes doubled.
std::string CsvEscaped(std::string_view text);
// Whether a field with this text must stand in quotes.
bool CsvNeedsQuotes(std::string_view text);
// A whole field.
std::string CsvField(std::string_view text);

// A frame of a folded stack: ';' becomes ':', and everything that a reader may take for a line end,
// a space. A blank before a number at the end becomes '_', since flamegraph.pl takes a line's last
// two numbers for two weights. An empty name becomes "[unnamed]", since an empty frame cannot be
// told from none.
std::string FoldedFrame(std::string_view text);

// Number of code points of valid UTF-8: what Python's len() gives.
size_t CodePoints(std::string_view text);
// The first `count` code points of valid UTF-8.
std::string_view FirstCodePoints(std::string_view text, size_t count);

}  // namespace proftrace
