#include "userspace/patch/python_end.h"

#include <absl/status/status.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bpf/abi/records.h"
#include "symbols/elf/elf_file.h"
#include "symbols/elf/elf_segments.h"
#include "symbols/plan/target_worker.h"
#include "symbols/plan/window_cache.h"
#include "symbols/probe_plan.h"
#include "symbols/process/cache_bytes.h"
#include "symbols/process/process_maps.h"
#include "symbols/x86/patch_windows.h"

namespace proftrace {
namespace {

constexpr char kFunction[] = "PyThreadState_Clear";
constexpr int64_t kLongestReadingS = 20;

absl::Status NoJump(const std::string& reason) {
  return absl::FailedPreconditionError("Python's end cannot wait for threads that read: " + reason);
}

// Finds where the function lies in the file, and the facts of the file that a plan has. Runs in a
// worker.
absl::StatusOr<std::string> FindFunction(Pid pid, const MappedFile& mapped) {
  absl::StatusOr<OpenedFile> opened = OpenMappedFile(pid, mapped);
  if (!opened.ok()) return opened.status();
  const auto file = ElfFile::Open(std::move(opened->file));
  if (!file.ok()) return file.status();
  uint64_t address = 0;
  for (const bool full : {false, true}) {
    if (address != 0) break;
    (*file)->ForEachSymbol(full, [&](const ElfSymbol& symbol) {
      if (symbol.is_defined && symbol.is_function && symbol.name() == kFunction) {
        address = symbol.address;
      }
    });
  }
  CacheWriter out;
  out.Number(address != 0 ? (*file)->FileOffset(address).value_or(0) : 0);
  out.Text((*file)->build_id());
  for (const Elf64_Phdr& segment : (*file)->segments()) out.Text(BytesOfPlain(segment));
  return out.Take();
}

// Reads the worker's answer. The module has one point, at the function, or none if the file does
// not define it.
absl::StatusOr<ModulePlan> FindModule(Pid pid, const MappedFile& mapped) {
  const absl::StatusOr<std::string> found =
      ReadInWorker(pid, kLongestReadingS, [&] { return FindFunction(pid, mapped); });
  if (!found.ok()) return found.status();
  absl::StatusOr<OpenedFile> opened = OpenMappedFile(pid, mapped);
  if (!opened.ok()) return opened.status();
  ModulePlan module;
  module.held = std::move(opened->file);
  CacheReader in(*found);
  const uint64_t offset = in.Number<uint64_t>();
  module.build_id = in.Text();
  while (in.ok() && !in.at_end()) {
    Elf64_Phdr segment;
    if (!TakePlain(in.Text(), &segment) || !IsLoadedFromFile(segment)) break;
    module.segments.push_back(segment);
  }
  if (offset != 0) module.points = {{offset, PT_COOKIE(0, abi::PT_ROLE_PYTHON_END, 0, 0)}};
  return module;
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
  const absl::StatusOr<ModulePlan> module = FindModule(pid, *mapped);
  if (!module.ok()) return NoJump(std::string(module.status().message()));
  const std::optional<uint64_t> bias = LoadBias(module->segments, *mapped);
  if (!bias.has_value() || module->points.empty()) {
    return NoJump(file + " does not say where its " + kFunction + " is");
  }
  const std::vector<PointPatch> patches =
      FindKeptWindows(*module, ProbePlan{}, WindowCache(cache_directory));
  if (patches.size() != 1 || !patches.front().window.has_value()) {
    return NoJump(patches.empty() ? std::string(kFunction) : patches.front().reason);
  }
  PatchSpot spot;
  spot.bias = *bias;
  spot.window = *patches.front().window;
  if (!IsOwnCodeOfFile(module->segments, *mapped, spot.window.address, spot.window.size, *bias)) {
    return NoJump("what lies there is not this process's own mapping of the file");
  }
  spot.cookie = module->points.front().cookie;
  const std::optional<uint64_t> offset = FileOffsetIn(module->segments, spot.window.address);
  spot.original.resize(spot.window.size);
  if (!offset.has_value() || module->held->ReadAt(*offset, spot.original.data(),
                                                  spot.original.size()) != spot.original.size()) {
    return NoJump("its code cannot be read");
  }
  return spot;
}

bool IsPythonEnd(const PatchSpot& spot) {
  return (spot.cookie >> 16 & 0xff) == abi::PT_ROLE_PYTHON_END;
}

}  // namespace proftrace
