#include "userspace/collectives/json_text.h"

#include <emmintrin.h>

#include <array>
#include <bit>
#include <bitset>
#include <charconv>
#include <limits>

#include "userspace/base/text.h"
#include "userspace/base/utf8.h"

namespace proftrace {
namespace {

constexpr std::string_view kNotFinite[] = {"NaN",  "nan",      "-nan",      "-NaN",      "inf",
                                           "-inf", "Infinity", "-Infinity", "+Infinity", "+inf"};

bool IsJsonDigit(char c) { return c >= '0' && c <= '9'; }

bool IsWordCharacter(char c) {
  return IsJsonDigit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '+' ||
         c == '-' || c == '.';
}

size_t WordEnd(std::string_view text, size_t at) {
  while (at < text.size() && IsWordCharacter(text[at])) ++at;
  return at;
}

size_t DigitsEnd(std::string_view text, size_t at) {
  const char* const bytes = text.data();
  while (at < text.size() && IsJsonDigit(bytes[at])) ++at;
  return at;
}

// Returns where the number that begins at `at` ends; returns `at` where no number begins there.
size_t NumberEnd(std::string_view text, const size_t at) {
  const size_t digits = at < text.size() && text[at] == '-' ? at + 1 : at;
  size_t end = DigitsEnd(text, digits);
  if (end == digits) return at;
  if (end < text.size() && text[end] == '.') end = DigitsEnd(text, end + 1);
  if (end == text.size() || (text[end] != 'e' && text[end] != 'E')) return end;
  size_t exponent = end + 1;
  if (exponent < text.size() && (text[exponent] == '+' || text[exponent] == '-')) ++exponent;
  const size_t exponent_end = DigitsEnd(text, exponent);
  return exponent_end == exponent ? at : exponent_end;
}

bool IsJsonNumber(std::string_view word) {
  return !word.empty() && NumberEnd(word, 0) == word.size();
}

bool IsNotFinite(std::string_view word) {
  for (const std::string_view one : kNotFinite) {
    if (word == one) return true;
  }
  return false;
}

bool IsHex(char c) { return IsJsonDigit(c) || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F'); }

// Returns the length of the escape that begins with the backslash at `at`; 0 where JSON has no such
// escape.
size_t EscapeLength(std::string_view text, size_t at) {
  if (at + 1 >= text.size()) return 0;
  constexpr std::string_view kOneCharacter = "\"\\/bfnrt";
  if (Contains(kOneCharacter, text.substr(at + 1, 1))) return 2;
  if (text[at + 1] != 'u' || at + 6 > text.size()) return 0;
  for (size_t i = at + 2; i < at + 6; ++i) {
    if (!IsHex(text[i])) return 0;
  }
  return 6;
}

std::optional<size_t> ScalarEnd(std::string_view text, size_t at, JsonFlaws* flaws,
                                size_t* wrong_at) {
  if (text[at] == '"') return JsonStringEnd(text, at, flaws, wrong_at);
  const size_t number_end = NumberEnd(text, at);
  const bool goes_on = number_end < text.size() && IsWordCharacter(text[number_end]);
  if (number_end != at && !goes_on) return number_end;
  const size_t end = WordEnd(text, at);
  const std::string_view word = text.substr(at, end - at);
  if (IsNotFinite(word)) {
    flaws->not_finite = true;
  } else if (word != "true" && word != "false" && word != "null") {
    *wrong_at = at;
    return std::nullopt;
  }
  return end;
}

void AppendCodePoint(uint32_t code, std::string* text) {
  if (code < 0x80) {
    *text += static_cast<char>(code);
  } else if (code < 0x800) {
    *text += static_cast<char>(0xc0 | code >> 6);
    *text += static_cast<char>(0x80 | (code & 0x3f));
  } else if (code < 0x10000) {
    *text += static_cast<char>(0xe0 | code >> 12);
    *text += static_cast<char>(0x80 | (code >> 6 & 0x3f));
    *text += static_cast<char>(0x80 | (code & 0x3f));
  } else {
    *text += static_cast<char>(0xf0 | code >> 18);
    *text += static_cast<char>(0x80 | (code >> 12 & 0x3f));
    *text += static_cast<char>(0x80 | (code >> 6 & 0x3f));
    *text += static_cast<char>(0x80 | (code & 0x3f));
  }
}

uint32_t UnitAt(std::string_view source, size_t at) {
  return ParseNumber<uint32_t>(source.substr(at + 2, 4), 16).value_or(0xfffd);
}

// Copies the string at `at`, mended, and returns the place behind it.
size_t RepairString(std::string_view text, size_t at, std::string* repaired) {
  *repaired += text[at++];
  while (at < text.size()) {
    const size_t plain = PlainTextEnd(text, at);
    *repaired += text.substr(at, plain - at);
    at = plain;
    if (at >= text.size()) break;
    const char c = text[at];
    if (c == '"') {
      *repaired += c;
      return at + 1;
    }
    if (c == '\\') {
      const size_t length = EscapeLength(text, at);
      *repaired += length == 0 ? "\\\\" : text.substr(at, length);
      at += length == 0 ? 1 : length;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      constexpr std::string_view kDigits = "0123456789abcdef";
      *repaired += "\\u00";
      *repaired += kDigits[static_cast<unsigned char>(c) >> 4];
      *repaired += kDigits[c & 15];
      ++at;
    } else {
      size_t invalid = 1;
      const size_t length = Utf8Length(text.substr(at), &invalid);
      *repaired += length == 0 ? kReplacementCharacter : text.substr(at, length);
      at += length == 0 ? invalid : length;
    }
  }
  return at;
}

// Does the same as ScaledDecimal() for the form that nearly all times have: digits, of which few
// stand behind a point, so that nothing is rounded. Returns nullopt for any other form.
std::optional<int64_t> ScaledShortDecimal(std::string_view text, int64_t factor) {
  constexpr size_t kMostDigits = 19;  // of any uint64_t
  if (text.empty() || text.size() > kMostDigits + 1) return std::nullopt;
  uint64_t number = 0;
  bool is_behind_point = false;
  for (size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (c == '.' && at > 0 && !is_behind_point) {
      is_behind_point = true;
      continue;
    }
    if (!IsJsonDigit(c) || (at == kMostDigits && !is_behind_point)) return std::nullopt;
    number = number * 10 + static_cast<uint64_t>(c - '0');
    if (!is_behind_point) continue;
    if (factor % 10 != 0) return std::nullopt;
    factor /= 10;
  }
  int64_t scaled = 0;
  if (__builtin_mul_overflow(number, factor, &scaled)) return std::nullopt;
  return scaled;
}

}  // namespace

size_t PlainTextEnd(std::string_view text, size_t at) {
  const __m128i quote = _mm_set1_epi8('"');
  const __m128i backslash = _mm_set1_epi8('\\');
  const __m128i blank = _mm_set1_epi8(' ');
  for (; at + 16 <= text.size(); at += 16) {
    const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(text.data() + at));
    // The comparison is signed, so that the bytes of longer characters are below a blank as well.
    const __m128i special =
        _mm_or_si128(_mm_or_si128(_mm_cmpeq_epi8(bytes, quote), _mm_cmpeq_epi8(bytes, backslash)),
                     _mm_cmplt_epi8(bytes, blank));
    const auto mask = static_cast<uint32_t>(_mm_movemask_epi8(special));
    if (mask != 0) return at + static_cast<size_t>(std::countr_zero(mask));
  }
  while (at < text.size() && text[at] != '"' && text[at] != '\\' &&
         static_cast<signed char>(text[at]) >= ' ') {
    ++at;
  }
  return at;
}

std::optional<size_t> JsonStringEnd(std::string_view text, size_t at, JsonFlaws* flaws,
                                    size_t* wrong_at) {
  ++at;
  while (true) {
    at = PlainTextEnd(text, at);
    if (at >= text.size()) {
      *wrong_at = text.size();
      return std::nullopt;
    }
    const char c = text[at];
    if (c == '"') return at + 1;
    if (c == '\\') {
      const size_t length = EscapeLength(text, at);
      if (length == 0) flaws->bad_text = true;
      at += length == 0 ? 1 : length;
      // An unknown escape never hides the string's end, because \" is a known one.
      continue;
    }
    if (static_cast<unsigned char>(c) < 0x20) {
      flaws->bad_text = true;
      ++at;
      continue;
    }
    size_t invalid = 1;
    const size_t length = Utf8Length(text.substr(at), &invalid);
    if (length == 0) flaws->bad_text = true;
    at += length == 0 ? invalid : length;
  }
}

std::optional<size_t> JsonValueEnd(std::string_view text, size_t at, JsonFlaws* flaws,
                                   size_t* wrong_at) {
  const auto wrong = [&](size_t place) {
    *wrong_at = place;
    return std::nullopt;
  };
  if (at < text.size() && text[at] != '{' && text[at] != '[') {
    return ScalarEnd(text, at, flaws, wrong_at);
  }
  std::bitset<kDeepestJson> is_object;  // by depth
  size_t depth = 0;
  bool wants_key = false;
  while (true) {
    if (at >= text.size()) return wrong(at);
    if (wants_key) {
      if (text[at] != '"') return wrong(at);
      const std::optional<size_t> end = JsonStringEnd(text, at, flaws, wrong_at);
      if (!end) return std::nullopt;
      at = SkipJsonBlanks(text, *end);
      if (at >= text.size() || text[at] != ':') return wrong(at);
      at = SkipJsonBlanks(text, at + 1);
      if (at >= text.size()) return wrong(at);
      wants_key = false;
    }
    const char c = text[at];
    if (c == '{' || c == '[') {
      if (depth == kDeepestJson) return wrong(at);
      is_object[depth++] = c == '{';
      at = SkipJsonBlanks(text, at + 1);
      if (at >= text.size()) return wrong(at);
      if (text[at] != (c == '{' ? '}' : ']')) {
        wants_key = c == '{';
        continue;
      }
      --depth;
      ++at;
    } else {
      const std::optional<size_t> end = ScalarEnd(text, at, flaws, wrong_at);
      if (!end) return std::nullopt;
      at = *end;
    }
    // A value has ended, and so have the objects and lists that it was the last part of.
    while (true) {
      if (depth == 0) return at;
      at = SkipJsonBlanks(text, at);
      if (at >= text.size()) return wrong(at);
      if (text[at] == ',') break;
      if (text[at] != (is_object[depth - 1] ? '}' : ']')) return wrong(at);
      --depth;
      ++at;
    }
    at = SkipJsonBlanks(text, at + 1);
    wants_key = is_object[depth - 1];
  }
}

std::string RepairedJson(std::string_view text) {
  std::string repaired;
  repaired.reserve(text.size() + 64);
  for (size_t at = 0; at < text.size();) {
    if (text[at] == '"') {
      at = RepairString(text, at, &repaired);
      continue;
    }
    const size_t end = WordEnd(text, at);
    const std::string_view word = text.substr(at, end - at);
    if (word.empty()) {
      repaired += text[at++];
      continue;
    }
    const bool quotes = IsNotFinite(word);
    if (quotes) repaired += '"';
    repaired += word;
    if (quotes) repaired += '"';
    at = end;
  }
  return repaired;
}

std::string UnescapedJson(std::string_view source) {
  std::string text;
  for (size_t at = 0; at < source.size();) {
    const size_t length = source[at] == '\\' ? EscapeLength(source, at) : 0;
    if (length == 0) {
      text += source[at++];
      continue;
    }
    if (length == 2) {
      constexpr std::string_view kNames = "bfnrt";
      constexpr std::string_view kValues = "\b\f\n\r\t";
      const size_t place = kNames.find(source[at + 1]);
      text += place == std::string_view::npos ? source[at + 1] : kValues[place];
    } else {
      uint32_t code = UnitAt(source, at);
      if (code >= 0xd800 && code < 0xdc00 && EscapeLength(source, at + 6) == 6 &&
          source[at + 6] == '\\') {
        const uint32_t low = UnitAt(source, at + 6);
        if (low >= 0xdc00 && low < 0xe000) {
          code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
          at += 6;
        }
      }
      AppendCodePoint(code >= 0xd800 && code < 0xe000 ? 0xfffd : code, &text);
    }
    at += length;
  }
  return text;
}

std::optional<std::string_view> JsonStringSource(std::string_view value) {
  if (value.size() < 2 || value.front() != '"') return std::nullopt;
  return value.substr(1, value.size() - 2);
}

std::optional<int64_t> JsonInteger(std::string_view value) {
  return ParseNumber<int64_t>(JsonStringSource(value).value_or(value));
}

std::optional<int64_t> ScaledDecimal(std::string_view value, int64_t factor) {
  std::string_view text = JsonStringSource(value).value_or(value);
  if (const auto scaled = ScaledShortDecimal(text, factor)) return scaled;
  if (!IsJsonNumber(text)) return std::nullopt;
  const bool is_negative = ConsumeText(&text, "-");
  int64_t exponent = 0;
  if (const size_t e = text.find_first_of("eE"); e != std::string_view::npos) {
    std::string_view digits = text.substr(e + 1);
    ConsumeText(&digits, "+");
    const std::optional<int32_t> told = ParseNumber<int32_t>(digits);
    if (!told) return std::nullopt;
    exponent = *told;
    text = text.substr(0, e);
  }
  // value = digits * 10^exponent, with the point taken out.
  using Wide = unsigned __int128;
  constexpr Wide kMost = std::numeric_limits<int64_t>::max();
  Wide number = 0;
  bool is_behind_point = false;
  bool rounds_up = false;
  bool is_cut = false;  // digits are left out from here on
  for (const char c : text) {
    if (c == '.') {
      is_behind_point = true;
      continue;
    }
    // Twenty digits are enough for every time: further digits stand behind the point, or the number
    // is not a time.
    if (!is_cut && number > kMost) is_cut = true;
    if (is_cut) {
      if (!is_behind_point) ++exponent;
      continue;
    }
    number = number * 10 + static_cast<Wide>(c - '0');
    if (is_behind_point) --exponent;
  }
  if (number == 0) return 0;
  number *= static_cast<Wide>(factor);
  for (; exponent < 0 && number != 0; ++exponent) {
    rounds_up = number % 10 >= 5;
    number /= 10;
  }
  for (; exponent > 0; --exponent) {
    if (number > kMost) return std::nullopt;
    number *= 10;
  }
  if (rounds_up) ++number;
  if (number > kMost) return std::nullopt;
  const auto whole = static_cast<int64_t>(number);
  return is_negative ? -whole : whole;
}

}  // namespace proftrace
