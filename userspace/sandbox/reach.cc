#include "userspace/sandbox/reach.h"

#include <fcntl.h>
#include <linux/landlock.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdint>

#include "userspace/base/unique_fd.h"

namespace proftrace {
namespace {

// Rights by the version of Landlock. They are spelled out here, because linux/landlock.h of a build
// host may be older than the kernel.
constexpr uint64_t kOfFirst = (uint64_t{1} << 13) - 1;  // up to LANDLOCK_ACCESS_FS_MAKE_SYM
constexpr uint64_t kRefer = uint64_t{1} << 13;          // since 2: renaming into another directory
constexpr uint64_t kTruncate = uint64_t{1} << 14;       // since 3
constexpr uint64_t kDeviceIoctl = uint64_t{1} << 15;    // since 5
constexpr uint64_t kReading = LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_READ_DIR;
constexpr uint64_t kWritingFile =
    LANDLOCK_ACCESS_FS_READ_FILE | LANDLOCK_ACCESS_FS_WRITE_FILE | kTruncate | kDeviceIoctl;
constexpr uint64_t kWriting = kWritingFile | LANDLOCK_ACCESS_FS_READ_DIR |
                              LANDLOCK_ACCESS_FS_REMOVE_DIR | LANDLOCK_ACCESS_FS_REMOVE_FILE |
                              LANDLOCK_ACCESS_FS_MAKE_DIR | LANDLOCK_ACCESS_FS_MAKE_REG | kRefer;
constexpr uint64_t kOfFiles = LANDLOCK_ACCESS_FS_EXECUTE | kWritingFile;

uint64_t KnownRights(int version) {
  uint64_t known = kOfFirst;
  if (version >= 2) known |= kRefer;
  if (version >= 3) known |= kTruncate;
  if (version >= 5) known |= kDeviceIoctl;
  return known;
}

class Rules {
 public:
  explicit Rules(uint64_t known) : known_(known) {
    const landlock_ruleset_attr attributes{.handled_access_fs = known};
    fd_ = UniqueFd(static_cast<int>(syscall(SYS_landlock_create_ruleset, &attributes,
                                            sizeof(attributes.handled_access_fs), 0)));
  }
  bool is_there() const { return fd_.valid(); }

  void Allow(const std::string& path, uint64_t rights) {
    Allow(UniqueFd(open(path.c_str(), O_PATH | O_CLOEXEC)).get(), rights);
  }

  void Allow(int fd, uint64_t rights) {
    struct stat entry {};
    if (fd < 0 || fstat(fd, &entry) != 0) return;
    if (!S_ISDIR(entry.st_mode)) rights &= kOfFiles;
    landlock_path_beneath_attr rule{};
    rule.allowed_access = rights & known_;
    rule.parent_fd = fd;
    // Pipes and sockets have no place in the file system, and need no rule.
    (void)syscall(SYS_landlock_add_rule, fd_.get(), LANDLOCK_RULE_PATH_BENEATH, &rule, 0);
  }

  bool Begin() { return syscall(SYS_landlock_restrict_self, fd_.get(), 0) == 0; }

 private:
  uint64_t known_;
  UniqueFd fd_;
};

}  // namespace

int LandlockVersion() {
  const long version =
      syscall(SYS_landlock_create_ruleset, nullptr, size_t{0}, LANDLOCK_CREATE_RULESET_VERSION);
  return version > 0 ? static_cast<int>(version) : 0;
}

bool LimitReach(const Reach& reach) {
  const int version = LandlockVersion();
  if (version == 0) return false;
  Rules rules(KnownRights(version));
  if (!rules.is_there()) return false;
  for (const std::string& path : reach.reads) rules.Allow(path, kReading);
  for (const std::string& path : reach.lists) rules.Allow(path, LANDLOCK_ACCESS_FS_READ_DIR);
  for (const std::string& path : reach.writes) rules.Allow(path, kWriting);
  for (const int fd : reach.write_descriptors) rules.Allow(fd, kWriting);
  return rules.Begin();
}

}  // namespace proftrace
