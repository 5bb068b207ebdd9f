#include "userspace/agent/memory_map.h"

#include <string.h>

#include "userspace/agent/system.h"

namespace proftrace::agent {
namespace {

constexpr size_t kMostMapBytes = 16 << 20;

struct Path {
  const char* text;
  size_t length;
};

// Returns the path in a line of the map. The path is empty if the line has none, if the file was
// deleted, or if the path is too long for MappedLibraries.
Path PathOf(const char* line, size_t length) {
  const void* slash = memchr(line, '/', length);
  if (slash == nullptr) return Path{line, 0};
  const char* text = static_cast<const char*>(slash);
  const Path path{text, length - static_cast<size_t>(text - line)};
  constexpr char kDeleted[] = " (deleted)";
  constexpr size_t kDeletedLength = sizeof(kDeleted) - 1;
  const bool is_deleted =
      path.length > kDeletedLength &&
      memcmp(text + path.length - kDeletedLength, kDeleted, kDeletedLength) == 0;
  return is_deleted || path.length >= kPathBytes ? Path{line, 0} : path;
}

bool FileNameBegins(const Path& path, const char* beginning) {
  const size_t length = strlen(beginning);
  size_t name = path.length;
  while (name > 0 && path.text[name - 1] != '/') --name;
  return path.length - name >= length && memcmp(path.text + name, beginning, length) == 0;
}

bool Contains(const Path& path, const char* what) {
  const size_t length = strlen(what);
  for (size_t at = 0; at + length <= path.length; ++at) {
    if (memcmp(path.text + at, what, length) == 0) return true;
  }
  return false;
}

void Keep(const Path& path, char* place) {
  memcpy(place, path.text, path.length);
  place[path.length] = '\0';
}

void KeepFirst(const Path& path, char* place) {
  if (place[0] == '\0') Keep(path, place);
}

}  // namespace

void FindLibraries(const char* maps, size_t length, MappedLibraries* found) {
  found->driver[0] = found->runtime[0] = found->cupti[0] = found->torch[0] = '\0';
  bool is_tritons = false;
  for (size_t at = 0; at < length;) {
    const void* newline = memchr(maps + at, '\n', length - at);
    const size_t end =
        newline == nullptr ? length : static_cast<size_t>(static_cast<const char*>(newline) - maps);
    const Path path = PathOf(maps + at, end - at);
    at = end + 1;
    if (path.length == 0) continue;
    if (FileNameBegins(path, "libcuda.so")) KeepFirst(path, found->driver);
    if (FileNameBegins(path, "libcudart")) KeepFirst(path, found->runtime);
    if (FileNameBegins(path, "libtorch_cpu.so")) KeepFirst(path, found->torch);
    if (FileNameBegins(path, "libcupti.so") && (found->cupti[0] == '\0' || is_tritons)) {
      Keep(path, found->cupti);
      is_tritons = Contains(path, "/triton/");
    }
  }
}

bool FindLibraries(MappedLibraries* found) {
  auto* maps = static_cast<char*>(MapPrivate(kMostMapBytes));
  if (maps == nullptr) return false;
  const size_t length = ReadFile("/proc/self/maps", maps, kMostMapBytes);
  FindLibraries(maps, length, found);
  Unmap(maps, kMostMapBytes);
  return length != 0;
}

}  // namespace proftrace::agent
