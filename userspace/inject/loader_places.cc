#include "userspace/inject/loader_places.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <utility>

#include "symbols/elf/elf_file.h"
#include "symbols/plan/target_worker.h"
#include "symbols/process/cache_bytes.h"
#include "symbols/process/process_memory.h"
#include "userspace/base/exit_status.h"

namespace proftrace {
namespace {

constexpr std::array<uint8_t, 3> kSystemCall = {0x0f, 0x05, 0xc3};  // syscall; ret
// mov $15, %rax; syscall: glibc's __restore_rt. Unwinders know the function by these bytes.
constexpr std::array<uint8_t, 9> kRestorer = {0x48, 0xc7, 0xc0, 0x0f, 0, 0, 0, 0x0f, 0x05};
constexpr int64_t kLongestReadingS = 20;
constexpr uint64_t kMostCodeBytes = uint64_t{64} << 20;

std::string_view BaseName(std::string_view path) { return path.substr(path.rfind('/') + 1); }

const MappedFile* FindFile(const std::vector<MappedFile>& files, std::string_view prefix) {
  const auto found = std::find_if(files.begin(), files.end(), [prefix](const MappedFile& file) {
    return BaseName(file.path).starts_with(prefix);
  });
  return found == files.end() ? nullptr : &*found;
}

struct Export {
  std::string name;
  uint64_t address = 0;  // in the target
  uint64_t bytes = 0;
};

// Finds the functions of these names that the files export; a worker without rights reads the
// files. Where several functions have one name, only the first is returned. The result has no
// particular order.
std::vector<Export> FindExports(Pid pid, const std::vector<const MappedFile*>& files,
                                const std::vector<std::string_view>& names) {
  const auto read = [&]() -> absl::StatusOr<std::string> {
    CacheWriter out;
    std::set<std::string_view> left(names.begin(), names.end());
    for (const MappedFile* mapped : files) {
      if (left.empty()) break;
      absl::StatusOr<OpenedFile> opened = OpenMappedFile(pid, *mapped);
      if (!opened.ok()) continue;
      const auto elf = ElfFile::Open(std::move(opened->file));
      const auto bias = elf.ok() ? LoadBias(**elf, *mapped) : std::nullopt;
      if (!bias.has_value()) continue;
      (*elf)->ForEachSymbol(/*full=*/false, [&](const ElfSymbol& symbol) {
        if (!symbol.is_function || !symbol.is_defined || left.erase(symbol.name()) == 0) return;
        out.Text(symbol.name());
        out.Number(symbol.address + *bias);
        out.Number(symbol.size);
      });
    }
    return out.Take();
  };
  const absl::StatusOr<std::string> bytes = ReadInWorker(pid, kLongestReadingS, read);
  std::vector<Export> exports;
  if (!bytes.ok()) return exports;
  CacheReader in(*bytes);
  while (in.ok() && !in.at_end()) {
    Export found{in.Text(), in.Number<uint64_t>(), in.Number<uint64_t>()};
    // A worker's answer is believed only if it is an address in code of these files: nothing else
    // is called or changed.
    const bool is_code = std::any_of(files.begin(), files.end(), [&](const MappedFile* file) {
      return std::any_of(file->mappings.begin(), file->mappings.end(), [&](const Mapping& mapping) {
        return mapping.executable && mapping.start <= found.address &&
               found.address < mapping.end && found.bytes <= mapping.end - found.address;
      });
    });
    if (in.ok() && is_code) exports.push_back(std::move(found));
  }
  return exports;
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
  std::vector<std::string_view> names;
  for (const auto& [name, place] : wanted) names.push_back(name);
  std::vector<const MappedFile*> libraries = {libc};
  // Before glibc 2.34 these functions are in a library of their own.
  for (const std::string_view prefix : {"libdl.so.2", "libdl-2."}) {
    if (const MappedFile* libdl = FindFile(files, prefix)) libraries.push_back(libdl);
  }
  for (const Export& found : FindExports(pid, libraries, names)) {
    for (const auto& [name, place] : wanted) {
      if (found.name == name && *place == 0) *place = found.address;
    }
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

std::vector<ExportedFunction> FindExportedFunctions(Pid pid, const std::vector<MappedFile>& files,
                                                    const std::vector<FunctionName>& wanted) {
  std::vector<ExportedFunction> functions(wanted.size());
  std::map<std::string, std::vector<size_t>> by_file;  // by prefix: indices into `wanted`
  for (size_t i = 0; i < wanted.size(); ++i) by_file[wanted[i].file_prefix].push_back(i);
  for (const auto& [prefix, indices] : by_file) {
    std::vector<const MappedFile*> with;
    for (const MappedFile& file : files) {
      if (BaseName(file.path).starts_with(prefix)) with.push_back(&file);
    }
    if (with.empty()) continue;
    std::vector<std::string_view> names;
    for (const size_t i : indices) names.push_back(wanted[i].symbol);
    for (const Export& found : FindExports(pid, with, names)) {
      for (const size_t i : indices) {
        if (wanted[i].symbol == found.name) functions[i] = {found.address, found.bytes};
      }
    }
  }
  return functions;
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
