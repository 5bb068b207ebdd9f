#include "userspace/model/python_stack.h"

#include <algorithm>
#include <cstring>
#include <iterator>

namespace proftrace {
namespace {

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

std::string_view WithoutPythonPath(std::string_view file, const std::vector<std::string>& paths) {
  for (const std::string& path : paths) {
    if (file.starts_with(path)) return file.substr(path.size());
  }
  return file;
}

bool IsInstalledPython(std::string_view file) {
  constexpr std::string_view kFolders[] = {"/site-packages/", "/dist-packages/", "/lib/python3",
                                           "/lib64/python3"};
  return file.starts_with("<frozen ") ||
         std::any_of(std::begin(kFolders), std::end(kFolders), [file](std::string_view folder) {
           return file.find(folder) != std::string_view::npos;
         });
}

bool IsHiddenPythonCode(std::string_view file, std::string_view name) {
  return file == "__init__" && name == "__init__";
}

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

}  // namespace proftrace
