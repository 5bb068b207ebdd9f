// The args of a row: what is inside of a JSON object's braces.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace proftrace {

// Kineto's name of where in TorchScript a row is (Timeline::scripts()).
inline constexpr std::string_view kScriptArg = "Module Hierarchy";

// Keys are written as they are, each once; texts may be any bytes.
class ArgsText {
 public:
  void Number(std::string_view key, int64_t value);
  void Unsigned(std::string_view key, uint64_t value);
  // Writes a float where one can hold the value; 0 for what is no number.
  void Real(std::string_view key, double value);
  void Bool(std::string_view key, bool value);
  void Text(std::string_view key, std::string_view value);
  void Triple(std::string_view key, const int32_t (&values)[3]);
  std::string Take() { return std::move(text_); }

 private:
  void Key(std::string_view key);

  std::string text_;
};

// "0x7f0012345678".
std::string HexText(uint64_t value);

// "0644".
std::string OctalText(uint32_t value);

}  // namespace proftrace
