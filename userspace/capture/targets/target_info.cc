#include "userspace/capture/targets/target_info.h"

#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <string>
#include <utility>

#include "symbols/plan/process.h"
#include "symbols/process/process_maps.h"
#include "userspace/base/exit_status.h"
#include "userspace/base/text.h"

namespace proftrace {

Target DescribeProcess(Pid pid) {
  Target target;
  target.pid = pid;
  absl::StatusOr<ProcessInfo> info = ReadProcessInfo(pid);
  if (!info.ok()) return target;
  target.ppid = info->parent;
  target.comm = std::move(info->comm);
  target.exe = std::move(info->exe);
  target.cmdline = std::move(info->cmdline);
  target.python_version = std::move(info->python_version);
  target.torch_version = std::move(info->torch_version);
  target.cuda_version = std::move(info->cuda_version);
  target.rank = info->rank;
  target.world_size = info->world_size;
  target.job = std::move(info->job);
  target.namespace_pids = std::move(info->namespace_pids);
  target.pid_namespace = info->pid_namespace;
  target.start_ticks = info->start_ticks;
  target.monotonic_offset_ns = info->monotonic_offset_ns;
  target.boottime_offset_ns = info->boottime_offset_ns;
  target.control_group = std::move(info->control_group);
  target.threads = info->threads;
  return target;
}

std::vector<ThreadEntry> ReadThreads(Pid pid) {
  const std::string folder = "/proc/" + std::to_string(Raw(pid)) + "/task";
  std::vector<ThreadEntry> threads;
  for (const uint32_t tid : ReadNumberedEntries(folder)) {
    std::string name = ReadSmallFile(folder + "/" + std::to_string(tid) + "/comm", 64);
    if (name.empty()) continue;  // the thread has ended
    // The kernel adds one line end. A name may be empty, and have line ends of its own.
    if (name.back() == '\n') name.pop_back();
    threads.push_back(ThreadEntry{pid, Tid{tid}, std::move(name)});
  }
  return threads;
}

// Reads field 4 of /proc/PID/stat. Field 2, the name in parentheses, may hold any characters.
Pid ReadParent(Pid pid) {
  const std::string stat = ReadSmallFile("/proc/" + std::to_string(Raw(pid)) + "/stat", 4096);
  const size_t close = stat.rfind(')');
  // The text from there on is, for example, ") S 4711".
  if (close == std::string::npos || close + 4 > stat.size()) return Pid{0};
  return Pid{static_cast<uint32_t>(std::strtoul(stat.c_str() + close + 4, nullptr, 10))};
}

std::vector<Pid> ReadDescendants(Pid pid) {
  std::vector<std::pair<uint32_t, uint32_t>> links;  // child, parent
  for (const uint32_t child : ReadNumberedEntries("/proc")) {
    links.emplace_back(child, Raw(ReadParent(Pid{child})));
  }
  std::vector<Pid> found{pid};
  for (size_t i = 0; i < found.size(); ++i) {
    for (const auto& [child, parent] : links) {
      const bool is_new = std::find(found.begin(), found.end(), Pid{child}) == found.end();
      if (parent == Raw(found[i]) && is_new) found.push_back(Pid{child});
    }
  }
  found.erase(found.begin());
  return found;
}

bool Exists(Pid pid) { return kill(static_cast<pid_t>(Raw(pid)), 0) == 0 || errno == EPERM; }

bool HasProgram(Pid pid) {
  char program[1];
  const std::string link = "/proc/" + std::to_string(Raw(LivingThread(pid))) + "/exe";
  if (readlink(link.c_str(), program, sizeof(program)) >= 0) return true;
  return errno == EACCES || errno == EPERM;  // the process is there, but another user's
}

bool SharesMemory(Pid a, Pid b) {
  constexpr int kCompareMemory = 1;  // KCMP_VM
  return syscall(SYS_kcmp, Raw(a), Raw(b), kCompareMemory, 0, 0) == 0;
}

namespace {

uint32_t CountTorchMappings(const std::vector<Mapping>& maps) {
  return static_cast<uint32_t>(std::count_if(maps.begin(), maps.end(), [](const Mapping& mapping) {
    return mapping.executable && mapping.path.find("torch") != std::string::npos;
  }));
}

}  // namespace

uint32_t CountTorchMappings(Pid pid) {
  const absl::StatusOr<std::vector<Mapping>> maps = ReadMaps(pid);
  return maps.ok() ? CountTorchMappings(*maps) : 0;
}

TorchProcesses FindTorchProcesses() {
  TorchProcesses found;
  for (const uint32_t number : ReadNumberedEntries("/proc")) {
    if (number == static_cast<uint32_t>(getpid())) continue;
    const absl::StatusOr<std::vector<Mapping>> maps = ReadMaps(Pid{number});
    if (ExitCodeOf(maps.status()) == ExitCode::kNotPermitted) ++found.closed;
    if (maps.ok() && CountTorchMappings(*maps) > 0) found.pids.push_back(Pid{number});
  }
  std::sort(found.pids.begin(), found.pids.end());
  return found;
}

std::string WhyClosed(uint32_t closed, bool is_root) {
  const std::string which = OneOrMore(closed, "process", "processes") + " of the host";
  if (is_root) return "root may not look into " + which + NotEvenRoot(closed);
  return which + " may not be looked into by this user; run proftrace as root";
}

}  // namespace proftrace
