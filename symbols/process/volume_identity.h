// Identifies the file system that a file lies on, among all that this machine has had.
#pragma once

#include <cstdint>
#include <string>

#include "symbols/process/held_file.h"

namespace proftrace {

// Returns a text that no other file system has or had. The numbers of a file alone do not identify
// it, because a device number is given to another file system when the first is gone, and users can
// mount file systems whose files have any number, size and time that they want (FUSE, and images by
// loop devices). The text names the boot, and the medium of a block device (its diskseq, since
// Linux 5.15) or the mount of any other file system (its unique number, since Linux 6.8). Empty:
// this kernel has no such number.
std::string VolumeIdentity(const HeldFile& file);

// Returns the number of the mount that a descriptor's file lies on, which no other mount has or had
// in this boot. 0: this kernel has no such numbers.
uint64_t UniqueMountNumber(int fd);

}  // namespace proftrace
