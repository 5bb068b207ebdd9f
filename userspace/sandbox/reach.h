// Limits what a process can still reach in the file system, by the kernel's Landlock.
#pragma once

#include <string>
#include <vector>

namespace proftrace {

// The files that stay in reach, and the directories with everything in them. A path that does not
// exist is left out.
struct Reach {
  std::vector<std::string> reads;
  // Directories whose entries may be listed, but not read.
  std::vector<std::string> lists;
  // In a directory, files and directories can be made, written, renamed and removed. A file, pipe
  // or device can be written.
  std::vector<std::string> writes;
  // Open descriptors of directories and files, with the same rights.
  std::vector<int> write_descriptors;
};

// Returns the version of Landlock that this kernel has. 0: the kernel has no Landlock, or does not
// use it.
int LandlockVersion();

// Limits the calling thread and all threads that it starts later: they can open nothing outside of
// `reach`, and can trace no process that is not limited in the same way. NoNewRights() must have
// been called before. False: the kernel cannot do this.
bool LimitReach(const Reach& reach);

}  // namespace proftrace
