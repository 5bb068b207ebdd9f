#include "userspace/model/python_stack.h"

namespace proftrace {

std::string_view WithoutPythonPath(std::string_view file, const std::vector<std::string>& paths) {
  for (const std::string& path : paths) {
    if (file.starts_with(path)) return file.substr(path.size());
  }
  return file;
}

bool IsHiddenPythonCode(std::string_view file, std::string_view name) {
  return file == "__init__" && name == "__init__";
}

}  // namespace proftrace
