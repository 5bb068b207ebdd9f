// Tells the file system that a file lies on from every other one that this machine has had.
#pragma once

#include <cstdint>
#include <string>

#include "symbols/process/held_file.h"

namespace proftrace {

// The numbers of a device are given to another file system when theirs is gone, and users may mount
// some whose files have any number, size and time that they want (FUSE, and images by way of a loop
// device): so a file's numbers alone do not tell it from one that was there before. The text names
// the boot, and in it the medium of a block device (its diskseq, since Linux 5.15) or the mount of
// any other file system (its unique number, since Linux 6.8). Empty: this kernel does not tell it.
std::string VolumeIdentity(const HeldFile& file);

// Returns the number of the mount that a descriptor's file lies on, which no other has or had. 0:
// this kernel tells none.
uint64_t UniqueMountNumber(int fd);

}  // namespace proftrace
