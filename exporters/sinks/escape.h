// Writes names in the four grammars of our outputs. A name may be any bytes that the target had.
// Invalid UTF-8 and NUL become U+FFFD; everything else stays exactly as it was, unless the function
// says otherwise.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace proftrace {

// Replaces each maximal invalid part by one U+FFFD, as the Unicode standard recommends and Python
// decodes.
std::string ToValidUtf8(std::string_view text);

// Returns the text as in a JSON string, without the quotes around it. Characters that a terminal
// would not show as they are (IsUnshowable()) are written as \uXXXX, so that readers of the JSON
// get the same text.
std::string JsonEscaped(std::string_view text);
// Returns the text as a JSON string, with the quotes.
std::string JsonQuoted(std::string_view text);

// Returns a JSON document of the same meaning, in which characters that a terminal would not show
// as they are, except line ends between values, are written as \uXXXX.
std::string ShownJson(std::string_view json);

// Returns JSON of the same meaning that is safe inside <script>: without '<' no text can end the
// element or open a comment.
std::string ScriptSafe(std::string_view json);

// Returns the inside of a quoted CSV field (RFC 4180), in which quotes are doubled.
std::string CsvEscaped(std::string_view text);
// Returns whether a CSV field with this text must stand in quotes.
bool CsvNeedsQuotes(std::string_view text);
// Whether a text that somebody else chose may run as a formula where a spreadsheet opens the file.
//   kForSpreadsheets: a field that begins with one of = + - @ (also their wide forms), tab, CR or
//     LF gets an apostrophe in front, and so does a field that begins with apostrophes and then one
//     of these characters. So the text as it was is had back by removing one apostrophe from the
//     front of each field that begins with apostrophes and then one of these; with pandas
//       column.str.replace(r"^'(?='*[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20])", "", regex=True)
//   kExact: every field is the text as it was.
// Numbers are never touched.
enum class CsvText { kForSpreadsheets, kExact };
inline constexpr char kCsvGuard = '\'';
// Returns whether this text, which may already be escaped, needs the apostrophe in front.
bool CsvNeedsGuard(std::string_view text, CsvText kind);
// Returns a whole CSV field.
std::string CsvField(std::string_view text, CsvText kind = CsvText::kForSpreadsheets);

// Returns a frame of a folded stack. ';' becomes ':', and each character that a reader may take for
// a line end becomes a space. A blank before a number at the end becomes '_', because flamegraph.pl
// reads two numbers at a line's end as two weights. An empty name becomes "[unnamed]", because an
// empty frame cannot be told from a missing one.
std::string FoldedFrame(std::string_view text);

// Returns the number of code points of valid UTF-8, as Python's len() does.
size_t CodePoints(std::string_view text);
// Returns the first `count` code points of valid UTF-8.
std::string_view FirstCodePoints(std::string_view text, size_t count);

}  // namespace proftrace
