#include "symbols/process_maps.h"

#include <absl/container/flat_hash_map.h>
#include <absl/strings/str_cat.h>
#include <absl/strings/str_format.h>
#include <dirent.h>
#include <sys/stat.h>
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

#include "symbols/process_memory.h"
#include "symbols/read_budget.h"
#include "symbols/target_entries.h"
#include "userspace/base/clock.h"
#include "userspace/base/exit_status.h"
#include "userspace/base/text.h"

namespace proftrace {
namespace {

// vm.max_map_count is 65530 by default and can be raised: enough for any job, and bounded.
constexpr size_t kMaxMapsBytes = size_t{256} << 20;

std::optional<uint64_t> Hex(std::string_view text) { return ParseNumber<uint64_t>(text, 16); }

// The two halves around the first `separator`.
std::pair<std::string_view, std::string_view> Halves(std::string_view text, char separator) {
  const size_t at = text.find(separator);
  if (at == std::string_view::npos) return {text, {}};
  return {text.substr(0, at), text.substr(at + 1)};
}

// Takes the next field, up to one space; further spaces stay.
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

UniqueFd OpenInTargetRoot(Pid pid, const std::string& path) {
  return OpenBelowRoot(pid, PathInTarget(pid, path));
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

std::string ReadSmallFileInTargetRoot(Pid pid, const std::string& path, size_t limit_bytes) {
  return ReadWhole(OpenInTargetRoot(pid, path), limit_bytes);
}

std::string ReadSmallFile(const std::string& path, size_t limit_bytes) {
  return ReadEntry(path, limit_bytes);
}

std::vector<uint32_t> ReadNumberedEntries(const std::string& folder) {
  std::vector<uint32_t> numbers;
  UniqueFd fd = OpenEntry(folder);
  const std::unique_ptr<DIR, int (*)(DIR*)> directory(fdopendir(fd.get()), closedir);
  if (directory != nullptr) fd.Release();  // it is the directory's now
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

// In a worker, for which each look is a question to another process.
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

}  // namespace

Pid LivingThread(Pid pid) {
  if (EntryChannel() == nullptr) return FindLivingThread(pid);
  static LivingThreads threads;
  return threads.Of(pid);
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

std::string MapFilesPath(Pid pid, const Mapping& mapping) {
  return absl::StrFormat("/proc/%u/map_files/%x-%x", Raw(LivingThread(pid)), mapping.start,
                         mapping.end);
}

namespace {

// Whether the file begins with what the process has at the begin of a mapping: an ELF header, and
// mostly the build id.
bool HasSameBegin(Pid pid, const MappedFile& file, const UniqueFd& fd) {
  constexpr size_t kPageBytes = 4096;
  return std::any_of(file.mappings.begin(), file.mappings.end(), [&](const Mapping& mapping) {
    if (mapping.executable || mapping.file_offset != 0) return false;
    std::string there(std::min<size_t>(kPageBytes, mapping.end - mapping.start), '\0');
    std::string here(there.size(), '\0');
    return ProcessMemory(pid).Read(mapping.start, there.data(), there.size()) &&
           pread(fd.get(), here.data(), here.size(), 0) == static_cast<ssize_t>(here.size()) &&
           there == here;
  });
}

}  // namespace

absl::StatusOr<OpenedFile> OpenMappedFileByPath(Pid pid, const MappedFile& file) {
  UniqueFd fd = OpenInTargetRoot(pid, file.path);
  struct stat status;
  if (!fd.valid() || fstat(fd.get(), &status) != 0) {
    return absl::NotFoundError(absl::StrCat("cannot open ", file.path));
  }
  const bool is_same =
      (status.st_dev == file.device && status.st_ino == file.inode) || HasSameBegin(pid, file, fd);
  if (!is_same) return absl::NotFoundError(absl::StrCat(file.path, " is another file by now"));
  return OpenedFile{std::move(fd),
                    absl::StrCat("/proc/", Raw(pid), "/root", PathInTarget(pid, file.path))};
}

bool IsAtItsPath(Pid pid, const MappedFile& file) {
  struct stat there;
  const UniqueFd fd = OpenInTargetRoot(pid, file.path);
  if (!fd.valid() || fstat(fd.get(), &there) != 0) return false;
  for (const Mapping& mapping : file.mappings) {
    // As the link leads to the file, its numbers are those of the path, also on overlayfs and
    // btrfs.
    const std::optional<struct stat> here = StatEntry(MapFilesPath(pid, mapping));
    if (!here) continue;
    return here->st_dev == there.st_dev && here->st_ino == there.st_ino;
  }
  return OpenMappedFileByPath(pid, file).ok();
}

absl::StatusOr<OpenedFile> OpenMappedFile(Pid pid, const MappedFile& file) {
  int error = ENOENT;
  for (const Mapping& mapping : file.mappings) {
    // The link is the mapping's own file. Its numbers are not compared: overlayfs and btrfs show
    // others in maps.
    const std::string path = MapFilesPath(pid, mapping);
    UniqueFd fd = OpenEntry(path);
    struct stat status;
    if (fd.valid() && fstat(fd.get(), &status) == 0 && S_ISREG(status.st_mode)) {
      return OpenedFile{std::move(fd), path};
    }
    if (!fd.valid()) error = errno;
  }
  // Without CAP_SYS_ADMIN or CAP_CHECKPOINT_RESTORE map_files is closed.
  absl::StatusOr<OpenedFile> opened = OpenMappedFileByPath(pid, file);
  if (opened.ok()) return opened;
  return absl::NotFoundError(absl::StrCat("cannot open ", file.path, ": ", ErrnoText(error)));
}

}  // namespace proftrace
