// The files that a process has mapped, and a way to open exactly those.
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
  bool accessible = true;  // false: nothing may be done with it, as with the page below a stack
  uint64_t device = 0;     // as dev_t
  uint64_t inode = 0;      // 0 = no file
  std::string path;        // in the target's mount namespace; may end in " (deleted)"
  bool shared = false;     // what is written there is the file's

  bool operator==(const Mapping&) const = default;
};

// One file with at least one executable mapping. It has all mappings of the file, ascending by
// address, also those that a job has made to read it (elf_file.h tells them apart).
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

// Parses the lines of a /proc/PID/maps text; lines that do not parse are left out.
std::vector<Mapping> ParseMaps(std::string_view text);

// Returns the files among `mappings` that have executable parts, in order of their first address.
// Paths tell them apart, too: files of two subvolumes of a btrfs may have the same numbers.
std::vector<MappedFile> GroupByFile(const std::vector<Mapping>& mappings);

// Returns why root may be refused something of one process, or of several, to stand behind that.
std::string NotEvenRoot(uint32_t processes = 1);

// Whether a thread has ended, which its process may not have noticed: a first thread that ended
// before the others stays like that.
bool ThreadHasEnded(uint32_t tid);

// Returns the process by its own number; by that of another thread where its first one has ended
// and others go on: /proc shows what a process has mapped and opened only for a living one.
Pid LivingThread(Pid pid);

// Fails with kNoTarget when there is no such process, kNotPermitted when its maps may not be read.
absl::StatusOr<std::vector<Mapping>> ReadMaps(Pid pid);

// Opens the mapped file through /proc/PID/map_files (also when it was replaced or lies in another
// mount namespace), else through /proc/PID/root when that is the same file. Neither waits for a
// file system without an end (remote_file.h). kNotPermitted: neither root nor the process's user
// may open it; kHostUnfit: its file system does not answer.
absl::StatusOr<OpenedFile> OpenMappedFile(Pid pid, const MappedFile& file);

// Opens it in the second of these ways alone. Where its numbers are not those in maps (btrfs, and
// overlayfs before Linux 6.8), the file is the same one if it begins with what the process has
// mapped first.
absl::StatusOr<OpenedFile> OpenMappedFileByPath(Pid pid, const MappedFile& file);

// Whether what lies at the file's path is still what the process has mapped: it was neither deleted
// nor replaced since.
bool IsAtItsPath(Pid pid, const MappedFile& file);

// Returns the name of a mapping in /proc/PID/map_files.
std::string MappingRange(const Mapping& mapping);

// Returns the link to a mapping's file. It is there for whoever may read the process's map; only
// some may follow it.
std::string MapFilesPath(Pid pid, const Mapping& mapping);

// Returns a path of /proc/PID/maps as a process with that root has it: the kernel says it from our
// root on where that leads to the file, as for a process that was only chroot()ed. `root`: what
// /proc/PID/root says.
std::string PathBelowRoot(const std::string& path, const std::string& root);

// Returns such a path as that process has it.
std::string PathInTarget(Pid pid, const std::string& path);

// Returns the state of the file that is mapped there; nullopt: it cannot be looked at. `held`: it
// may be this file, of which is known whether others are to be asked for it.
std::optional<FileState> StateOfMapping(Pid pid, const Mapping& mapping, const HeldFile& held);

// Opens a regular file by its path in /proc/PID/maps, in the target's root; links in it cannot lead
// out of there, and nothing but a regular file is ever opened. Null: it cannot be opened.
std::shared_ptr<const HeldFile> OpenInTargetRoot(Pid pid, const std::string& path);
// Opens such a file by a path from that root on.
std::shared_ptr<const HeldFile> OpenBelowRoot(Pid pid, const std::string& path);
// Returns the first `limit_bytes` of an open file.
std::string ReadWhole(const UniqueFd& fd, size_t limit_bytes);
std::string ReadSmallFileInTargetRoot(Pid pid, const std::string& path, size_t limit_bytes);

// Returns the first `limit_bytes` of a file of ours or in /proc; empty: it cannot be read.
std::string ReadSmallFile(const std::string& path, size_t limit_bytes);

// Returns the numbers among the names in a folder of /proc: processes, threads, descriptors. Empty:
// it cannot be read.
std::vector<uint32_t> ReadNumberedEntries(const std::string& folder);

// Returns what a status file of /proc has for `name` ("State": "S (sleeping)"); empty: nothing.
std::string_view StatusValue(std::string_view status, std::string_view name);

}  // namespace proftrace
