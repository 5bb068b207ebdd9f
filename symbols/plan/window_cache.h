// Keeps windows for jumps on disk (cache_folder.h), because it takes a second to find them. They
// depend on a library's file, on the points in it and on the registers and memory that are read
// there.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "symbols/plan/cache_folder.h"
#include "symbols/probe_plan.h"
#include "symbols/x86/patch_windows.h"

namespace proftrace {

class WindowCache {
 public:
  explicit WindowCache(const std::string& directory)
      : folder_(directory, {'P', 'T', 'W', 'I', 'N', 'D', 'O', '\n'}) {}

  // Returns the windows of these points of the file `module.held`, in the order of `points`;
  // nullopt: they are not kept.
  std::optional<std::vector<PointPatch>> Load(const ModulePlan& module,
                                              const std::vector<PatchPoint>& points) const;
  void Store(const ModulePlan& module, const std::vector<PatchPoint>& points,
             const std::vector<PointPatch>& patches) const;

 private:
  CacheFolder folder_;
};

// Loads the windows of the module's points. Where they are not kept, has a worker without rights
// find them by FindPatchWindows(), and keeps them. This process reads nothing of the file.
std::vector<PointPatch> FindKeptWindows(const ModulePlan& module, const ProbePlan& plan,
                                        const WindowCache& cache);

// Returns the content of an entry. `key` identifies the file and its points.
std::string EncodeWindows(std::string_view key, const std::vector<PointPatch>& patches);
// Decodes the content of an entry. nullopt: it is no entry of that key for these points.
std::optional<std::vector<PointPatch>> DecodeWindows(std::string_view bytes, std::string_view key,
                                                     const std::vector<PatchPoint>& points);

}  // namespace proftrace
