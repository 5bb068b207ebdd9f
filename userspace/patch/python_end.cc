#include "userspace/patch/python_end.h"

#include <absl/status/status.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "bpf/abi/records.h"
#include "symbols/elf/elf_file.h"
#include "symbols/elf/module_image.h"
#include "symbols/plan/window_cache.h"
#include "symbols/probe_plan.h"
#include "symbols/process/process_maps.h"
#include "symbols/x86/patch_windows.h"

namespace proftrace {
namespace {

constexpr char kFunction[] = "PyThreadState_Clear";

absl::Status NoJump(const std::string& reason) {
  return absl::FailedPreconditionError("Python's end cannot wait for threads that read: " + reason);
}

std::optional<uint64_t> FindFunction(ElfFile* file) {
  uint64_t address = 0;
  for (const bool full : {false, true}) {
    if (address != 0) break;
    file->ForEachSymbol(full, [&](const ElfSymbol& symbol) {
      if (symbol.is_defined && symbol.is_function && symbol.name() == kFunction) {
        address = symbol.address;
      }
    });
  }
  return address != 0 ? file->FileOffset(address) : std::nullopt;
}

}  // namespace

absl::StatusOr<PatchSpot> FindPythonEnd(Pid pid, const std::string& file,
                                        const std::string& cache_directory) {
  const absl::StatusOr<std::vector<Mapping>> mappings = ReadMaps(pid);
  if (!mappings.ok()) return mappings.status();
  const std::vector<MappedFile> files = GroupByFile(*mappings);
  const auto mapped = std::find_if(files.begin(), files.end(),
                                   [&file](const MappedFile& other) { return other.path == file; });
  if (mapped == files.end()) return NoJump(file + " is not mapped");
  absl::StatusOr<OpenedFile> opened = OpenMappedFile(pid, *mapped);
  if (!opened.ok()) return NoJump(std::string(opened.status().message()));
  const auto elf = ElfFile::Open(std::move(opened->file));
  if (!elf.ok()) return NoJump(std::string(elf.status().message()));
  const std::optional<uint64_t> bias = LoadBias(**elf, *mapped);
  const std::optional<uint64_t> offset = FindFunction(elf->get());
  if (!bias.has_value() || !offset.has_value()) {
    return NoJump(file + " does not say where its " + kFunction + " is");
  }
  ModulePlan module;
  module.points = {{*offset, PT_COOKIE(0, abi::PT_ROLE_PYTHON_END, 0, 0)}};
  const ModuleImage image(elf->get(), ModuleImage::Symbols::kExported);
  const std::vector<PointPatch> patches =
      FindKeptWindows(image, module, ProbePlan{}, WindowCache(cache_directory));
  if (patches.size() != 1 || !patches.front().window.has_value()) {
    return NoJump(patches.empty() ? std::string(kFunction) : patches.front().reason);
  }
  PatchSpot spot;
  spot.bias = *bias;
  spot.window = *patches.front().window;
  if (!IsOwnCodeOfFile(**elf, *mapped, spot.window.address, spot.window.size, *bias)) {
    return NoJump("what lies there is not this process's own mapping of the file");
  }
  spot.cookie = module.points.front().cookie;
  spot.original.resize(spot.window.size);
  if (image.ReadCode(spot.window.address, spot.original.data(), spot.original.size()) !=
      spot.original.size()) {
    return NoJump("its code cannot be read");
  }
  return spot;
}

bool IsPythonEnd(const PatchSpot& spot) {
  return (spot.cookie >> 16 & 0xff) == abi::PT_ROLE_PYTHON_END;
}

}  // namespace proftrace
