// Names what an ioctl is asked for, as the kernel's headers for terminals, files and disks, sockets
// and random numbers do.
#pragma once

#include <cstdint>
#include <string>

namespace proftrace {

// "FIONREAD"; of one without a name what its number is made of, as strace has it:
// "_IOC(_IOC_READ|_IOC_WRITE, 0x46, 0x2a, 0x20)".
std::string IoctlRequestText(uint32_t request);

// Whether its argument points to an int, which the request reads or writes.
bool IoctlTakesInt(uint32_t request);

}  // namespace proftrace
