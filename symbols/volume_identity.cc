#include "symbols/volume_identity.h"

#include <fcntl.h>
#include <linux/stat.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "symbols/process_maps.h"

namespace proftrace {
namespace {

// From linux/stat.h of 6.8: the distribution's header may be older than the kernel.
constexpr unsigned kUniqueMountNumber = 0x4000;  // STATX_MNT_ID_UNIQUE
constexpr size_t kMostLineBytes = 64;

std::string ReadLine(const std::string& path) {
  std::string line = ReadSmallFile(path, kMostLineBytes);
  while (!line.empty() && line.back() == '\n') line.pop_back();
  return line;
}

// Empty: it has none.
std::string MediumNumber(uint64_t device) {
  const std::string folder =
      "/sys/dev/block/" + std::to_string(major(device)) + ":" + std::to_string(minor(device));
  const std::string own = ReadLine(folder + "/diskseq");
  return own.empty() ? ReadLine(folder + "/../diskseq") : own;  // a partition has its disk's
}

std::string MountNumber(int fd) {
  struct statx status {};
  if (syscall(SYS_statx, fd, "", AT_EMPTY_PATH, kUniqueMountNumber, &status) != 0 ||
      (status.stx_mask & kUniqueMountNumber) == 0) {
    return "";
  }
  return std::to_string(status.stx_mnt_id);
}

}  // namespace

std::string VolumeIdentity(int fd, uint64_t device) {
  const std::string boot = ReadLine("/proc/sys/kernel/random/boot_id");
  const bool is_block_device = major(device) != 0;
  const std::string number = is_block_device ? MediumNumber(device) : MountNumber(fd);
  if (boot.empty() || number.empty()) return "";
  return boot + (is_block_device ? " medium " : " mount ") + number;
}

}  // namespace proftrace
