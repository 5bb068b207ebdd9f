#include "symbols/plan/plan_dump_patches.h"

#include <chrono>
#include <cstdio>
#include <ctime>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "symbols/torch/module_analysis.h"
#include "symbols/x86/moved_code.h"
#include "symbols/x86/patch_windows.h"

namespace proftrace {
namespace {

struct Counts {
  size_t points = 0;
  size_t windows = 0;
  size_t inside = 0;      // the recorder runs between instructions of the window
  size_t with_flags = 0;  // flags are live
  size_t with_call = 0;   // a call would be moved
  size_t with_red_zone = 0;
  size_t loses_reads = 0;
  size_t moved_bytes = 0;
  size_t not_moved = 0;
  std::map<std::string, size_t> reasons;
  std::map<int, size_t> dead;  // windows by how many registers are dead
  std::map<int, size_t> sizes;
};

bool IsExit(uint64_t role) {
  switch (role) {
    case abi::PT_ROLE_END:
    case abi::PT_ROLE_BOXED_END:
    case abi::PT_ROLE_GUARD_END:
    case abi::PT_ROLE_GUARD_UNWOUND:
    case abi::PT_ROLE_FRAME_END:
    case abi::PT_ROLE_WORK_END:
    case abi::PT_ROLE_UNWOUND:
    case abi::PT_ROLE_RANGE_POP:
      return true;
    default:
      return false;
  }
}

// The assumed distance of trampolines: as far away as the nearest gap in a process with torch and
// CUDA.
constexpr uint64_t kDistance = uint64_t{1} << 30;

// Returns how many bytes the window's instructions take at that distance; nullopt: they cannot be
// moved there.
std::optional<size_t> MovedBytes(const ModuleImage& image, const PatchWindow& window) {
  std::vector<uint8_t> code(window.size);
  if (image.ReadCode(window.address, code.data(), code.size()) != code.size()) return std::nullopt;
  const auto moved = MoveCode(code, window.address + kDistance, window.address);
  return moved.ok() ? std::optional(moved->size()) : std::nullopt;
}

void Add(const ModuleImage& image, const PointPatch& patch, Counts* counts) {
  ++counts->points;
  if (!patch.window) {
    ++counts->reasons[std::string(patch.reason)];
    return;
  }
  const PatchWindow& window = *patch.window;
  ++counts->windows;
  counts->inside += window.recorder != window.address ? 1 : 0;
  counts->with_flags += window.flags_are_live ? 1 : 0;
  counts->with_call += window.has_call ? 1 : 0;
  counts->with_red_zone += window.red_zone_may_be_used ? 1 : 0;
  counts->loses_reads += window.loses_reads ? 1 : 0;
  ++counts->dead[__builtin_popcount(window.dead)];
  ++counts->sizes[window.size];
  const std::optional<size_t> moved = MovedBytes(image, window);
  counts->moved_bytes += moved.value_or(0);
  counts->not_moved += moved ? 0 : 1;
}

void PrintHistogram(const char* name, const std::map<int, size_t>& counts) {
  std::printf("    %s:", name);
  for (const auto& [value, count] : counts) std::printf(" %d: %zu", value, count);
  std::printf("\n");
}

void Print(const std::string& name, const Counts& counts) {
  std::printf(
      "  %s: %zu points, %zu windows (%.2f %%); %zu with a recorder inside, %zu with live flags, "
      "%zu with a moved call, %zu with a red zone, %zu lose what is read\n",
      name.c_str(), counts.points, counts.windows,
      100.0 * static_cast<double>(counts.windows) / static_cast<double>(counts.points),
      counts.inside, counts.with_flags, counts.with_call, counts.with_red_zone, counts.loses_reads);
  for (const auto& [reason, count] : counts.reasons) {
    std::printf("    %zu without: %s\n", count, reason.c_str());
  }
  PrintHistogram("dead registers", counts.dead);
  PrintHistogram("bytes", counts.sizes);
  std::printf("    moved by 1 GiB: %zu bytes, %zu cannot be\n", counts.moved_bytes,
              counts.not_moved);
}

void PrintPoint(const PointPatch& patch, uint64_t role, const std::string& symbol) {
  std::printf("  point %#lx role %lu ", static_cast<unsigned long>(patch.point),
              static_cast<unsigned long>(role));
  if (patch.window) {
    std::printf("window %#lx bytes %d recorder %#lx",
                static_cast<unsigned long>(patch.window->address), patch.window->size,
                static_cast<unsigned long>(patch.window->recorder));
  } else {
    std::printf("none: %s", std::string(patch.reason).c_str());
  }
  std::printf(" %.100s\n", symbol.c_str());
}

void PrintModule(const ModulePlan& module, const ProbePlan& plan, bool lists) {
  using Clock = std::chrono::steady_clock;
  auto file = ElfFile::Open(module.held);
  if (!file.ok()) {
    std::printf("%s: %s\n", module.name.c_str(), std::string(file.status().message()).c_str());
    return;
  }
  const auto start = Clock::now();
  const ModuleImage image(file->get(), ModuleImage::Symbols::kExported);
  const auto opened = Clock::now();
  const std::clock_t cpu_before = std::clock();  // the processor time of all threads
  const std::vector<PointPatch> patches = FindPatchWindows(image, module, plan);
  const auto done = Clock::now();
  const double cpu_seconds = static_cast<double>(std::clock() - cpu_before) / CLOCKS_PER_SEC;
  std::map<std::string, Counts> kinds;
  std::set<size_t> operators;
  std::set<size_t> not_whole;
  for (size_t i = 0; i < patches.size(); ++i) {
    const uint64_t cookie = module.points[i].cookie;
    const size_t site = cookie & 0xffff;
    const uint64_t role = cookie >> 16 & 0xff;
    const bool is_operator = !OperatorIdentifier(plan.sites[site].symbol).empty();
    Add(image, patches[i],
        &kinds[std::string(is_operator ? "operators, " : "others, ") +
               (IsExit(role) ? "exits" : "begins")]);
    if (is_operator) operators.insert(site);
    if (is_operator && !patches[i].window) not_whole.insert(site);
    if (lists) PrintPoint(patches[i], role, plan.sites[site].symbol);
  }
  const auto seconds = [](auto duration) {
    return std::chrono::duration<double>(duration).count();
  };
  std::printf("%s: windows found in %.3f s (%.3f s of processors), after %.3f s for its tables\n",
              module.name.c_str(), seconds(done - opened), cpu_seconds, seconds(opened - start));
  if (!operators.empty()) {
    std::printf("  operators: %zu, with all their points %zu\n", operators.size(),
                operators.size() - not_whole.size());
  }
  for (const auto& [name, counts] : kinds) Print(name, counts);
}

}  // namespace

void PrintPatches(const ProbePlan& plan, bool lists) {
  std::printf("torch %s\n", plan.torch_version.c_str());
  for (const ModulePlan& module : plan.modules) PrintModule(module, plan, lists);
}

}  // namespace proftrace
