// The files that a process has mapped, and a way to open exactly those.
#pragma once

#include <absl/status/statusor.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "symbols/held_file.h"
#include "userspace/base/unique_fd.h"
#include "userspace/model/ids.h"

namespace proftrace {

struct Mapping {
  uint64_t start = 0;
  uint64_t end = 0;
  uint64_t file_offset = 0;
  bool executable = false;
  bool accessible = true;  // false: nothing may be done with it, as with the page below a stack
  uint64_t device = 0;     // as dev_t
  uint64_t inode = 0;      // 0 = no file
  std::string path;        // in the target's mount namespace; may end in " (deleted)"
  bool shared = false;     // what is written there is the file's

  bool operator==(const Mapping&) const = default;
};

// One file with at least one executable mapping, with all its mappings, ascending by address: also
// those that a job has made to read it (elf_file.h tells them apart).
struct MappedFile {
  uint64_t device = 0;
  uint64_t inode = 0;
  std::string path;
  std::vector<Mapping> mappings;
  uint64_t executable_bytes = 0;
};

struct OpenedFile {
  std::shared_ptr<const HeldFile> file;
  std::string path;  // through which others open the same file (ModulePlan::open_path)
};

// The lines of a /proc/PID/maps text; lines that do not parse are left out.
std::vector<Mapping> ParseMaps(std::string_view text);

// The files among `mappings` that have executable parts, in order of their first address. Their
// paths are told apart too: files of two subvolumes of a btrfs may have the same numbers.
std::vector<MappedFile> GroupByFile(const std::vector<Mapping>& mappings);

// Why root may be refused something of a process, or of several, behind what that is.
std::string NotEvenRoot(uint32_t processes = 1);

// Whether a thread has ended, its process may not have noticed: a first thread that ended before
// the others stays like that.
bool ThreadHasEnded(uint32_t tid);

// The process by its own number; by that of another thread where its first one has ended and others
// go on: only of a living one /proc shows what the process has mapped and opened.
Pid LivingThread(Pid pid);

// kNoTarget when there is no such process, kNotPermitted when its maps may not be read.
absl::StatusOr<std::vector<Mapping>> ReadMaps(Pid pid);

// Opens the mapped file through /proc/PID/map_files (also when it was replaced or lies in another
// mount namespace), else through /proc/PID/root when that is the same file. Neither waits for a
// file system without an end (remote_file.h). kNotPermitted: neither root nor the process's user
// may open it; kHostUnfit: its file system does not answer.
absl::StatusOr<OpenedFile> OpenMappedFile(Pid pid, const MappedFile& file);

// The second of these ways alone. Where its numbers are not those in maps (btrfs, and overlayfs
// before Linux 6.8), the file is the same one if it begins with what the process has mapped first.
absl::StatusOr<OpenedFile> OpenMappedFileByPath(Pid pid, const MappedFile& file);

// Whether what lies at the file's path is still what the process has mapped: it was neither deleted
// nor replaced since.
bool IsAtItsPath(Pid pid, const MappedFile& file);

// The name of a mapping in /proc/PID/map_files.
std::string MappingRange(const Mapping& mapping);

// The link to a mapping's file. It is there for whoever may read the process's map; only some may
// follow it.
std::string MapFilesPath(Pid pid, const Mapping& mapping);

// A path of /proc/PID/maps as a process with that root has it: the kernel says it from our root on
// where that leads to the file, as for a process that was only chroot()ed. `root`: what
// /proc/PID/root says.
std::string PathBelowRoot(const std::string& path, const std::string& root);

// The same of that process.
std::string PathInTarget(Pid pid, const std::string& path);

// The state of the file that is mapped there; nothing where it cannot be looked at. `held`: it may
// be this one, of which is known then whether it is to be asked for by others.
std::optional<FileState> StateOfMapping(Pid pid, const Mapping& mapping, const HeldFile& held);

// Opens a regular file by its path in /proc/PID/maps, in the target's root; links in it cannot lead
// out of there, and nothing but a regular file is ever opened. Null: it cannot be opened.
std::shared_ptr<const HeldFile> OpenInTargetRoot(Pid pid, const std::string& path);
// The same by a path from that root on.
std::shared_ptr<const HeldFile> OpenBelowRoot(Pid pid, const std::string& path);
// The first `limit_bytes` of an open file.
std::string ReadWhole(const UniqueFd& fd, size_t limit_bytes);
std::string ReadSmallFileInTargetRoot(Pid pid, const std::string& path, size_t limit_bytes);

// The first `limit_bytes` of a file of ours or in /proc; empty when it cannot be read.
std::string ReadSmallFile(const std::string& path, size_t limit_bytes);

// The numbers among the names in a folder of /proc: processes, threads, descriptors. None when it
// cannot be read.
std::vector<uint32_t> ReadNumberedEntries(const std::string& folder);

// What a status file of /proc has for `name` ("State": "S (sleeping)"); empty = nothing.
std::string_view StatusValue(std::string_view status, std::string_view name);

}  // namespace proftrace
