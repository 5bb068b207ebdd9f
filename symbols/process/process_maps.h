// Reads which files a process has mapped, and opens exactly these files.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "symbols/process/held_file.h"
#include "userspace/base/unique_fd.h"
#include "userspace/model/ids.h"

namespace proftrace {

struct Mapping {
  uint64_t start = 0;
  uint64_t end = 0;
  uint64_t file_offset = 0;
  bool executable = false;
  // false: the memory may not be read, written or executed, as the page below a stack
  bool accessible = true;
  uint64_t device = 0;  // as dev_t
  uint64_t inode = 0;   // 0 = no file
  std::string path;     // in the target's mount namespace; may end in " (deleted)"
  bool shared = false;  // writes to the memory change the file

  bool operator==(const Mapping&) const = default;
};

// One file with at least one executable mapping. Holds all mappings of the file, ascending by
// address, those included that a job has made only to read it (elf_segments.h tells them apart).
struct MappedFile {
  uint64_t device = 0;
  uint64_t inode = 0;
  std::string path;
  std::vector<Mapping> mappings;
  uint64_t executable_bytes = 0;
};

struct OpenedFile {
  std::shared_ptr<const HeldFile> file;
  std::string path;  // a path through which other processes can open the same file
};

// Parses the lines of a /proc/PID/maps text; lines that do not parse are left out.
std::vector<Mapping> ParseMaps(std::string_view text);

// Returns the files among `mappings` that have executable parts, in order of their first address.
// Files with different paths count as different, because files of two subvolumes of a btrfs may
// have the same numbers.
std::vector<MappedFile> GroupByFile(const std::vector<Mapping>& mappings);

// Returns the part of a message that says why even root is refused access to one process, or to
// several.
std::string NotEvenRoot(uint32_t processes = 1);

// Whether a thread has ended. A process's first thread stays in /proc as a zombie where it ends
// before the others.
bool ThreadHasEnded(uint32_t tid);

// Returns `pid`, or the number of another thread of the process where the first one has ended and
// others go on, because /proc shows mappings and open files only for a living thread.
Pid LivingThread(Pid pid);

// Reads /proc/PID/maps. Fails with kNoTarget where there is no such process, and with kNotPermitted
// where its maps may not be read.
absl::StatusOr<std::vector<Mapping>> ReadMaps(Pid pid);

// Opens the mapped file through /proc/PID/map_files (also when it was replaced or lies in another
// mount namespace), or else by its path below /proc/PID/root where that is the same file. Neither
// waits for a file system for ever (remote_file.h). Fails with kNotPermitted where neither root nor
// the process's user may open the file, and with kHostUnfit where its file system does not answer.
absl::StatusOr<OpenedFile> OpenMappedFile(Pid pid, const MappedFile& file);

// Opens the file by its path only. Where its numbers are not those in maps (as on btrfs, and on
// overlayfs before Linux 6.8), it counts as the same file if its first bytes are those that the
// process has mapped from the file's begin.
absl::StatusOr<OpenedFile> OpenMappedFileByPath(Pid pid, const MappedFile& file);

// Whether the file at the path is still the one that the process has mapped: the mapped file was
// neither deleted nor replaced.
bool IsAtItsPath(Pid pid, const MappedFile& file);

// Returns the name of a mapping in /proc/PID/map_files.
std::string MappingRange(const Mapping& mapping);

// Returns the path of the link to a mapping's file. Everybody who may read the process's maps sees
// the link, but only some users may follow it.
std::string MapFilesPath(Pid pid, const Mapping& mapping);

// Returns a path from /proc/PID/maps as a process with the root directory `root` sees it. The
// kernel shows paths from our root on where that leads to the file, as for a process that was only
// chroot()ed. `root`: the target of the link /proc/PID/root.
std::string PathBelowRoot(const std::string& path, const std::string& root);

// Returns a path from /proc/PID/maps as that process sees it.
std::string PathInTarget(Pid pid, const std::string& path);

// Returns the state of the file of a mapping; nullopt: it cannot be looked at. `held`: the file
// that is expected there; it tells whether the file is remote, so that its file system must not be
// asked directly.
std::optional<FileState> StateOfMapping(Pid pid, const Mapping& mapping, const HeldFile& held);

// Opens a regular file by its path in /proc/PID/maps, in the target's root; links in it cannot lead
// out of there, and nothing but a regular file is ever opened. Null: it cannot be opened.
std::shared_ptr<const HeldFile> OpenInTargetRoot(Pid pid, const std::string& path);
// Opens such a file by its path from the target's root on.
std::shared_ptr<const HeldFile> OpenBelowRoot(Pid pid, const std::string& path);
// Returns the first `limit_bytes` of an open file.
std::string ReadWhole(const UniqueFd& fd, size_t limit_bytes);
std::string ReadSmallFileInTargetRoot(Pid pid, const std::string& path, size_t limit_bytes);

// Returns the first `limit_bytes` of a file of ours or in /proc; empty: it cannot be read.
std::string ReadSmallFile(const std::string& path, size_t limit_bytes);

// Returns the names in a folder of /proc that are numbers: processes, threads, descriptors. Empty:
// the folder cannot be read.
std::vector<uint32_t> ReadNumberedEntries(const std::string& folder);

// Returns the value of `name` in the text of a status file of /proc ("State": "S (sleeping)");
// empty: there is none.
std::string_view StatusValue(std::string_view status, std::string_view name);

}  // namespace proftrace
