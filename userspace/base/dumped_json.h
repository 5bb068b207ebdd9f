// Writes documents of the JSON library as text. A text in a document may be any bytes that a job
// had, which the library refuses by an exception unless it is told otherwise: here it is told, in
// one place. Bytes that are not UTF-8 become U+FFFD.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace proftrace {

inline constexpr int kJsonOneLine = -1;

// Returns the text, without a line end behind it. `json`: of either of the library's types.
// `indent`: blanks a level.
template <typename Json>
std::string DumpedJson(const Json& json, int indent = kJsonOneLine) {
  return json.dump(indent, ' ', /*ensure_ascii=*/false, Json::error_handler_t::replace);
}

// Returns the text with all characters beyond ASCII as \uXXXX, so that a terminal can show it.
template <typename Json>
std::string AsciiJson(const Json& json, int indent = kJsonOneLine) {
  return json.dump(indent, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace);
}

}  // namespace proftrace
