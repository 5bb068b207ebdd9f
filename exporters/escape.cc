#include "exporters/escape.h"

#include <array>
#include <optional>

namespace proftrace {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";
constexpr char kHexDigits[] = "0123456789abcdef";

bool IsContinuation(unsigned char byte) { return (byte & 0xC0) == 0x80; }

// Length of the well-formed sequence at the front of `text` (Unicode 15, table 3-7); 0 when it is
// ill-formed, and then `invalid` is the length of the maximal subpart to replace.
size_t SequenceLength(std::string_view text, size_t* invalid) {
  const auto byte = [&](size_t i) { return static_cast<unsigned char>(text[i]); };
  *invalid = 1;
  const unsigned char lead = byte(0);
  if (lead < 0x80) return 1;
  size_t length = 0;
  unsigned char low = 0x80;
  unsigned char high = 0xBF;
  if (lead >= 0xC2 && lead <= 0xDF) {
    length = 2;
  } else if (lead >= 0xE0 && lead <= 0xEF) {
    length = 3;
    if (lead == 0xE0) low = 0xA0;
    if (lead == 0xED) high = 0x9F;  // no surrogates
  } else if (lead >= 0xF0 && lead <= 0xF4) {
    length = 4;
    if (lead == 0xF0) low = 0x90;
    if (lead == 0xF4) high = 0x8F;  // no more than U+10FFFF
  } else {
    return 0;
  }
  if (text.size() < 2 || byte(1) < low || byte(1) > high) return 0;
  for (size_t i = 2; i < length; ++i) {
    *invalid = i;
    if (text.size() <= i || !IsContinuation(byte(i))) return 0;
  }
  return length;
}

// Calls visit(sequence) for each well-formed sequence but NUL, and visit(U+FFFD) for what is not.
template <typename Visitor>
void ForEachCharacter(std::string_view text, Visitor&& visit) {
  while (!text.empty()) {
    size_t invalid = 0;
    const size_t length = text[0] == '\0' ? 0 : SequenceLength(text, &invalid);
    if (text[0] == '\0') invalid = 1;
    visit(length == 0 ? kReplacement : text.substr(0, length));
    text.remove_prefix(length == 0 ? invalid : length);
  }
}

bool IsControl(std::string_view character) {
  if (character.size() == 1) {
    const unsigned char byte = static_cast<unsigned char>(character[0]);
    return byte < 0x20 || byte == 0x7F;
  }
  // U+0080 to U+009F: terminals take some of them for escape sequences.
  return character.size() == 2 && character[0] == '\xC2' &&
         static_cast<unsigned char>(character[1]) < 0xA0;
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
    } else if (byte < 0x20) {
      escaped += "\\u00";
      escaped.push_back(kHexDigits[byte >> 4]);
      escaped.push_back(kHexDigits[byte & 15]);
    } else {
      escaped += character;
    }
  });
  return escaped;
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

std::string CsvField(std::string_view text) {
  std::string field = CsvEscaped(text);
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

// Where the blank is in front of a number at the end ("epoch 3", "lr 0.5"): flamegraph.pl would
// take the number for a weight. Nothing: there is none.
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

std::string TableText(std::string_view text) {
  std::string shown;
  shown.reserve(text.size());
  ForEachCharacter(text, [&](std::string_view character) {
    if (!IsControl(character)) {
      shown += character;
    } else if (character == "\n") {
      shown += "\\n";
    } else if (character == "\t") {
      shown += "\\t";
    } else if (character == "\r") {
      shown += "\\r";
    } else {
      const unsigned char last = static_cast<unsigned char>(character.back());
      shown += "\\x";
      shown.push_back(kHexDigits[last >> 4]);
      shown.push_back(kHexDigits[last & 15]);
    }
  });
  return shown;
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
