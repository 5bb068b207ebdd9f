// Reads and writes fields of the JSON objects of metadata. For the sources of wire/metadata.h
// alone.
#pragma once

#include <nlohmann/json.hpp>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "userspace/wire/metadata.h"

namespace proftrace::metadata_json {

using nlohmann::json;

// Names from a target need not be UTF-8. They are kept byte for byte: each byte becomes the code
// point of Latin-1.
inline std::string ToJsonText(std::string_view bytes) {
  std::string text;
  text.reserve(bytes.size());
  for (const unsigned char c : bytes) {
    if (c < 0x80) {
      text.push_back(static_cast<char>(c));
    } else {
      text.push_back(static_cast<char>(0xc0 | (c >> 6)));
      text.push_back(static_cast<char>(0x80 | (c & 0x3f)));
    }
  }
  return text;
}

inline std::string FromJsonText(const std::string& text) {
  std::string bytes;
  bytes.reserve(text.size());
  for (size_t i = 0; i < text.size(); ++i) {
    const unsigned char c = static_cast<unsigned char>(text[i]);
    if ((c == 0xc2 || c == 0xc3) && i + 1 < text.size()) {
      bytes.push_back(static_cast<char>(((c & 3) << 6) | (text[++i] & 0x3f)));
    } else {
      bytes.push_back(static_cast<char>(c));
    }
  }
  return bytes;
}

// The next functions read fields of a document that is not trusted: a field that is missing or has
// another type gives the default.
inline std::string Text(const json& object, const char* key) {
  const auto it = object.find(key);
  return it != object.end() && it->is_string() ? FromJsonText(it->get_ref<const std::string&>())
                                               : std::string();
}

inline std::optional<double> RealNumber(const json& number) {
  if (!number.is_number()) return std::nullopt;
  return number.get<double>();
}

inline json NumberOrNull(const std::optional<double>& number) {
  return number.has_value() ? json(*number) : json(nullptr);
}

// Returns a number; nullopt when it does not fit T: cut to T, a number would name another process
// or thread.
template <typename T>
std::optional<T> WholeNumber(const json& number) {
  if (number.is_number_unsigned()) {
    const uint64_t value = number.get<uint64_t>();
    if (std::in_range<T>(value)) return static_cast<T>(value);
  } else if (number.is_number_integer()) {
    const int64_t value = number.get<int64_t>();
    if (std::in_range<T>(value)) return static_cast<T>(value);
  }
  return std::nullopt;
}

template <typename T>
T Number(const json& object, const char* key) {
  const auto it = object.find(key);
  if (it == object.end()) return T{};
  if constexpr (std::is_integral_v<T>) {
    return WholeNumber<T>(*it).value_or(T{});
  } else {
    return RealNumber(*it).value_or(T{});
  }
}

// Returns a time or duration; 0 where it is not from 0 to `latest_ns`.
inline int64_t Nanoseconds(const json& object, const char* key,
                           int64_t latest_ns = kLatestMonotonicNs) {
  const int64_t value = Number<int64_t>(object, key);
  return value >= 0 && value <= latest_ns ? value : 0;
}

inline bool Flag(const json& object, const char* key) {
  const auto it = object.find(key);
  return it != object.end() && it->is_boolean() && it->get<bool>();
}

inline const json& Member(const json& object, const char* key) {
  static const json kNothing;
  const auto it = object.find(key);
  return it != object.end() ? *it : kNothing;
}

inline json OptionalNumber(const std::optional<int>& number) {
  return number.has_value() ? json(*number) : json();
}

inline std::optional<int> OptionalNumber(const json& object, const char* key) {
  const auto it = object.find(key);
  return it == object.end() ? std::nullopt : WholeNumber<int>(*it);
}

}  // namespace proftrace::metadata_json
