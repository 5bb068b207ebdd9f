#include "exporters/sinks/escape.h"

#include <algorithm>
#include <optional>

#include "userspace/base/shown_text.h"
#include "userspace/base/utf8.h"

namespace proftrace {
namespace {

constexpr char kHexDigits[] = "0123456789abcdef";

bool IsContinuation(unsigned char byte) { return (byte & 0xC0) == 0x80; }

bool IsControl(std::string_view character) {
  if (character.size() == 1) {
    const unsigned char byte = static_cast<unsigned char>(character[0]);
    return byte < 0x20 || byte == 0x7F;
  }
  // U+0080 to U+009F: terminals take some of them for escape sequences.
  return character.size() == 2 && character[0] == '\xC2' &&
         static_cast<unsigned char>(character[1]) < 0xA0;
}

void AppendJsonUnit(char32_t unit, std::string* text) {
  *text += "\\u";
  for (int shift = 12; shift >= 0; shift -= 4) text->push_back(kHexDigits[unit >> shift & 15]);
}

// Appends a character as JSON's escapes, which are units of UTF-16.
void AppendJsonCode(char32_t code, std::string* text) {
  if (code >= 0x10000) {
    AppendJsonUnit(0xD800 + ((code - 0x10000) >> 10), text);
    code = 0xDC00 + ((code - 0x10000) & 0x3FF);
  }
  AppendJsonUnit(code, text);
}

// Returns whether a spreadsheet may take the text for a formula, by its first byte. That may also
// be a character that spreadsheets skip before a formula.
bool MayBeginFormula(std::string_view text) {
  if (text.empty()) return false;
  if (std::string_view("=+-@\t\r\n").find(text[0]) != std::string_view::npos) return true;
  // These are the wide forms of the four characters, which Excel accepts too.
  for (const std::string_view wide :
       {"\xEF\xBC\x9D", "\xEF\xBC\x8B", "\xEF\xBC\x8D", "\xEF\xBC\xA0"}) {
    if (text.starts_with(wide)) return true;
  }
  return false;
}

}  // namespace

std::string ToValidUtf8(std::string_view text) {
  std::string valid;
  valid.reserve(text.size());
  ForEachCharacter(text, [&](std::string_view character) { valid += character; });
  return valid;
}

std::string JsonEscaped(std::string_view text) {
  std::string escaped;
  escaped.reserve(text.size() + 8);
  ForEachCharacter(text, [&](std::string_view character) {
    const unsigned char byte = static_cast<unsigned char>(character[0]);
    if (byte == '"' || byte == '\\') {
      escaped.push_back('\\');
      escaped.push_back(character[0]);
    } else if (byte == '\n') {
      escaped += "\\n";
    } else if (byte == '\t') {
      escaped += "\\t";
    } else if (byte == '\r') {
      escaped += "\\r";
    } else if (IsUnshowable(character)) {
      AppendJsonCode(CodePointOf(character), &escaped);
    } else {
      escaped += character;
    }
  });
  return escaped;
}

std::string ShownJson(std::string_view json) {
  std::string shown;
  shown.reserve(json.size());
  ForEachCharacter(json, [&](std::string_view character) {
    if (IsUnshowable(character) && character != "\n") {
      AppendJsonCode(CodePointOf(character), &shown);
    } else {
      shown += character;
    }
  });
  return shown;
}

std::string ScriptSafe(std::string_view json) {
  std::string safe;
  safe.reserve(json.size());
  for (const char c : json) {
    if (c == '<') {
      safe += "\\u003c";
    } else {
      safe.push_back(c);
    }
  }
  return safe;
}

std::string JsonQuoted(std::string_view text) { return "\"" + JsonEscaped(text) + "\""; }

std::string CsvEscaped(std::string_view text) {
  std::string escaped;
  escaped.reserve(text.size() + 8);
  ForEachCharacter(text, [&](std::string_view character) {
    if (character == "\"") escaped.push_back('"');
    escaped += character;
  });
  return escaped;
}

bool CsvNeedsQuotes(std::string_view text) {
  return text.find_first_of(",\"\r\n") != std::string_view::npos;
}

bool CsvNeedsGuard(std::string_view text, CsvText kind) {
  if (kind == CsvText::kExact) return false;
  return MayBeginFormula(text.substr(std::min(text.find_first_not_of(kCsvGuard), text.size())));
}

std::string CsvField(std::string_view text, CsvText kind) {
  std::string field = CsvEscaped(text);
  if (CsvNeedsGuard(text, kind)) field.insert(field.begin(), kCsvGuard);
  if (!CsvNeedsQuotes(text)) return field;
  field.insert(field.begin(), '"');
  field.push_back('"');
  return field;
}

namespace {

size_t WithoutLastDigits(std::string_view text) {
  size_t size = text.size();
  while (size > 0 && text[size - 1] >= '0' && text[size - 1] <= '9') --size;
  return size;
}

// Returns the place of the blank before a number at the end ("epoch 3", "lr 0.5"), because
// flamegraph.pl would take the number for a weight. nullopt: there is no such number.
std::optional<size_t> BlankBeforeLastNumber(std::string_view text) {
  size_t start = WithoutLastDigits(text);
  if (start > 0 && text[start - 1] == '.') {
    const size_t whole = WithoutLastDigits(text.substr(0, start - 1));
    if (whole < start - 1) start = whole;
  }
  if (start == text.size() || start == 0 || text[start - 1] != ' ') return std::nullopt;
  return start - 1;
}

}  // namespace

std::string FoldedFrame(std::string_view text) {
  if (text.empty()) return "[unnamed]";
  std::string frame;
  frame.reserve(text.size());
  ForEachCharacter(text, [&](std::string_view character) {
    // Python's splitlines() also ends a line at U+0085, U+2028 and U+2029.
    const bool is_line_end = character == "\xE2\x80\xA8" || character == "\xE2\x80\xA9";
    if (character == ";") {
      frame.push_back(':');
    } else if (is_line_end || IsControl(character)) {
      frame.push_back(' ');
    } else {
      frame += character;
    }
  });
  if (const std::optional<size_t> blank = BlankBeforeLastNumber(frame)) frame[*blank] = '_';
  return frame;
}

size_t CodePoints(std::string_view text) {
  size_t count = 0;
  for (const char byte : text) count += IsContinuation(static_cast<unsigned char>(byte)) ? 0 : 1;
  return count;
}

std::string_view FirstCodePoints(std::string_view text, size_t count) {
  for (size_t i = 0; i < text.size(); ++i) {
    if (IsContinuation(static_cast<unsigned char>(text[i]))) continue;
    if (count == 0) return text.substr(0, i);
    --count;
  }
  return text;
}

}  // namespace proftrace
