#include "exporters/args/args_text.h"

#include <array>
#include <charconv>

namespace proftrace {

void ArgsText::Triple(std::string_view key, const int32_t (&values)[3]) {
  json_.Key(key).BeginArray();
  for (const int32_t value : values) json_.Integer(value);
  json_.EndArray();
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
