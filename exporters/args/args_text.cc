#include "exporters/args/args_text.h"

#include <array>
#include <charconv>
#include <cmath>
#include <limits>

#include "exporters/sinks/escape.h"

namespace proftrace {

void ArgsText::Number(std::string_view key, int64_t value) {
  Key(key);
  text_ += std::to_string(value);
}

void ArgsText::Unsigned(std::string_view key, uint64_t value) {
  Key(key);
  text_ += std::to_string(value);
}

void ArgsText::Real(std::string_view key, double value) {
  Key(key);
  if (!std::isfinite(value)) value = 0;
  std::array<char, 64> digits;
  char* const begin = digits.data();
  char* const limit = begin + digits.size();
  const bool is_float = std::abs(value) <= std::numeric_limits<float>::max();
  const auto end = is_float ? std::to_chars(begin, limit, static_cast<float>(value))
                            : std::to_chars(begin, limit, value);
  text_.append(begin, static_cast<size_t>(end.ptr - begin));
}

void ArgsText::Bool(std::string_view key, bool value) {
  Key(key);
  text_ += value ? "true" : "false";
}

void ArgsText::Text(std::string_view key, std::string_view value) {
  Key(key);
  text_ += "\"" + JsonEscaped(value) + "\"";
}

void ArgsText::Triple(std::string_view key, const int32_t (&values)[3]) {
  Key(key);
  text_ += "[" + std::to_string(values[0]) + ", " + std::to_string(values[1]) + ", " +
           std::to_string(values[2]) + "]";
}

void ArgsText::Key(std::string_view key) {
  if (!text_.empty()) text_ += ", ";
  text_ += "\"";
  text_ += key;
  text_ += "\": ";
}

std::string HexText(uint64_t value) {
  std::array<char, 16> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value, 16);
  return "0x" + std::string(digits.data(), end.ptr);
}

std::string OctalText(uint32_t value) {
  std::array<char, 16> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value, 8);
  return "0" + std::string(digits.data(), end.ptr);
}

}  // namespace proftrace
