#include "userspace/base/own_path.h"

#include <unistd.h>

namespace proftrace {

std::string OwnPath() {
  char path[4096];
  const ssize_t bytes = readlink("/proc/self/exe", path, sizeof(path));
  return bytes <= 0 ? "proftrace" : std::string(path, static_cast<size_t>(bytes));
}

}  // namespace proftrace
