// Writes the args of a row: the members of a JSON object, without its braces.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "exporters/sinks/json_writer.h"

namespace proftrace {

// Kineto's key for the place in TorchScript at which a row is (Timeline::scripts()).
inline constexpr std::string_view kScriptArg = "Module Hierarchy";

// Keys are written without escapes, and each key may be added once. Texts may be any bytes.
class ArgsText {
 public:
  void Number(std::string_view key, int64_t value) { json_.Key(key).Integer(value); }
  void Unsigned(std::string_view key, uint64_t value) { json_.Key(key).Integer(value); }
  // Writes JsonReal().
  void Real(std::string_view key, double value) { json_.Key(key).Real(value); }
  void Bool(std::string_view key, bool value) { json_.Key(key).Bool(value); }
  void Text(std::string_view key, std::string_view value) { json_.Key(key).String(value); }
  void Triple(std::string_view key, const int32_t (&values)[3]);
  // Writes a value, or further members, that are JSON already. An empty text adds nothing.
  void Json(std::string_view key, std::string_view value) {
    if (!value.empty()) json_.Key(key).Raw(value);
  }
  void Members(std::string_view members) { json_.Members(members); }
  std::string Take() { return json_.Done().Take(); }

 private:
  JsonText json_{StringText(), JsonSpacing::kSpaced, JsonRoot::kMembers};
};

// Returns a number in hex: "0x7f0012345678".
std::string HexText(uint64_t value);

// Returns a number in octal: "0644".
std::string OctalText(uint32_t value);

}  // namespace proftrace
