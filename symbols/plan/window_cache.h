// Windows for jumps, kept on disk (cache_folder.h): they depend on a library's file, on the points
// in it and on what is read there, and take a second to find.
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

  // Returns the windows of these points of the file, in their order; nullopt: they are not known.
  // The file is `module.held`.
  std::optional<std::vector<PointPatch>> Load(const ModulePlan& module,
                                              const std::vector<PatchPoint>& points) const;
  void Store(const ModulePlan& module, const std::vector<PatchPoint>& points,
             const std::vector<PointPatch>& patches) const;

 private:
  CacheFolder folder_;
};

// Loads the windows of the module's points, or has a worker without rights find them as
// FindPatchWindows() does, and keeps them then. Nothing of its file is read here.
std::vector<PointPatch> FindKeptWindows(const ModulePlan& module, const ProbePlan& plan,
                                        const WindowCache& cache);

// Returns the content of an entry; `key` says whose it is.
std::string EncodeWindows(std::string_view key, const std::vector<PointPatch>& patches);
// nullopt: something is not as in an entry for the points of that key.
std::optional<std::vector<PointPatch>> DecodeWindows(std::string_view bytes, std::string_view key,
                                                     const std::vector<PatchPoint>& points);

}  // namespace proftrace
