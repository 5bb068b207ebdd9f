#include "userspace/agent/cupti_library.h"

#include <string.h>

#include "userspace/agent/system.h"

namespace proftrace::agent {
namespace {

constexpr uint32_t kOldestMajor = 11;
constexpr int kCudaSuccess = 0;
constexpr int kCudaNotInitialized = 3;

uint32_t VersionFrom(const char* path, const char* function) {
  void* library = path[0] == '\0' ? nullptr : OpenLibrary(path, false);
  if (library == nullptr) return 0;
  const auto get = reinterpret_cast<int (*)(int*)>(FindFunction(library, function));
  int version = 0;
  if (get == nullptr || get(&version) != kCudaSuccess || version < 0) return 0;
  return static_cast<uint32_t>(version);
}

// Appends the folder `levels` above a file's, with its last slash.
void AppendFolder(Text* text, const char* path, int levels) {
  size_t length = strlen(path);
  for (; levels >= 0; --levels) {
    while (length > 0 && path[length - 1] != '/') --length;
    if (levels > 0 && length > 0) --length;
  }
  for (size_t at = 0; at < length && text->at < text->end; ++at) *text->at++ = path[at];
  *text->at = '\0';
}

void AppendName(Text* text, uint32_t major) {
  Append(text, "libcupti.so.");
  AppendNumber(text, major);
  if (major == 11) Append(text, ".8");  // the file names of CUDA 11 have a minor version
}

// Returns the major version in a library's name, such as libcupti.so.12; 0: it has none.
uint32_t MajorInName(const char* path) {
  const char* at = strstr(path, "libcupti.so.");
  if (at == nullptr) return 0;
  uint32_t major = 0;
  for (at += strlen("libcupti.so."); *at >= '0' && *at <= '9'; ++at) {
    major = major * 10 + static_cast<uint32_t>(*at - '0');
  }
  return major < 100 ? major : 0;  // libcupti.so.2025.1.1 has CUPTI's own version
}

}  // namespace

bool OpenDriver(const MappedLibraries& mapped, Driver* driver) {
  *driver = Driver{};
  void* library = mapped.driver[0] == '\0' ? nullptr : OpenLibrary(mapped.driver, false);
  if (library == nullptr) return false;
  driver->DeviceGetCount =
      reinterpret_cast<int (*)(int*)>(FindFunction(library, "cuDeviceGetCount"));
  driver->DeviceGetAttribute =
      reinterpret_cast<int (*)(int*, int, int)>(FindFunction(library, "cuDeviceGetAttribute"));
  driver->version = VersionFrom(mapped.driver, "cuDriverGetVersion");
  driver->runtime_version = VersionFrom(mapped.runtime, "cudaRuntimeGetVersion");
  return true;
}

DriverState StateOf(const Driver& driver) {
  int count = 0;
  if (driver.DeviceGetCount == nullptr) return DriverState::kNoDevice;
  const int result = driver.DeviceGetCount(&count);
  if (result == kCudaNotInitialized) return DriverState::kNotInitialized;
  return result == kCudaSuccess && count > 0 ? DriverState::kReady : DriverState::kNoDevice;
}

bool CandidatePath(const MappedLibraries& mapped, uint32_t major, uint32_t number, char* path,
                   size_t path_bytes) {
  Text text = TextIn(path, path_bytes);
  // CUPTI may lie beside the Runtime, in a toolkit, or in the folders of wheels, which are found
  // from the Runtime or from torch.
  struct Place {
    const char* from;
    int levels;
    const char* folder;
  };
  const Place places[] = {
      {mapped.runtime, 0, ""},
      {mapped.runtime, 1, "extras/CUPTI/lib64/"},
      {mapped.runtime, 3, "extras/CUPTI/lib64/"},  // CUDA/targets/x86_64-linux/lib
      {mapped.runtime, 2, "cuda_cupti/lib/"},
      {mapped.torch, 2, "nvidia/cuda_cupti/lib/"},
      {mapped.torch, 2, major == 13 ? "nvidia/cu13/lib/" : "nvidia/cu12/lib/"},
  };
  constexpr uint32_t kPlaces = sizeof(places) / sizeof(places[0]);
  if (number > kPlaces) return false;
  if (number == kPlaces) {  // the last name is found by the loader's own search
    AppendName(&text, major);
    return true;
  }
  const Place& place = places[number];
  if (place.from[0] == '\0') return true;
  AppendFolder(&text, place.from, place.levels);
  Append(&text, place.folder);
  AppendName(&text, major);
  return true;
}

void* OpenCupti(const MappedLibraries& mapped, const Driver& driver, char* message,
                size_t message_bytes) {
  Text text = TextIn(message, message_bytes);
  const uint32_t driver_major = driver.version / 1000;
  if (mapped.cupti[0] != '\0') {
    const uint32_t major = MajorInName(mapped.cupti);
    if (driver_major != 0 && major > driver_major) {
      Append(&text, "the process has CUPTI ");
      AppendNumber(&text, major);
      Append(&text, ", which a driver for CUDA ");
      AppendNumber(&text, driver_major);
      Append(&text, " does not serve");
      return nullptr;
    }
    // If several are mapped, takes the one that the linker gives to a program that asks by name, as
    // torch does.
    char name[kPathBytes];
    Text soname = TextIn(name, sizeof(name));
    AppendName(&soname, major);
    if (void* library = OpenLibrary(name, false)) return library;
    if (void* library = OpenLibrary(mapped.cupti, false)) return library;
  }
  const uint32_t runtime_major = driver.runtime_version / 1000;
  const uint32_t newest = runtime_major != 0 ? runtime_major : driver_major;
  for (uint32_t major = newest; major >= kOldestMajor; --major) {
    char path[kPathBytes];
    for (uint32_t number = 0; CandidatePath(mapped, major, number, path, sizeof(path)); ++number) {
      if (path[0] == '\0' || (path[0] == '/' && !FileExists(path))) continue;
      if (void* library = OpenLibrary(path, true)) return library;
    }
  }
  Append(&text,
         "no libcupti is mapped, nor is there one beside the CUDA Runtime, in PyTorch's "
         "wheels or where the loader looks");
  return nullptr;
}

}  // namespace proftrace::agent
