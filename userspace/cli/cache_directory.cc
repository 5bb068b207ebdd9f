#include "userspace/cli/cache_directory.h"

#include <unistd.h>

#include <cstdlib>

namespace proftrace {

std::string CacheDirectory() {
  if (const char* directory = std::getenv("PROFTRACE_CACHE_DIR")) return directory;
  if (geteuid() == 0) return "/var/cache/proftrace";
  if (const char* directory = std::getenv("XDG_CACHE_HOME")) {
    return std::string(directory) + "/proftrace";
  }
  const char* home = std::getenv("HOME");
  return home == nullptr ? "" : std::string(home) + "/.cache/proftrace";
}

}  // namespace proftrace
