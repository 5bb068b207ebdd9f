// Writes the args of a row: the members of a JSON object, without its braces.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace proftrace {

// Kineto's key for the place in TorchScript at which a row is (Timeline::scripts()).
inline constexpr std::string_view kScriptArg = "Module Hierarchy";

// Keys are written without escapes, and each key may be added once. Texts may be any bytes.
class ArgsText {
 public:
  void Number(std::string_view key, int64_t value);
  void Unsigned(std::string_view key, uint64_t value);
  // Writes a number in the digits of a float where a float can hold the value; 0 for infinities and
  // NaN.
  void Real(std::string_view key, double value);
  void Bool(std::string_view key, bool value);
  void Text(std::string_view key, std::string_view value);
  void Triple(std::string_view key, const int32_t (&values)[3]);
  std::string Take() { return std::move(text_); }

 private:
  void Key(std::string_view key);

  std::string text_;
};

// Returns a number in hex: "0x7f0012345678".
std::string HexText(uint64_t value);

// Returns a number in octal: "0644".
std::string OctalText(uint32_t value);

}  // namespace proftrace
