#include "exporters/args/keyword_args.h"

#include <absl/algorithm/container.h>

#include <array>
#include <charconv>
#include <cmath>
#include <string_view>
#include <variant>

#include "exporters/args/args_text.h"
#include "exporters/sinks/escape.h"
#include "exporters/sinks/json_writer.h"

namespace proftrace {
namespace {

constexpr std::string_view kArgsOfRows[] = {
    "External id", "Sequence number", "Fwd thread id", "Ev Idx",     "Concrete Inputs",
    "Input type",  "Input Strides",   "Input Dims",    "Call stack", kScriptArg,
    "end"};

// Returns a text as Kineto writes it: line ends are dropped, and backslashes, which may be from a
// Windows path, become slashes.
std::string Sanitized(std::string_view text) {
  std::string result;
  for (const char c : text) {
    if (c != '\n') result += c == '\\' ? '/' : c;
  }
  return result;
}

std::string JsonNumber(double value) {
  if (std::isnan(value)) return "\"nan\"";
  if (std::isinf(value)) return value > 0 ? "\"inf\"" : "\"-inf\"";
  std::array<char, 32> digits;
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value);
  std::string text(digits.data(), end.ptr);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

struct KeywordWriter {
  JsonText* json;

  void operator()(std::monostate) const { json->Word("NULL"); }
  void operator()(bool value) const { json->Bool(value); }
  void operator()(int64_t value) const { json->Integer(value); }
  void operator()(double value) const { json->Raw(JsonNumber(value)); }
  // torch shows no text with quotes in it (torch/csrc/profiler/util.cpp, ivalueToStr).
  void operator()(const std::string& value) const {
    json->String(value.find('"') == std::string::npos ? Sanitized(value) : "None");
  }
  void operator()(const std::vector<std::string>& values) const {
    json->BeginArray();
    for (const std::string& value : values) json->String(Sanitized(value));
    json->EndArray();
  }
};

}  // namespace

std::string KeywordArgs(const std::vector<KeywordValue>& keywords) {
  JsonText json(StringText(), JsonSpacing::kSpaced, JsonRoot::kMembers);
  for (const KeywordValue& keyword : keywords) {
    const bool is_integer = std::holds_alternative<int64_t>(keyword.value);
    const auto* const text_value = std::get_if<std::string>(&keyword.value);
    if (keyword.name == "stream" && !is_integer) continue;
    if (text_value != nullptr && text_value->empty()) continue;
    if (absl::c_linear_search(kArgsOfRows, keyword.name)) continue;
    json.Key(JsonEscaped(keyword.name));
    std::visit(KeywordWriter{&json}, keyword.value);
  }
  return json.Done().Take();
}

}  // namespace proftrace
