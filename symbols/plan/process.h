// Who a target is: for the recording's header, and for `proftrace list`.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "symbols/process/process_maps.h"
#include "userspace/model/ids.h"
#include "userspace/model/job_identity.h"

namespace proftrace {

// What /proc and the files beside torch say. Fields are empty where they are not known; all texts
// come from the target.
struct ProcessInfo {
  Pid pid{};
  Pid parent{};
  Pid namespace_pid{};  // in the target's innermost PID namespace
  // In each of them, from that of this procfs on to the innermost one.
  std::vector<uint32_t> namespace_pids;
  uint64_t pid_namespace = 0;  // the innermost one's number, as in /proc/PID/ns/pid; 0 = not known
  // What its time namespace adds to the kernel's clocks; nullopt: the kernel has none.
  std::optional<int64_t> monotonic_offset_ns;
  std::optional<int64_t> boottime_offset_ns;
  std::string control_group;  // its path in the unified hierarchy, else in that of memory
  uint32_t threads = 0;
  uint32_t user_id = 0;
  uint64_t start_ticks = 0;  // since boot, in clock ticks: tells a reused PID apart
  std::string comm;
  std::string exe;
  std::vector<std::string> cmdline;
  std::string python_version;     // "3.11"
  std::string torch_version;      // "2.11.0+cu130"
  std::string cuda_version;       // "13.0"; empty for a CPU build
  std::optional<int> rank;        // RANK in its environment (process_environment.h)
  std::optional<int> world_size;  // WORLD_SIZE
  JobIdentity job;
};

// Fails with kNoTarget where it is a thread of another process.
absl::Status CheckIsNoThread(Pid pid);

// Describes a process. Fails with kNoTarget when there is no such process, or it is a thread of
// one. What may not be read stays empty.
absl::StatusOr<ProcessInfo> ReadProcessInfo(Pid pid);

// Lists processes that map a file whose name says torch, ascending by PID; those that may not be
// read are left out.
std::vector<ProcessInfo> ListTorchProcesses();

// Reads /proc/PID/timens_offsets and /proc/PID/cgroup into `info`; what they do not say stays
// empty.
void ReadTimeOffsets(std::string_view text, ProcessInfo* info);
std::string ControlGroupOf(std::string_view text);

// The versions in the text of torch/version.py: "2.11.0+cu130" and "13.0".
struct TorchVersion {
  std::string torch;
  std::string cuda;
};
TorchVersion ParseTorchVersion(std::string_view text);

// Returns the version of the torch that is mapped: from version.py in the package's folder as the
// target sees it, if its libraries are still the ones that lie there. Else, as after an upgrade
// below a running job, what the process itself has in torch.version. Empty: that cannot be read.
TorchVersion FindTorchVersion(Pid pid, const std::vector<MappedFile>& files);
// Returns the version ("3.11") in the names of libpython or of the interpreter.
std::string FindPythonVersion(const std::vector<MappedFile>& files);

}  // namespace proftrace
