#include "symbols/plan/window_cache.h"

#include <absl/strings/str_format.h>
#include <xxhash.h>

#include <algorithm>
#include <utility>

#include "symbols/elf/elf_file.h"
#include "symbols/elf/module_image.h"
#include "symbols/process/asked_files.h"
#include "symbols/process/cache_bytes.h"
#include "symbols/process/target_entries.h"
#include "userspace/sandbox/worker.h"

namespace proftrace {
namespace {

// The largest distance between a point and its window, in bytes.
constexpr uint64_t kMostReach = 64;

enum WindowFlags : uint8_t {
  kMemoryChanged = 1,
  kVectorsChanged = 2,
  kLosesReads = 4,
  kFlagsAreLive = 8,
  kRedZoneMayBeUsed = 16,
  kHasCall = 32,
};

uint8_t FlagsOf(const PatchWindow& window) {
  return static_cast<uint8_t>(
      (window.memory_changed ? kMemoryChanged : 0) |
      (window.vectors_changed ? kVectorsChanged : 0) | (window.loses_reads ? kLosesReads : 0) |
      (window.flags_are_live ? kFlagsAreLive : 0) |
      (window.red_zone_may_be_used ? kRedZoneMayBeUsed : 0) | (window.has_call ? kHasCall : 0));
}

void SetFlags(uint8_t flags, PatchWindow* window) {
  window->memory_changed = (flags & kMemoryChanged) != 0;
  window->vectors_changed = (flags & kVectorsChanged) != 0;
  window->loses_reads = (flags & kLosesReads) != 0;
  window->flags_are_live = (flags & kFlagsAreLive) != 0;
  window->red_zone_may_be_used = (flags & kRedZoneMayBeUsed) != 0;
  window->has_call = (flags & kHasCall) != 0;
}

// Returns a key that identifies the file, its points and what is read there. Empty: the windows may
// not be kept.
std::string KeyOf(const ModulePlan& module, const std::vector<PatchPoint>& points) {
  CacheWriter asked;
  for (const PatchPoint& point : points) {
    asked.Number(point.address);
    asked.Number(point.reads.registers);
    asked.Number(static_cast<uint8_t>((point.reads.memory ? 1 : 0) | (point.reads.vectors ? 2 : 0) |
                                      (point.reads.place.has_value() ? 4 : 0)));
    if (!point.reads.place.has_value()) continue;
    asked.Number(point.reads.place->base);
    asked.Number(static_cast<uint64_t>(point.reads.place->offset));
    asked.Number(point.reads.place->bytes);
  }
  const std::string identity = FileIdentity(*module.held, module.build_id);
  if (identity.empty()) return "";
  const std::string bytes = asked.Take();
  const XXH128_hash_t hash = XXH3_128bits(bytes.data(), bytes.size());
  return absl::StrFormat("%s %016x%016x", identity, hash.high64, hash.low64);
}

bool IsNear(uint64_t address, uint64_t point) {
  return address + kMostReach >= point && address <= point + kMostReach;
}

bool IsSound(const PatchWindow& window, uint64_t point) {
  return window.size >= kWindowBytes && window.size <= kMostReach &&
         IsNear(window.address, point) && window.recorder >= window.address &&
         window.recorder <= window.end();
}

// The begin of PointPatch::reason where the search itself failed. Such results are not kept.
constexpr std::string_view kNoWorker = "the process that looks for room";
constexpr int64_t kLongestSearchS = 120;

// Finds the windows, in a worker without rights, because the file's machine code is not trusted.
absl::StatusOr<std::string> FindWindowsHere(const ModulePlan& module, const ProbePlan& plan,
                                            const std::vector<PatchPoint>& points) {
  const auto file = ElfFile::Open(module.held);
  if (!file.ok()) return file.status();
  const ModuleImage image(file->get(), ModuleImage::Symbols::kExported);
  const std::vector<PointPatch> patches = FindPatchWindows(image, module, plan);
  // Entries are kept by the addresses in the plan, so that the file must give the same ones.
  const bool are_same = std::equal(patches.begin(), patches.end(), points.begin(), points.end(),
                                   [](const PointPatch& patch, const PatchPoint& point) {
                                     return patch.point == point.address;
                                   });
  if (!are_same) return absl::DataLossError("its segments are not those of the plan");
  return EncodeWindows("", patches);
}

std::vector<PointPatch> FindWindowsInWorker(const ModulePlan& module, const ProbePlan& plan,
                                            const std::vector<PatchPoint>& points) {
  WorkerOrder order;
  order.what = std::string(kNoWorker.substr(std::string_view("the process that ").size()));
  const HeldFile& held = *module.held;
  if (!held.is_remote()) order.keeps = {held.fd()};
  order.longest_s = kLongestSearchS;
  const absl::StatusOr<std::string> bytes = RunWorker(
      order,
      [&](WorkerChannel* channel) -> absl::StatusOr<std::string> {
        AskForEntries(channel);
        return FindWindowsHere(module, plan, points);
      },
      [&](std::string_view question) { return AnswerForFile(held, question); });
  std::string reason = std::string(kNoWorker) + " failed";
  if (bytes.ok()) {
    if (auto patches = DecodeWindows(*bytes, "", points)) return *std::move(patches);
  } else {
    const std::string why(bytes.status().message());
    reason = why.starts_with(kNoWorker) ? why : reason + ": " + why;
  }
  std::vector<PointPatch> none;
  for (const PatchPoint& point : points) {
    PointPatch patch;
    patch.point = point.address;
    patch.reason = reason;
    none.push_back(std::move(patch));
  }
  return none;
}

}  // namespace

std::string EncodeWindows(std::string_view key, const std::vector<PointPatch>& patches) {
  CacheWriter out;
  out.Text(key);
  out.Number(static_cast<uint32_t>(patches.size()));
  for (const PointPatch& patch : patches) {
    out.Number(static_cast<uint8_t>(patch.window.has_value() ? 1 : 0));
    if (!patch.window.has_value()) {
      out.Text(patch.reason);
      continue;
    }
    const PatchWindow& window = *patch.window;
    out.Number(window.address);
    out.Number(window.size);
    out.Number(window.recorder);
    out.Number(static_cast<uint32_t>(window.stack_change));
    out.Number(window.changed);
    out.Number(window.dead);
    out.Number(FlagsOf(window));
  }
  return out.Take();
}

std::optional<std::vector<PointPatch>> DecodeWindows(std::string_view bytes, std::string_view key,
                                                     const std::vector<PatchPoint>& points) {
  CacheReader in(bytes);
  if (in.Text() != key || in.Number<uint32_t>() != points.size()) return std::nullopt;
  std::vector<PointPatch> patches;
  for (const PatchPoint& point : points) {
    PointPatch patch;
    patch.point = point.address;
    if (in.Number<uint8_t>() == 0) {
      patch.reason = in.Text();
    } else {
      PatchWindow window;
      window.address = in.Number<uint64_t>();
      window.size = in.Number<uint8_t>();
      window.recorder = in.Number<uint64_t>();
      window.stack_change = static_cast<int32_t>(in.Number<uint32_t>());
      window.changed = in.Number<RegisterSet>();
      window.dead = in.Number<RegisterSet>();
      SetFlags(in.Number<uint8_t>(), &window);
      if (!IsSound(window, point.address)) return std::nullopt;
      patch.window = window;
    }
    if (!in.ok()) return std::nullopt;
    patches.push_back(std::move(patch));
  }
  if (!in.at_end()) return std::nullopt;
  return patches;
}

std::optional<std::vector<PointPatch>> WindowCache::Load(
    const ModulePlan& module, const std::vector<PatchPoint>& points) const {
  if (!folder_.usable()) return std::nullopt;
  const std::string key = KeyOf(module, points);
  const std::optional<std::string> content = folder_.Load(key);
  return content ? DecodeWindows(*content, key, points) : std::nullopt;
}

void WindowCache::Store(const ModulePlan& module, const std::vector<PatchPoint>& points,
                        const std::vector<PointPatch>& patches) const {
  if (!folder_.usable()) return;
  const std::string key = KeyOf(module, points);
  folder_.Store(key, EncodeWindows(key, patches));
}

std::vector<PointPatch> FindKeptWindows(const ModulePlan& module, const ProbePlan& plan,
                                        const WindowCache& cache) {
  std::vector<PatchPoint> points;
  points.reserve(module.points.size());
  for (const ProbePoint& point : module.points) {
    points.push_back(
        {AddressOfOffsetIn(module.segments, point.file_offset).value_or(0), ReadsOf(point, plan)});
  }
  if (auto kept = cache.Load(module, points)) return *std::move(kept);
  std::vector<PointPatch> patches = FindWindowsInWorker(module, plan, points);
  const bool is_sound = std::none_of(patches.begin(), patches.end(), [](const PointPatch& patch) {
    return patch.reason.starts_with(kNoWorker);
  });
  if (is_sound) cache.Store(module, points, patches);
  return patches;
}

}  // namespace proftrace
