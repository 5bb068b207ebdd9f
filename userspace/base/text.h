// Functions on texts, by std::string_view. Abseil's own are not used: Debian's Abseil has a
// string_view type of its own, which does not take the standard one.
#pragma once

#include <charconv>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace proftrace {

inline bool Contains(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

// Returns the pieces between the characters of `separators`. Empty pieces are kept unless
// `skip_empty`.
std::vector<std::string_view> SplitText(std::string_view text, std::string_view separators,
                                        bool skip_empty);

// Returns the text without the blanks and line ends around it.
std::string_view StripBlanks(std::string_view text);

// Returns the whole text as a number in `base`; nullopt for any other text.
template <typename T>
std::optional<T> ParseNumber(std::string_view text, int base = 10) {
  T value{};
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, value, base);
  if (error != std::errc() || stop != end) return std::nullopt;
  return value;
}

// Returns `text`, UTF-8 that was cut somewhere, without the last character where bytes of it are
// missing.
std::string_view WithoutCutCharacter(std::string_view text);

// Returns a count with its noun: "1 process", "3 processes".
std::string OneOrMore(uint64_t count, std::string_view one, std::string_view more);

// Removes `prefix` from the front of `text` when it is there.
inline bool ConsumeText(std::string_view* text, std::string_view prefix) {
  if (!text->starts_with(prefix)) return false;
  text->remove_prefix(prefix.size());
  return true;
}

}  // namespace proftrace
