// The dumps of the processes of one host or of several.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "userspace/cli/dump_groups.h"
#include "userspace/model/ids.h"

namespace proftrace {

// Where dumps were taken. A PID is one process on it.
struct DumpHost {
  std::string name;
  std::string boot_id;        // empty = not known
  std::string pid_namespace;  // "pid:[4026531836]", of the proftrace that read; empty = not known
  // When that began and ended, by the host's wall clock.
  int64_t begin_unix_ns = 0;
  int64_t end_unix_ns = 0;
  bool is_whole = false;  // all PyTorch processes were looked for, not some that were named
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
