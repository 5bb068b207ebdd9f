#include "symbols/python_objects.h"

#include <algorithm>
#include <array>
#include <cstring>

namespace proftrace {
namespace {

// The same in every version with the global interpreter lock.
constexpr uint64_t kTypeOffset = 8;       // in an object
constexpr uint64_t kTypeNameOffset = 24;  // in a class: to its name in C
constexpr uint64_t kTypeFlagsOffset = 168;
constexpr uint64_t kTextFlag = uint64_t{1} << 28;   // Py_TPFLAGS_UNICODE_SUBCLASS
constexpr uint64_t kBytesFlag = uint64_t{1} << 27;  // Py_TPFLAGS_BYTES_SUBCLASS

constexpr size_t kMostTypeNameBytes = 256;
constexpr size_t kTextHeadBytes = 80;  // more than the head of any str

constexpr uint32_t kReplacement = 0xfffd;

void AppendUtf8(uint32_t character, std::string* out) {
  const bool is_surrogate = character >= 0xd800 && character <= 0xdfff;
  if (is_surrogate || character > 0x10ffff) character = kReplacement;
  const auto tail = [&](unsigned shift) {
    out->push_back(static_cast<char>(0x80U | ((character >> shift) & 0x3fU)));
  };
  if (character < 0x80) {
    out->push_back(static_cast<char>(character));
  } else if (character < 0x800) {
    out->push_back(static_cast<char>(0xc0U | (character >> 6U)));
    tail(0);
  } else if (character < 0x10000) {
    out->push_back(static_cast<char>(0xe0U | (character >> 12U)));
    tail(6);
    tail(0);
  } else {
    out->push_back(static_cast<char>(0xf0U | (character >> 18U)));
    tail(12);
    tail(6);
    tail(0);
  }
}

}  // namespace

std::string PythonTextToUtf8(std::span<const uint8_t> characters, size_t width) {
  std::string text;
  if (width != 1 && width != 2 && width != 4) return text;
  text.reserve(characters.size());
  for (size_t i = 0; i + width <= characters.size(); i += width) {
    uint32_t character = 0;
    std::memcpy(&character, &characters[i], width);
    AppendUtf8(character, &text);
  }
  return text;
}

std::optional<uint64_t> PythonObjects::TypeOf(uint64_t object, uint64_t flag) const {
  const auto type = memory_.ReadWord(object + kTypeOffset);
  const auto flags = type ? memory_.ReadWord(*type + kTypeFlagsOffset) : std::nullopt;
  if (!flags || (*flags & flag) != flag) return std::nullopt;
  return type;
}

std::optional<std::string> PythonObjects::CText(uint64_t address, size_t limit_bytes) const {
  std::string text;
  std::array<char, 32> part;
  while (text.size() < limit_bytes) {
    // Never past the end of a page: the next one may not be there.
    const uint64_t at = address + text.size();
    const size_t bytes = std::min<uint64_t>(part.size(), 4096 - at % 4096);
    if (!memory_.Read(at, part.data(), bytes)) return std::nullopt;
    const size_t length = strnlen(part.data(), bytes);
    text.append(part.data(), length);
    if (length < bytes) return text;
  }
  return std::nullopt;
}

std::optional<std::string> PythonObjects::TypeName(uint64_t object) const {
  const auto type = TypeOf(object, 0);
  const auto name = type ? memory_.ReadWord(*type + kTypeNameOffset) : std::nullopt;
  return name ? CText(*name, kMostTypeNameBytes) : std::nullopt;
}

std::optional<std::string> PythonObjects::Text(uint64_t object, size_t limit_bytes) const {
  const abi::pt_python_layout& layout = layout_.stack;
  if (layout.text_wide + sizeof(uint64_t) > kTextHeadBytes) return std::nullopt;
  if (!TypeOf(object, kTextFlag)) return std::nullopt;
  std::array<uint8_t, kTextHeadBytes> head;
  const size_t head_bytes = layout.text_state + sizeof(uint32_t);
  if (head_bytes > head.size() || !memory_.Read(object, head.data(), head_bytes)) {
    return std::nullopt;
  }
  uint64_t length = 0;
  std::memcpy(&length, &head[layout.text_length], sizeof(length));
  const uint8_t state = head[layout.text_state];
  const size_t width = (state >> 2U) & 7U;
  const bool is_compact = (state & 32U) != 0;
  const bool is_ascii = (state & 64U) != 0;
  if (width != 1 && width != 2 && width != 4) return std::nullopt;
  uint64_t at = object + (is_ascii ? layout.text_ascii : layout.text_wide);
  if (!is_compact) {
    // An instance of a class made from str: a pointer lies where a compact one would begin.
    const auto characters = memory_.ReadWord(object + layout.text_wide);
    if (!characters) return std::nullopt;
    at = *characters;
  }
  std::vector<uint8_t> characters(std::min<uint64_t>(length, limit_bytes / width) * width);
  if (!memory_.Read(at, characters.data(), characters.size())) return std::nullopt;
  return PythonTextToUtf8(characters, width);
}

std::optional<std::vector<uint8_t>> PythonObjects::Bytes(uint64_t object,
                                                         size_t limit_bytes) const {
  if (!TypeOf(object, kBytesFlag)) return std::nullopt;
  const auto length = memory_.ReadWord(object + layout_.stack.bytes_length);
  if (!length || *length > limit_bytes) return std::nullopt;
  std::vector<uint8_t> bytes(*length);
  if (!memory_.Read(object + layout_.stack.bytes_data, bytes.data(), bytes.size())) {
    return std::nullopt;
  }
  return bytes;
}

}  // namespace proftrace
