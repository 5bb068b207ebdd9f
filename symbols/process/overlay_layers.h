// Finds files in the lower layers of an overlayfs.
//
// overlayfs copies a file of a lower layer up when it is changed, also when only its owner or its
// mode is. A process that had mapped it before goes on with the file below, while every name that
// the kernel has for it, that of the mapping in /proc/PID/map_files too, leads to the copy. A
// uprobe in the copy never fires in that process.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "userspace/base/unique_fd.h"
#include "userspace/model/ids.h"

namespace proftrace {

bool IsOnOverlay(int fd);

// One overlay's line of /proc/PID/mountinfo.
struct OverlayMount {
  std::string root;                // the folder of the overlay that is mounted at `point`
  std::string point;               // the mount point, as the process with that mountinfo sees it
  std::vector<std::string> lower;  // the layers' folders, uppermost first
};

// Returns the mount with that number; `lower` is empty where there is none, or it is no overlay.
OverlayMount ParseOverlayMount(std::string_view mountinfo, std::string_view mount_id);

// Returns the files in lower layers that lie below the file of `fd`, on an overlay that `pid` has
// mounted, and hold the very same bytes; uppermost first. Reads both files whole to compare them.
// Looks for the layers in the process's mount namespace and in ours, also below other mounts that
// hide them. Only equal bytes prove that a file is the right one, because the process decides what
// it has mounted.
std::vector<UniqueFd> SameFilesBelow(Pid pid, int fd);

}  // namespace proftrace
