// Limits what a process can still reach in the file system, by the kernel's Landlock.
#pragma once

#include <string>
#include <vector>

namespace proftrace {

// Files, and directories with all that is in them. What is not there is left out.
struct Reach {
  std::vector<std::string> reads;
  // Directories whose names are read, but no file in them.
  std::vector<std::string> lists;
  // Directories: files and directories are made, written, renamed and removed in them. Files, pipes
  // and devices that are there: written.
  std::vector<std::string> writes;
  // Open descriptors of directories and files, with the same rights.
  std::vector<int> write_descriptors;
};

// Returns the version of Landlock that this kernel has; 0 = it has none, or does not use it.
int LandlockVersion();

// Lets the calling thread, and those that it starts, open nothing else from here on, nor trace any
// process. It must not be able to gain rights (NoNewRights). False: this kernel cannot.
bool LimitReach(const Reach& reach);

}  // namespace proftrace
