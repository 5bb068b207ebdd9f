// Names in the four grammars that we write. A name is any bytes that the target had; what is not
// UTF-8, and NUL, becomes U+FFFD, and everything else stays exactly as it was, unless the function
// says otherwise.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace proftrace {

// Puts one U+FFFD for each maximal invalid part, as the Unicode standard recommends and Python
// decodes.
std::string ToValidUtf8(std::string_view text);

// Returns the text as in a JSON string, without the quotes around it. What a terminal would not
// show as it is (IsUnshowable()) is written as \uXXXX: readers get the same text.
std::string JsonEscaped(std::string_view text);
// Returns the same with the quotes.
std::string JsonQuoted(std::string_view text);

// Returns a JSON document in which what a terminal would not show as it is, but line ends between
// values, is written as \uXXXX: a document of the same meaning.
std::string ShownJson(std::string_view json);

// Returns the inside of a quoted CSV field (RFC 4180): quotes doubled.
std::string CsvEscaped(std::string_view text);
// Whether a field with this text must stand in quotes.
bool CsvNeedsQuotes(std::string_view text);
// Whether text that was made up by others may run as a formula where a spreadsheet opens the file.
//   kForSpreadsheets: a field that begins with one of = + - @ (also their wide forms), tab, CR or
//   LF
//     gets an apostrophe in front, and so does one that begins with apostrophes and then one of
//     those. So what was there is had back by taking one apostrophe from the front of each field
//     that begins with apostrophes and then one of those; with pandas
//       column.str.replace(r"^'(?='*[=+\-@\t\r\n\uff1d\uff0b\uff0d\uff20])", "", regex=True)
//   kExact: every field is the text as it was.
// Numbers are never touched.
enum class CsvText { kForSpreadsheets, kExact };
inline constexpr char kCsvGuard = '\'';
// Whether the apostrophe stands in front of this text, which may be escaped already.
bool CsvNeedsGuard(std::string_view text, CsvText kind);
// Returns a whole field.
std::string CsvField(std::string_view text, CsvText kind = CsvText::kForSpreadsheets);

// Returns a frame of a folded stack: ';' becomes ':', and everything that a reader may take for a
// line end, a space. A blank before a number at the end becomes '_', since flamegraph.pl takes a
// line's last two numbers for two weights. An empty name becomes "[unnamed]", since an empty frame
// cannot be told from none.
std::string FoldedFrame(std::string_view text);

// Returns the number of code points of valid UTF-8: what Python's len() gives.
size_t CodePoints(std::string_view text);
// Returns the first `count` code points of valid UTF-8.
std::string_view FirstCodePoints(std::string_view text, size_t count);

}  // namespace proftrace
