#include "userspace/inject/loader_places.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <optional>
#include <utility>

#include "symbols/elf/elf_file.h"
#include "symbols/process/process_memory.h"
#include "userspace/base/exit_status.h"

namespace proftrace {
namespace {

constexpr std::array<uint8_t, 3> kSystemCall = {0x0f, 0x05, 0xc3};  // syscall; ret
// mov $15, %rax; syscall: glibc's __restore_rt, which unwinders know by these bytes.
constexpr std::array<uint8_t, 9> kRestorer = {0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05};
constexpr uint64_t kMostCodeBytes = uint64_t{64} << 20;

std::string_view BaseName(std::string_view path) { return path.substr(path.rfind('/') + 1); }

const MappedFile* FindFile(const std::vector<MappedFile>& files, std::string_view prefix) {
  const auto found = std::find_if(files.begin(), files.end(), [prefix](const MappedFile& file) {
    return BaseName(file.path).starts_with(prefix);
  });
  return found == files.end() ? nullptr : &*found;
}

// Calls visit(name, address in the target, size) for each exported function.
template <typename Visit>
bool ForEachExport(Pid pid, const MappedFile& file, const Visit& visit) {
  absl::StatusOr<OpenedFile> opened = OpenMappedFile(pid, file);
  if (!opened.ok()) return false;
  absl::StatusOr<std::unique_ptr<ElfFile>> elf = ElfFile::Open(std::move(opened->file));
  if (!elf.ok()) return false;
  const std::optional<uint64_t> bias = LoadBias(**elf, file);
  if (!bias.has_value()) return false;
  (*elf)->ForEachSymbol(/*full=*/false, [&](const ElfSymbol& symbol) {
    if (symbol.is_function && symbol.is_defined) {
      visit(symbol.name(), symbol.address + *bias, symbol.size);
    }
  });
  return true;
}

void FindSystemCalls(Pid pid, const MappedFile& libc, SystemCallPlaces* places) {
  const ProcessMemory memory(pid);
  for (const Mapping& mapping : libc.mappings) {
    const uint64_t bytes = mapping.end - mapping.start;
    if (!mapping.executable || bytes > kMostCodeBytes) continue;
    std::vector<uint8_t> code(bytes);
    if (!memory.Read(mapping.start, code.data(), code.size())) continue;
    const auto find = [&](const auto& pattern, uint64_t* place) {
      const auto at = std::search(code.begin(), code.end(), pattern.begin(), pattern.end());
      if (*place == 0 && at != code.end()) {
        *place = mapping.start + static_cast<uint64_t>(at - code.begin());
      }
    };
    find(kSystemCall, &places->call);
    find(kRestorer, &places->restorer);
  }
}

}  // namespace

absl::StatusOr<LoaderPlaces> FindLoaderPlaces(Pid pid, const std::vector<Mapping>& mappings) {
  const std::vector<MappedFile> files = GroupByFile(mappings);
  const MappedFile* libc = FindFile(files, "libc.so.6");
  if (libc == nullptr) libc = FindFile(files, "libc-2.");
  const auto is_musl = [](const MappedFile& file) {
    return BaseName(file.path).starts_with("ld-musl-") ||  // Alpine
           file.path.ends_with("-linux-musl/libc.so");     // Debian
  };
  if (libc == nullptr && std::any_of(files.begin(), files.end(), is_musl)) {
    return Fail(ExitCode::kHostUnfit,
                "its libc is musl: the library that would be loaded needs glibc");
  }
  if (libc == nullptr) {
    return Fail(ExitCode::kHostUnfit,
                "it has no glibc mapped: a library cannot be loaded into a static program or one "
                "of another libc");
  }
  LoaderPlaces places;
  const std::array<std::pair<std::string_view, uint64_t*>, 4> wanted = {{
      {"dlopen", &places.dlopen},
      {"dlsym", &places.dlsym},
      {"dlerror", &places.dlerror},
      {"__errno_location", &places.errno_location},
  }};
  const auto take = [&wanted](std::string_view name, uint64_t address, uint64_t) {
    for (const auto& [symbol, place] : wanted) {
      if (name == symbol) *place = address;
    }
  };
  ForEachExport(pid, *libc, take);
  // Before glibc 2.34 they are in a library of their own.
  for (const std::string_view prefix : {"libdl.so.2", "libdl-2."}) {
    const MappedFile* libdl = FindFile(files, prefix);
    if (libdl != nullptr && places.dlopen == 0) ForEachExport(pid, *libdl, take);
  }
  FindSystemCalls(pid, *libc, &places.system_calls);
  if (places.dlopen == 0 || places.dlsym == 0 || places.dlerror == 0 ||
      places.errno_location == 0 || places.system_calls.call == 0 ||
      places.system_calls.restorer == 0) {
    return Fail(ExitCode::kHostUnfit,
                "its libc (" + libc->path + ") has not the functions that loading a library needs");
  }
  return places;
}

uint64_t FindExportedFunction(Pid pid, const std::vector<MappedFile>& files,
                              std::string_view file_prefix, std::string_view symbol,
                              uint64_t* bytes) {
  uint64_t found = 0;
  for (const MappedFile& file : files) {
    if (found != 0 || !BaseName(file.path).starts_with(file_prefix)) continue;
    ForEachExport(pid, file, [&](std::string_view name, uint64_t address, uint64_t size) {
      if (name != symbol) return;
      found = address;
      if (bytes != nullptr) *bytes = size;
    });
  }
  return found;
}

bool ReadMappedFile(Pid pid, const std::vector<Mapping>& mappings, uint64_t address, void* buffer,
                    size_t bytes) {
  const auto mapping = std::find_if(mappings.begin(), mappings.end(), [address](const Mapping& at) {
    return address >= at.start && address < at.end;
  });
  if (mapping == mappings.end() || mapping->inode == 0 || !mapping->executable ||
      bytes > mapping->end - address) {
    return false;
  }
  const std::vector<MappedFile> files = GroupByFile({*mapping});
  if (files.empty()) return false;
  absl::StatusOr<OpenedFile> file = OpenMappedFile(pid, files.front());
  if (!file.ok()) return false;
  const uint64_t offset = address - mapping->start + mapping->file_offset;
  return file->file->ReadAt(offset, buffer, bytes) == bytes;
}

}  // namespace proftrace
