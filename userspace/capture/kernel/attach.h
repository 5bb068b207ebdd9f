// Puts a probe plan's points into the kernel, for one process, and takes them out again. Return
// probes are never used, because they replace a return address on the target's stack, which the C++
// unwinder cannot pass (docs/decisions/0001).
#pragma once

#include <absl/status/status.h>
#include <absl/status/statusor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "symbols/probe_plan.h"
#include "userspace/capture/kernel/link_guard.h"
#include "userspace/model/ids.h"

namespace proftrace {

class CookieTable;

// How the kernel is asked for uprobes.
enum class UprobeApi {
  kMulti,  // one link for each file (kernel 6.6 and later)
  kTrace,  // one event of the kernel's tracing for each file and process (kernel 5.15 and later)
  kPerf,   // a perf event and a link for each point (where tracefs cannot be written)
};

// The tables by which the programs know probes, beside their cookies.
struct ProbeTables {
  std::shared_ptr<CookieTable> cookies;  // for kMulti; null: each link is for one process
  int addresses_fd = -1;                 // for kTrace: the map probe_addresses
};

// A point that the kernel refused.
struct RefusedPoint {
  std::string module;
  uint64_t file_offset = 0;
  int error = 0;
};

struct AttachReport {
  uint32_t points = 0;  // the points that have a probe now
  std::vector<RefusedPoint> refused;
  // A sentence about points that the kernel took but that are not in the code which the process
  // runs.
  std::string unreached;
};

// Attaches every point of `module` with program `program_fd`. With `pid`, only that process is
// probed; nullopt: every process that maps the file. Points that the kernel refuses are left out
// together with the other points of their site, and reported. Where the function fails, no point of
// the module has a probe. Fails with kNoTarget when the process is gone, kNotPermitted, or
// kHostUnfit. kTrace needs a process.
absl::StatusOr<LinkSet> AttachModule(UprobeApi api, LinkGuard* guard, int program_fd,
                                     const ProbeTables& tables, const ModulePlan& module,
                                     std::optional<Pid> pid, AttachReport* report);

// Fails with kHostUnfit where something was done to the module's file since it was analysed: code
// that was written to may have other instructions where the probes are to be. To be called before
// probes are put in, and again when they are in; where that second call fails, the caller takes the
// probes out again.
absl::Status CheckUnchanged(const ModulePlan& module, std::optional<Pid> pid);

// Returns the sysfs number of the uprobe PMU; fails with kHostUnfit where there is none.
absl::StatusOr<uint32_t> UprobePmuType();

}  // namespace proftrace
