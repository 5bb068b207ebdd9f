#include "exporters/sinks/json_writer.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <limits>

namespace proftrace {

void StopAtBrokenJson(const char* what) {
  std::fprintf(stderr, "proftrace: a bug of proftrace: JSON was written in a wrong order: %s\n",
               what);
  std::abort();
}

std::string JsonReal(double value) {
  if (!std::isfinite(value)) value = 0;
  std::array<char, 64> digits;
  char* const begin = digits.data();
  char* const limit = begin + digits.size();
  const bool is_float = std::abs(value) <= std::numeric_limits<float>::max();
  const auto end = is_float ? std::to_chars(begin, limit, static_cast<float>(value))
                            : std::to_chars(begin, limit, value);
  return std::string(begin, end.ptr);
}

std::string JsonObjectOf(std::string_view key, std::string_view text) {
  JsonText json{StringText()};
  json.BeginObject();
  json.Key(key).String(text);
  json.EndObject();
  return json.Done().Take();
}

std::string JsonObjectOf(std::string_view key, int64_t number) {
  JsonText json{StringText()};
  json.BeginObject();
  json.Key(key).Integer(number);
  json.EndObject();
  return json.Done().Take();
}

}  // namespace proftrace
