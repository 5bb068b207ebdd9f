// Tells whether the kernel's probes are in the code that a process really runs. The kernel puts
// them into private mappings of the probed file. It puts none where the process runs the same code
// from somewhere else: text that was copied to anonymous memory (huge pages), a shared or writable
// mapping, a file that overlayfs has copied up since it was mapped. Nothing would be recorded
// there, and nothing would say so. Therefore each place is looked at after attaching.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "symbols/probe_plan.h"
#include "symbols/process/process_maps.h"
#include "symbols/process/process_memory.h"
#include "userspace/capture/kernel/attach.h"
#include "userspace/model/ids.h"

namespace proftrace {

// The places of one file that have no probe although the kernel has accepted probes there.
struct UnreachedCode {
  std::string module;      // its name, from the target
  size_t points = 0;       // places in the plan
  size_t refused = 0;      // of these, places of sites that the kernel refused
  size_t not_of_file = 0;  // executable memory lies there that is not mapped from the file
  size_t unmapped = 0;     // nothing executable lies there
  size_t without = 0;      // the file's code lies there, without a breakpoint

  size_t accepted() const { return points - refused; }
  size_t unreached() const { return not_of_file + unmapped + without; }
};

// Reads `bytes` of a module's file at an offset; false where that fails.
using ReadModuleFile =
    std::function<bool(const ModulePlan& module, uint64_t offset, void* buffer, size_t bytes)>;

// Returns the files of `modules` that have places without a probe. Sites that the kernel refused
// (`report`) are not among these places. A few places of each mapping are read, and all of them
// where one of the few has no probe. A place that cannot be read counts as probed.
std::vector<UnreachedCode> FindUnreachedCode(const std::vector<Mapping>& mappings,
                                             const TargetMemory& memory,
                                             const ReadModuleFile& read_file,
                                             const std::vector<ModulePlan>& modules,
                                             const AttachReport& report);
// Does the same for a running process; empty where the process cannot be read or has ended.
std::vector<UnreachedCode> FindUnreachedCode(Pid pid, const std::vector<ModulePlan>& modules,
                                             const AttachReport& report);

// Whether a running process has at least one of the module's probes; true also where that cannot be
// found out.
bool HasAnyProbe(Pid pid, const ModulePlan& module, const AttachReport& report);

// Returns the files of `modules` whose code the process runs from memory that is not mapped from
// the file, as where it has moved the code since the probes were placed. Only `not_of_file` is
// counted: by now a budget may have taken probes out, and the process may have unloaded a library.
std::vector<UnreachedCode> FindMovedCode(const std::vector<Mapping>& mappings,
                                         const std::vector<ModulePlan>& modules);
// Does the same for a running process; empty where its mappings cannot be read, or the process has
// ended.
std::vector<UnreachedCode> FindMovedCode(Pid pid, const std::vector<ModulePlan>& modules);

// Says in one sentence how many places of which files are not reached, and why; nullopt where all
// are reached.
std::optional<std::string> DescribeUnreachedCode(const std::vector<UnreachedCode>& unreached);

}  // namespace proftrace
