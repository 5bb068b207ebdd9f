// What a process has mounted, as far as it says who must be asked for a file.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "userspace/model/ids.h"

namespace proftrace {

// A line of /proc/PID/mountinfo (proc_pid_mountinfo(5)).
struct MountLine {
  std::string_view id;
  std::string_view device;  // "8:1"
  std::string root;
  std::string point;  // from the process's root on
  std::string_view type;
  std::string_view options;  // of the file system
};
std::optional<MountLine> ParseMountLine(std::string_view line);
// What the kernel has written for a name: "\040" for a blank.
std::string UnescapedMountText(std::string_view text);

// The mounts that a process sees.
struct MountTable {
  std::string text;
  std::vector<MountLine> lines;  // parts of `text`
};
// As they were at most a tenth of a second ago.
std::shared_ptr<const MountTable> MountsOf(Pid pid);

struct MountFacts {
  std::string type;  // empty: not known
  std::optional<uint64_t> device;
  // Another program or machine may be asked for its files. So it is taken for one where nobody
  // knows, as where it was unmounted while files of it were mapped.
  bool is_remote = true;
  // Of FUSE: who has mounted it, if only that user may open anything there.
  std::optional<uint32_t> user;
  std::optional<uint32_t> group;
};

MountFacts FactsOfMount(const MountLine& mount);
// By the device of a mapping of its files.
MountFacts MountOfDevice(Pid pid, uint64_t device);
// By a descriptor of a file that the process sees. No file system is asked.
MountFacts MountOfDescriptor(Pid pid, int fd);
// By the path of a file, from the process's root on; links in it are not followed.
MountFacts MountOfPath(Pid pid, std::string_view path);

}  // namespace proftrace
