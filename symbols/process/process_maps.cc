#include "symbols/process/process_maps.h"

#include <absl/container/flat_hash_map.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>
#include <dirent.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <tuple>
#include <utility>

#include "symbols/process/asked_files.h"
#include "symbols/process/mounts.h"
#include "symbols/process/process_memory.h"
#include "symbols/process/read_budget.h"
#include "symbols/process/remote_file.h"
#include "symbols/process/target_entries.h"
#include "userspace/base/clock.h"
#include "userspace/base/exit_status.h"
#include "userspace/base/of_this_process.h"
#include "userspace/base/text.h"

namespace proftrace {
namespace {

// The most bytes of a maps file. The default of vm.max_map_count is 65530, and it can be raised;
// this is enough for any job.
constexpr size_t kMaxMapsBytes = size_t{256} << 20;

std::optional<uint64_t> Hex(std::string_view text) { return ParseNumber<uint64_t>(text, 16); }

// Returns the two parts of the text around the first `separator`.
std::pair<std::string_view, std::string_view> Halves(std::string_view text, char separator) {
  const size_t at = text.find(separator);
  if (at == std::string_view::npos) return {text, {}};
  return {text.substr(0, at), text.substr(at + 1)};
}

// Removes the next field and the one space behind it from `line` and returns the field. Further
// spaces stay.
std::string_view TakeField(std::string_view* line) {
  const size_t space = line->find(' ');
  const std::string_view field = line->substr(0, space);
  line->remove_prefix(space == std::string_view::npos ? line->size() : space + 1);
  return field;
}

// A path in /proc/PID/maps has "\012" in place of a line end.
std::string UnescapePath(std::string_view path) {
  std::string out;
  for (size_t i = 0; i < path.size(); ++i) {
    if (path.substr(i, 4) == "\\012") {
      out.push_back('\n');
      i += 3;
    } else {
      out.push_back(path[i]);
    }
  }
  return out;
}

std::optional<Mapping> ParseLine(std::string_view line) {
  const auto range = Halves(TakeField(&line), '-');
  const std::string_view permissions = TakeField(&line);
  const auto offset = Hex(TakeField(&line));
  const auto device = Halves(TakeField(&line), ':');
  const auto inode = ParseNumber<uint64_t>(TakeField(&line));
  const auto start = Hex(range.first);
  const auto end = Hex(range.second);
  const auto major = Hex(device.first);
  const auto minor = Hex(device.second);
  Mapping mapping;
  if (!start || !end || *start >= *end || !offset || !major || !minor) return std::nullopt;
  if (permissions.size() < 4 || !inode) return std::nullopt;
  mapping.inode = *inode;
  mapping.start = *start;
  mapping.end = *end;
  mapping.file_offset = *offset;
  mapping.executable = permissions[2] == 'x';
  mapping.shared = permissions[3] == 's';
  mapping.accessible = permissions.substr(0, 3) != "---";
  mapping.device = makedev(static_cast<unsigned>(*major), static_cast<unsigned>(*minor));
  mapping.path = UnescapePath(line.substr(std::min(line.find_first_not_of(' '), line.size())));
  return mapping;
}

}  // namespace

std::vector<Mapping> ParseMaps(std::string_view text) {
  std::vector<Mapping> mappings;
  for (std::string_view line : SplitText(text, "\n", /*skip_empty=*/true)) {
    if (auto mapping = ParseLine(line)) mappings.push_back(*std::move(mapping));
  }
  return mappings;
}

std::vector<MappedFile> GroupByFile(const std::vector<Mapping>& mappings) {
  absl::flat_hash_map<std::tuple<uint64_t, uint64_t, std::string_view>, size_t> index;
  std::vector<MappedFile> files;
  for (const Mapping& mapping : mappings) {
    if (mapping.inode == 0 || mapping.path.empty() || mapping.path[0] != '/') continue;
    const auto [it, is_new] =
        index.try_emplace({mapping.device, mapping.inode, mapping.path}, files.size());
    if (is_new) {
      files.push_back(MappedFile{mapping.device, mapping.inode, mapping.path, {}, 0});
    }
    MappedFile& file = files[it->second];
    file.mappings.push_back(mapping);
    if (mapping.executable) file.executable_bytes += mapping.end - mapping.start;
  }
  std::erase_if(files, [](const MappedFile& file) { return file.executable_bytes == 0; });
  return files;
}

std::string PathBelowRoot(const std::string& path, const std::string& root) {
  if (root.size() < 2 || !path.starts_with(root + "/")) return path;
  return path.substr(root.size());
}

std::string PathInTarget(Pid pid, const std::string& path) {
  const std::string root = ReadEntryLink(absl::StrCat("/proc/", Raw(LivingThread(pid)), "/root"));
  return PathBelowRoot(path, root);
}

std::string ReadWhole(const UniqueFd& fd, size_t limit_bytes) {
  std::string text;
  char buffer[16384];
  while (fd.valid() && text.size() < limit_bytes && ReadBudget::PayAll(sizeof(buffer))) {
    const ssize_t got = read(fd.get(), buffer, std::min(sizeof(buffer), limit_bytes - text.size()));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    text.append(buffer, static_cast<size_t>(got));
  }
  return text;
}

namespace {

RemoteUser UserOf(Pid pid, const MountFacts& mount) {
  return {LivingThread(pid), mount.user, mount.group};
}

// Opens the file at a path where the kernel finds it in its own caches and it lies on a file system
// of this machine, so that nothing is waited for. Invalid also where the kernel would have to ask a
// file system.
UniqueFd OpenLocally(Pid pid, int root, const std::string& path) {
  open_how how{};
  how.flags = O_PATH | O_CLOEXEC;
  how.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS | RESOLVE_CACHED;
  const UniqueFd place(
      static_cast<int>(syscall(SYS_openat2, root, path.c_str(), &how, sizeof(how))));
  if (!place.valid() || MountOfDescriptor(pid, place.get()).is_remote) return UniqueFd();
  struct stat status;
  if (fstat(place.get(), &status) != 0 || !S_ISREG(status.st_mode)) return UniqueFd();
  return UniqueFd(
      open(LinkOfDescriptor(place.get()).c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
}

}  // namespace

std::shared_ptr<const HeldFile> OpenBelowRoot(Pid pid, const std::string& path) {
  if (EntryChannel() != nullptr) return AskForFileBelowRoot(pid, path);
  const UniqueFd root(open(absl::StrCat("/proc/", Raw(LivingThread(pid)), "/root").c_str(),
                           O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!root.valid()) return nullptr;
  if (UniqueFd fd = OpenLocally(pid, root.get(), path); fd.valid()) {
    return HeldFile::Hold(std::move(fd));
  }
  const MountFacts mount = MountOfPath(pid, path);
  return HeldFile::Hold(
      RemoteReader::Open({"", root.get(), path, mount.device}, UserOf(pid, mount)));
}

std::shared_ptr<const HeldFile> OpenInTargetRoot(Pid pid, const std::string& path) {
  return OpenBelowRoot(pid, PathInTarget(pid, path));
}

std::string ReadSmallFileInTargetRoot(Pid pid, const std::string& path, size_t limit_bytes) {
  const std::shared_ptr<const HeldFile> file = OpenInTargetRoot(pid, path);
  if (file == nullptr || !ReadBudget::PayAll(limit_bytes)) return "";
  std::string text(limit_bytes, '\0');
  text.resize(file->ReadAt(0, text.data(), text.size()));
  return text;
}

std::string ReadSmallFile(const std::string& path, size_t limit_bytes) {
  return ReadEntry(path, limit_bytes);
}

std::vector<uint32_t> ReadNumberedEntries(const std::string& folder) {
  std::vector<uint32_t> numbers;
  UniqueFd fd = OpenEntry(folder);
  const std::unique_ptr<DIR, int (*)(DIR*)> directory(fdopendir(fd.get()), closedir);
  if (directory != nullptr) fd.Release();  // `directory` owns the descriptor now
  while (directory != nullptr) {
    const dirent* entry = readdir(directory.get());
    if (entry == nullptr) break;
    if (const auto number = ParseNumber<uint32_t>(entry->d_name)) numbers.push_back(*number);
  }
  return numbers;
}

std::string_view StatusValue(std::string_view status, std::string_view name) {
  for (std::string_view line : SplitText(status, "\n", /*skip_empty=*/true)) {
    if (ConsumeText(&line, name) && ConsumeText(&line, ":")) {
      return line.substr(std::min(line.size(), line.find_first_not_of(" \t")));
    }
  }
  return {};
}

std::string NotEvenRoot(uint32_t processes) {
  return absl::StrCat(": CAP_SYS_PTRACE is missing, or ",
                      processes == 1 ? "the process is" : "they are",
                      " of a user namespace outside of this one; run proftrace outside of the "
                      "container");
}

bool ThreadHasEnded(uint32_t tid) {
  constexpr size_t kMostStatBytes = 4096;
  const std::string stat = ReadSmallFile(absl::StrCat("/proc/", tid, "/stat"), kMostStatBytes);
  const size_t close = stat.rfind(')');
  return close == std::string::npos || close + 2 >= stat.size() || stat[close + 2] == 'Z' ||
         stat[close + 2] == 'X';
}

namespace {

Pid FindLivingThread(Pid pid) {
  if (!ThreadHasEnded(Raw(pid))) return pid;
  for (const uint32_t tid : ReadNumberedEntries(absl::StrCat("/proc/", Raw(pid), "/task"))) {
    if (tid != Raw(pid) && !ThreadHasEnded(tid)) return Pid{tid};
  }
  return pid;
}

// Remembers living threads for a tenth of a second. For workers, where each look is a question to
// another process.
class LivingThreads {
 public:
  Pid Of(Pid pid) {
    constexpr int64_t kHoldsForNs = 100'000'000;
    const std::lock_guard lock(mutex_);
    const int64_t now_ns = MonotonicNs();
    const auto [it, is_new] = known_.try_emplace(pid);
    if (is_new || now_ns - it->second.looked_ns > kHoldsForNs) {
      it->second = {FindLivingThread(pid), now_ns};
    }
    return it->second.thread;
  }

 private:
  struct Known {
    Pid thread{};
    int64_t looked_ns = 0;
  };
  std::mutex mutex_;
  std::map<Pid, Known> known_;
};

constinit OfThisProcess<LivingThreads> living_threads;

}  // namespace

Pid LivingThread(Pid pid) {
  if (EntryChannel() == nullptr) return FindLivingThread(pid);
  return living_threads.Get().Of(pid);
}

absl::StatusOr<std::vector<Mapping>> ReadMaps(Pid pid) {
  const std::string path = absl::StrCat("/proc/", Raw(pid), "/maps");
  if (!StatEntry(absl::StrCat("/proc/", Raw(pid)))) {
    return Fail(ExitCode::kNoTarget, absl::StrCat("there is no process with PID ", Raw(pid)));
  }
  const UniqueFd fd = OpenEntry(path);
  if (!fd.valid()) {
    if (errno == ENOENT || errno == ESRCH) {
      return Fail(ExitCode::kNoTarget, absl::StrCat("process ", Raw(pid), " has ended"));
    }
    return Fail(
        ExitCode::kNotPermitted,
        absl::StrCat("may not read the memory map of process ", Raw(pid), " (", ErrnoText(errno),
                     ")", geteuid() == 0 ? NotEvenRoot() : "; run proftrace as root"));
  }
  std::string text = ReadSmallFile(path, kMaxMapsBytes);
  if (text.empty()) {
    if (const Pid other = LivingThread(pid); other != pid) {
      text = ReadSmallFile(absl::StrCat("/proc/", Raw(other), "/maps"), kMaxMapsBytes);
    }
  }
  return ParseMaps(text);
}

std::string MappingRange(const Mapping& mapping) {
  return absl::StrFormat("%x-%x", mapping.start, mapping.end);
}

std::string MapFilesPath(Pid pid, const Mapping& mapping) {
  return absl::StrCat("/proc/", Raw(LivingThread(pid)), "/map_files/", MappingRange(mapping));
}

namespace {

// Whether the file's first page is equal to a mapping of its begin in the process: it has an ELF
// header and mostly the build-id.
bool HasSameBegin(Pid pid, const MappedFile& file, const HeldFile& held) {
  constexpr size_t kPageBytes = 4096;
  return std::any_of(file.mappings.begin(), file.mappings.end(), [&](const Mapping& mapping) {
    if (mapping.executable || mapping.file_offset != 0) return false;
    std::string there(std::min<size_t>(kPageBytes, mapping.end - mapping.start), '\0');
    std::string here(there.size(), '\0');
    return ProcessMemory(pid).Read(mapping.start, there.data(), there.size()) &&
           held.ReadAt(0, here.data(), here.size()) == here.size() && there == here;
  });
}

}  // namespace

absl::StatusOr<OpenedFile> OpenMappedFileByPath(Pid pid, const MappedFile& file) {
  std::shared_ptr<const HeldFile> held = OpenInTargetRoot(pid, file.path);
  if (held == nullptr) return absl::NotFoundError(absl::StrCat("cannot open ", file.path));
  const bool is_same =
      (held->status().st_dev == file.device && held->status().st_ino == file.inode) ||
      HasSameBegin(pid, file, *held);
  if (!is_same) return absl::NotFoundError(absl::StrCat(file.path, " is another file by now"));
  return OpenedFile{std::move(held),
                    absl::StrCat("/proc/", Raw(pid), "/root", PathInTarget(pid, file.path))};
}

std::optional<FileState> StateOfMapping(Pid pid, const Mapping& mapping, const HeldFile& held) {
  errno = 0;
  if (!held.is_remote()) return StateOfFile(MapFilesPath(pid, mapping));
  // The numbers in maps come from the kernel without asking the file system.
  if (mapping.device != held.state().device || mapping.inode != held.state().inode) {
    // An overlay shows other numbers in maps, so that the file is opened to look.
    const std::vector<MappedFile> files = GroupByFile({mapping});
    if (files.empty()) return std::nullopt;
    const absl::StatusOr<OpenedFile> there = OpenMappedFile(pid, files.front());
    return there.ok() ? std::optional(there->file->state()) : std::nullopt;
  }
  return held.IsUnchanged() ? std::optional(held.state()) : std::nullopt;
}

bool IsAtItsPath(Pid pid, const MappedFile& file) {
  const std::shared_ptr<const HeldFile> there = OpenInTargetRoot(pid, file.path);
  if (there == nullptr) return false;
  if (there->is_remote()) {
    return there->status().st_dev == file.device && there->status().st_ino == file.inode;
  }
  for (const Mapping& mapping : file.mappings) {
    if (MountOfDevice(pid, mapping.device).is_remote) return false;
    // The numbers are read through the link to the file, so that they can be compared with those of
    // the path, also on overlayfs and btrfs.
    const std::optional<struct stat> here = StatEntry(MapFilesPath(pid, mapping));
    if (!here) continue;
    return here->st_dev == there->status().st_dev && here->st_ino == there->status().st_ino;
  }
  return OpenMappedFileByPath(pid, file).ok();
}

namespace {

absl::Status WhyNotOpened(const MappedFile& file, const MountFacts& mount, int error) {
  const std::string kind =
      mount.type.empty() ? "its file system" : "its file system (" + mount.type + ")";
  if (error == ETIMEDOUT) {
    return Fail(ExitCode::kHostUnfit,
                absl::StrCat(file.path, ": ", kind,
                             " does not answer; see whether its server is still running, then "
                             "record again"));
  }
  if (mount.is_remote && (error == EACCES || error == EPERM)) {
    return Fail(ExitCode::kNotPermitted,
                absl::StrCat(file.path, ": ", kind,
                             " lets neither root nor the process's user open it; mount it with "
                             "allow_other (FUSE) or no_root_squash (NFS), or run proftrace as the "
                             "user who has mounted it: -p PID --tier patch"));
  }
  if (error == EWOULDBLOCK) {
    return Fail(ExitCode::kHostUnfit,
                absl::StrCat(file.path,
                             ": a process holds a lease on it (F_SETLEASE), for which others would "
                             "wait to open it; end the lease (/proc/locks names the process), "
                             "then record again"));
  }
  const std::string text = absl::StrCat("cannot open ", file.path, ": ", ErrnoText(error));
  if (error == EACCES || error == EPERM) return absl::PermissionDeniedError(text);
  const bool is_gone = error == ENOENT || error == ESRCH;
  return is_gone ? absl::NotFoundError(text) : Fail(ExitCode::kHostUnfit, text);
}

}  // namespace

absl::StatusOr<OpenedFile> OpenMappedFile(Pid pid, const MappedFile& file) {
  if (EntryChannel() != nullptr) return AskForMappedFile(pid, file);
  const MountFacts mount = MountOfDevice(pid, file.device);
  int error = ENOENT;
  for (const Mapping& mapping : file.mappings) {
    // The link leads to the mapping's own file. Its numbers are not compared with those in maps,
    // because overlayfs and btrfs show other ones there.
    const std::string path = MapFilesPath(pid, mapping);
    if (mount.is_remote) {
      RemoteFile remote = RemoteReader::Open({path, -1, "", mount.device}, UserOf(pid, mount));
      error = remote.error;
      if (auto held = HeldFile::Hold(std::move(remote))) return OpenedFile{std::move(held), path};
      if (error == ETIMEDOUT) return WhyNotOpened(file, mount, error);
      continue;
    }
    UniqueFd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
    if (!fd.valid()) error = errno;
    if (auto held = HeldFile::Hold(std::move(fd))) return OpenedFile{std::move(held), path};
  }
  // Without CAP_SYS_ADMIN or CAP_CHECKPOINT_RESTORE, nobody may follow the links in map_files.
  absl::StatusOr<OpenedFile> opened = OpenMappedFileByPath(pid, file);
  if (opened.ok()) return opened;
  return WhyNotOpened(file, mount, error);
}

}  // namespace proftrace
