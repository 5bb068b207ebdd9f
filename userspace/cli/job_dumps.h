// The dumps of the processes of one host or of several.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "userspace/cli/dump_groups.h"
#include "userspace/model/ids.h"

namespace proftrace {

// The host on which dumps were taken. A PID is unique on this host only.
struct DumpHost {
  std::string name;
  std::string boot_id;  // empty where not known
  // PID namespace of the proftrace that took the dumps, "pid:[4026531836]"; empty where not known.
  std::string pid_namespace;
  // Begin and end of the taking of dumps, by the host's wall clock.
  int64_t begin_unix_ns = 0;
  int64_t end_unix_ns = 0;
  // Whether all PyTorch processes of the host were dumped, instead of named ones.
  bool is_whole = false;
};

struct NotDumped {
  uint32_t host = 0;  // index into JobDumps::hosts
  Pid pid{};
  std::string comm;
  std::string why;  // a sentence
};

struct JobDumps {
  std::vector<DumpHost> hosts;
  std::vector<RankDump> dumps;
  std::vector<NotDumped> failed;

  DumpScope scope() const;
};

}  // namespace proftrace
