// A file that the build has put into the program (cmake/EmbedTexts.cmake).
#pragma once

#include <string_view>

namespace proftrace {

struct EmbeddedText {
  std::string_view name;  // of the file, up to its first dot
  std::string_view text;
};

}  // namespace proftrace
