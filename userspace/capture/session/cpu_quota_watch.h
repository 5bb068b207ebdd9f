// Reads what limits the CPU time of recorded processes, for the capture: their quotas, once a
// second, and the CPUs that they may run on. How often a quota was used up is the difference of two
// readings. Not thread-safe.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "symbols/process/cpu_quotas.h"
#include "userspace/model/cpu_mask.h"
#include "userspace/model/ids.h"
#include "userspace/wire/metadata.h"

namespace proftrace {

class CpuQuotaWatch {
 public:
  bool IsDue(int64_t now_ns) const { return now_ns >= next_ns_; }
  // Reads the groups and CPU masks of processes that are new, and the counters of all groups, and
  // adds all to `writer`. A group that cannot be read is left out of the snapshot. As long as no
  // group has a quota, an empty snapshot is written only once, and where `is_asked` is set.
  void Look(std::span<const Pid> pids, int64_t now_ns, bool is_asked, MetadataWriter* writer);
  // Looks for the last time. Also says which processes have moved to other groups or have another
  // mask, so that these are not known.
  void Finish(std::span<const Pid> pids, int64_t now_ns, MetadataWriter* writer);

 private:
  void AddMask(Pid pid, MetadataWriter* writer);
  void AddGroups(Pid pid, MetadataWriter* writer);

  std::map<uint32_t, std::optional<CpuMask>> masks_;     // by pid
  std::map<uint32_t, std::vector<CpuGroup>> groups_of_;  // by pid
  std::set<uint32_t> unknown_;                           // pids
  std::map<std::string, CpuGroup> groups_;               // by folder
  int64_t next_ns_ = 0;
  bool has_said_none_ = false;
};

}  // namespace proftrace
