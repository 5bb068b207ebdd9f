// Describes a target process, for the recording's header and for `proftrace list`.
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

// Facts from /proc and from the files beside torch. A field is empty where it is not known. All
// texts come from the target, which may have made them up.
struct ProcessInfo {
  Pid pid{};
  Pid parent{};
  Pid namespace_pid{};  // in the target's innermost PID namespace
  // Its PID in each of its PID namespaces, from that of this procfs to the innermost one.
  std::vector<uint32_t> namespace_pids;
  // The number of the innermost PID namespace, as in /proc/PID/ns/pid; 0 = not known
  uint64_t pid_namespace = 0;
  // The offsets that its time namespace adds to the kernel's clocks; nullopt: the kernel has no
  // time namespaces.
  std::optional<int64_t> monotonic_offset_ns;
  std::optional<int64_t> boottime_offset_ns;
  // Its path in the unified hierarchy (version 2), or else in the hierarchy of the memory
  // controller
  std::string control_group;
  uint32_t threads = 0;
  uint32_t user_id = 0;
  // Its start since boot, in clock ticks; tells two processes with the same PID apart
  uint64_t start_ticks = 0;
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

// Fails with kNoTarget where `pid` is the number of a thread, not of a process.
absl::Status CheckIsNoThread(Pid pid);

// Describes a process. Fails with kNoTarget where there is no such process, or `pid` is a thread of
// one. Fields that may not be read stay empty.
absl::StatusOr<ProcessInfo> ReadProcessInfo(Pid pid);

// Lists processes that map a file whose name says torch, ascending by PID; those that may not be
// read are left out.
std::vector<ProcessInfo> ListTorchProcesses();

// Reads the text of /proc/PID/timens_offsets into `info`; an offset that is not in it stays empty.
// ControlGroupOf() returns ProcessInfo::control_group from the text of /proc/PID/cgroup.
void ReadTimeOffsets(std::string_view text, ProcessInfo* info);
std::string ControlGroupOf(std::string_view text);

// The versions in torch/version.py: "2.11.0+cu130" and "13.0".
struct TorchVersion {
  std::string torch;
  std::string cuda;
};
TorchVersion ParseTorchVersion(std::string_view text);

// Returns the version of the torch that is mapped. Reads version.py in the package's folder, as the
// target sees it, if the mapped libraries still lie there. Otherwise, as after an upgrade below a
// running job, reads the variables of the module torch.version in the process. Empty: neither can
// be read.
TorchVersion FindTorchVersion(Pid pid, const std::vector<MappedFile>& files);
// Returns the version ("3.11") in the names of libpython or of the interpreter.
std::string FindPythonVersion(const std::vector<MappedFile>& files);

}  // namespace proftrace
