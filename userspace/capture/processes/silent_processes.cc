#include "userspace/capture/processes/silent_processes.h"

#include <cstdio>
#include <vector>

namespace proftrace {

std::optional<std::string> SilentProcesses::Describe(std::span<const Pid> pids,
                                                     const ProcessCpuTimes& cpu_times,
                                                     const std::set<uint32_t>& explained) const {
  std::vector<std::string> named;
  size_t more = 0;
  for (const Pid pid : pids) {
    const int64_t cpu_ns = cpu_times.Of(pid).value_or(0);
    if (cpu_ns < kLeastCpuNs || with_rows_.contains(Raw(pid)) || explained.contains(Raw(pid))) {
      continue;
    }
    if (named.size() == kMostNamed) {
      ++more;
      continue;
    }
    char text[64];
    std::snprintf(text, sizeof(text), "PID %u (%.2f s of CPU time)", Raw(pid),
                  static_cast<double>(cpu_ns) * 1e-9);
    named.emplace_back(text);
  }
  if (named.empty()) return std::nullopt;
  std::string list;
  for (size_t i = 0; i < named.size(); ++i) {
    const bool is_last = more == 0 && i + 1 == named.size();
    list += (i == 0 ? "" : is_last ? " and " : ", ") + named[i];
  }
  if (more > 0) list += " and " + std::to_string(more) + " more";
  return list;
}

std::string WhySilent(const std::string& processes, bool records_lost) {
  return processes +
         " ran, but there is no row: no thread entered or left a function of PyTorch that is "
         "recorded" +
         (records_lost ? ", or the records of it are among those that were lost"
                       : ", so it worked elsewhere (in Python, in another library) or in one long "
                         "call; record for longer, or see with --sample where it is");
}

}  // namespace proftrace
