// Tells from a process's mounts whether a program or another machine must be asked for a file.
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
  std::string point;  // the mount point, a path from the process's root on
  std::string_view type;
  std::string_view options;  // the options of the file system
};
std::optional<MountLine> ParseMountLine(std::string_view line);
// Decodes a name as the kernel writes it in mountinfo, where "\040" stands for a blank.
std::string UnescapedMountText(std::string_view text);

// The folders that an overlay is made of, as they were named to mount(2). A path begins at the root
// of the process that made the mount or, without a slash at its begin, at that process's working
// directory.
struct OverlayLayers {
  std::vector<std::string> lower;
  // The folder that takes changes, and folders that only hold bytes of files
  std::vector<std::string> others;
};
// Returns the layers of a mount; empty: it is no overlay.
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
  // Whether a program or another machine may be asked for files of this file system, or of a layer
  // below it. True where this is not known, as where the file system was unmounted while its files
  // were mapped.
  bool is_remote = true;
  // The user and group who mounted a FUSE file system, if only they may open anything there.
  std::optional<uint32_t> user;
  std::optional<uint32_t> group;
};

// Returns the facts that the mount's line alone tells; layers below are not looked at.
MountFacts FactsOfMount(const MountLine& mount);
// Whether a layer of an overlay lies on a remote file system, by any of the tables: that of the
// process that sees the overlay, and that of a process that may have mounted it. Follows overlays
// of overlays.
bool HasRemoteLayer(const MountLine& mount, const std::vector<const MountTable*>& tables);
// Whether the process sees an overlay with such a layer.
bool SeesRemoteOverlay(Pid pid);
// Finds the mount by the device of a mapping of its files.
MountFacts MountOfDevice(Pid pid, uint64_t device);
// Finds the mount by a descriptor of a file that the process sees, without asking any file system.
MountFacts MountOfDescriptor(Pid pid, int fd);
// Finds the mount by a path from the process's root on, without following links.
MountFacts MountOfPath(Pid pid, std::string_view path);

}  // namespace proftrace
