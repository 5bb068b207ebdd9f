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
  std::string_view options;  // the file system's
};
std::optional<MountLine> ParseMountLine(std::string_view line);
// Decodes what the kernel has written for a name: "\040" for a blank.
std::string UnescapedMountText(std::string_view text);

// The mounts that a process sees.
struct MountTable {
  std::string text;
  std::vector<MountLine> lines;  // parts of `text`
};
// Returns the mounts as they were at most a tenth of a second ago.
std::shared_ptr<const MountTable> MountsOf(Pid pid);

struct MountFacts {
  std::string type;  // empty: not known
  std::optional<uint64_t> device;
  // Whether another program or machine may be asked for its files. True where nobody knows, as
  // where it was unmounted while files of it were mapped.
  bool is_remote = true;
  // The user and group that have mounted a FUSE file system, if only they may open anything there.
  std::optional<uint32_t> user;
  std::optional<uint32_t> group;
};

MountFacts FactsOfMount(const MountLine& mount);
// Finds the mount by the device of a mapping of its files.
MountFacts MountOfDevice(Pid pid, uint64_t device);
// Finds the mount by a descriptor of a file that the process sees. Asks no file system.
MountFacts MountOfDescriptor(Pid pid, int fd);
// Finds the mount by the path of a file, from the process's root on; follows no links in it.
MountFacts MountOfPath(Pid pid, std::string_view path);

}  // namespace proftrace
