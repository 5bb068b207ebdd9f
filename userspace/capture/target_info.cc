#include "userspace/capture/target_info.h"

#include <dirent.h>

#include <cstdlib>
#include <string>
#include <utility>

#include "symbols/process.h"
#include "symbols/process_maps.h"

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
  target.threads = info->threads;
  return target;
}

std::vector<ThreadEntry> ReadThreads(Pid pid) {
  const std::string folder = "/proc/" + std::to_string(Raw(pid)) + "/task";
  std::vector<ThreadEntry> threads;
  DIR* directory = opendir(folder.c_str());
  if (directory == nullptr) return threads;
  while (const dirent* entry = readdir(directory)) {
    const unsigned long tid = std::strtoul(entry->d_name, nullptr, 10);
    if (tid == 0) continue;
    std::string name = ReadSmallFile(folder + "/" + entry->d_name + "/comm", 64);
    while (!name.empty() && name.back() == '\n') name.pop_back();
    if (!name.empty()) {
      threads.push_back(ThreadEntry{pid, Tid{static_cast<uint32_t>(tid)}, std::move(name)});
    }
  }
  closedir(directory);
  return threads;
}

bool HasTorch(Pid pid) {
  absl::StatusOr<std::vector<Mapping>> maps = ReadMaps(pid);
  if (!maps.ok()) return false;
  for (const Mapping& mapping : *maps) {
    if (mapping.executable && mapping.path.find("torch") != std::string::npos) return true;
  }
  return false;
}

}  // namespace proftrace
