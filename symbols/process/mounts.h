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

// The folders that an overlay is made of, as they were named to mount(2): uppermost first, from the
// root of whoever has mounted it on, or, where they do not begin with a slash, from its folder on.
struct OverlayLayers {
  std::vector<std::string> lower;
  std::vector<std::string> others;  // where changes go, and where the bytes of files lie apart
};
// Empty: it is no overlay.
OverlayLayers LayersOf(const MountLine& mount);

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
  // Whether another program or machine may be asked for its files, also for those of a layer below
  // it. True where nobody knows, as where it was unmounted while files of it were mapped.
  bool is_remote = true;
  // The user and group that have mounted a FUSE file system, if only they may open anything there.
  std::optional<uint32_t> user;
  std::optional<uint32_t> group;
};

// Returns what its line alone tells.
MountFacts FactsOfMount(const MountLine& mount);
// Whether a layer of an overlay lies on a file system that is remote, by one of the tables (of the
// process that sees the overlay, and of whoever may have mounted it). Overlays of overlays are
// looked through.
bool HasRemoteLayer(const MountLine& mount, const std::vector<const MountTable*>& tables);
// Whether that is so of any overlay that the process sees.
bool SeesRemoteOverlay(Pid pid);
// Finds the mount by the device of a mapping of its files.
MountFacts MountOfDevice(Pid pid, uint64_t device);
// Finds the mount by a descriptor of a file that the process sees. Asks no file system.
MountFacts MountOfDescriptor(Pid pid, int fd);
// Finds the mount by the path of a file, from the process's root on; follows no links in it.
MountFacts MountOfPath(Pid pid, std::string_view path);

}  // namespace proftrace
