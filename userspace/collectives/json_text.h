// Reads JSON in place: finds where a value ends and which members an object has, and reads numbers
// without a double. It is made for texts of other programs, which hold things that JSON does not
// allow: NaN, bytes that are not UTF-8, raw control characters. Text is copied only where it must
// be mended.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace proftrace {

// The deepest nesting; deeper texts are refused.
inline constexpr size_t kDeepestJson = 256;

// Flaws of a text that JSON does not allow and that RepairedJson() mends.
struct JsonFlaws {
  bool not_finite = false;  // NaN, Infinity, inf
  bool bad_text = false;    // in strings: no UTF-8, control characters, unknown escapes

  bool any() const { return not_finite || bad_text; }
};

// Returns the first place from `at` on that is neither a blank nor a line end.
inline size_t SkipJsonBlanks(std::string_view text, size_t at) {
  const char* const bytes = text.data();
  while (at < text.size() &&
         (bytes[at] == ' ' || bytes[at] == '\n' || bytes[at] == '\r' || bytes[at] == '\t')) {
    ++at;
  }
  return at;
}

// Returns the first place from `at` on that has a quote, a backslash, a control character or a byte
// beyond ASCII.
size_t PlainTextEnd(std::string_view text, size_t at);

// Returns where the value that begins at `at` ends. Returns nullopt where the text is wrong, and
// sets `*wrong_at` to the wrong place: the text's size where it is cut off.
std::optional<size_t> JsonValueEnd(std::string_view text, size_t at, JsonFlaws* flaws,
                                   size_t* wrong_at);

// Returns the place behind the string that begins at `at` with its quote. Fails as JsonValueEnd()
// does.
std::optional<size_t> JsonStringEnd(std::string_view text, size_t at, JsonFlaws* flaws,
                                    size_t* wrong_at);

// Returns the text as valid JSON: numbers that JSON does not have become strings ("NaN"), and flaws
// of strings are mended. `text` must be a value that JsonValueEnd() accepts.
std::string RepairedJson(std::string_view text);

// Returns the value of a string's source (without its quotes), in UTF-8.
std::string UnescapedJson(std::string_view source);

// Returns the string's source without the quotes around it; nullopt where the value is not a
// string.
std::optional<std::string_view> JsonStringSource(std::string_view value);

// Returns a whole number, also one in quotes; nullopt for any other value.
std::optional<int64_t> JsonInteger(std::string_view value);

// Returns a decimal number, also one in quotes, times `factor`, rounded to the nearest whole number
// (halves away from zero). nullopt where the value is not a number, or too large.
std::optional<int64_t> ScaledDecimal(std::string_view value, int64_t factor);

// Calls visit(key, value) with the sources of each member of the object that begins at `at`: the
// key without quotes, the value with them. Returns where the object ends. Fails as JsonValueEnd()
// does.
template <typename Visit>
std::optional<size_t> ForEachJsonMember(std::string_view text, size_t at, JsonFlaws* flaws,
                                        size_t* wrong_at, const Visit& visit) {
  const auto wrong = [&](size_t place) {
    *wrong_at = place;
    return std::nullopt;
  };
  if (at >= text.size() || text[at] != '{') return wrong(at);
  at = SkipJsonBlanks(text, at + 1);
  if (at < text.size() && text[at] == '}') return at + 1;
  while (true) {
    if (at >= text.size() || text[at] != '"') return wrong(at);
    const std::optional<size_t> key_end = JsonStringEnd(text, at, flaws, wrong_at);
    if (!key_end) return std::nullopt;
    const std::string_view key = text.substr(at + 1, *key_end - at - 2);
    at = SkipJsonBlanks(text, *key_end);
    if (at >= text.size() || text[at] != ':') return wrong(at);
    at = SkipJsonBlanks(text, at + 1);
    const std::optional<size_t> end = JsonValueEnd(text, at, flaws, wrong_at);
    if (!end) return std::nullopt;
    visit(key, text.substr(at, *end - at));
    at = SkipJsonBlanks(text, *end);
    if (at >= text.size()) return wrong(at);
    if (text[at] == '}') return at + 1;
    if (text[at] != ',') return wrong(at);
    at = SkipJsonBlanks(text, at + 1);
  }
}

// Visits the members of an object that is known to be valid JSON.
template <typename Visit>
void ForEachJsonMember(std::string_view object, const Visit& visit) {
  JsonFlaws flaws;
  size_t wrong_at = 0;
  (void)ForEachJsonMember(object, 0, &flaws, &wrong_at, visit);
}

}  // namespace proftrace
