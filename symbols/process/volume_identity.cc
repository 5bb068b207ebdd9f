#include "symbols/process/volume_identity.h"

#include <fcntl.h>
#include <linux/stat.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "symbols/process/process_maps.h"
#include "userspace/base/of_this_process.h"

namespace proftrace {
namespace {

// The value is that in linux/stat.h of Linux 6.8, because the distribution's header may be older
// than the kernel.
constexpr unsigned kUniqueMountNumber = 0x4000;  // STATX_MNT_ID_UNIQUE
constexpr size_t kMostLineBytes = 64;

std::string ReadLine(const std::string& path) {
  std::string line = ReadSmallFile(path, kMostLineBytes);
  while (!line.empty() && line.back() == '\n') line.pop_back();
  return line;
}

// Returns the diskseq of a block device; empty: it has none.
std::string MediumNumber(uint64_t device) {
  const std::string folder =
      "/sys/dev/block/" + std::to_string(major(device)) + ":" + std::to_string(minor(device));
  const std::string own = ReadLine(folder + "/diskseq");
  // A partition has the number of its disk
  return own.empty() ? ReadLine(folder + "/../diskseq") : own;
}

struct Boot {
  std::string id = ReadLine("/proc/sys/kernel/random/boot_id");
};

constinit OfThisProcess<Boot> boot_of_host;

}  // namespace

uint64_t UniqueMountNumber(int fd) {
  struct statx status {};
  const long result =
      syscall(SYS_statx, fd, "", AT_EMPTY_PATH | AT_STATX_DONT_SYNC, kUniqueMountNumber, &status);
  return result == 0 && (status.stx_mask & kUniqueMountNumber) != 0 ? status.stx_mnt_id : 0;
}

std::string VolumeIdentity(const HeldFile& file) {
  const uint64_t device = file.status().st_dev;
  const std::string& boot = boot_of_host.Get().id;
  const bool is_block_device = major(device) != 0;
  const uint64_t mount = file.is_remote() ? file.mount() : UniqueMountNumber(file.fd());
  const std::string number = is_block_device ? MediumNumber(device)
                             : mount != 0    ? std::to_string(mount)
                                             : "";
  if (boot.empty() || number.empty()) return "";
  return boot + (is_block_device ? " medium " : " mount ") + number;
}

}  // namespace proftrace
