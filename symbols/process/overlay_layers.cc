#include "symbols/process/overlay_layers.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sched.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <algorithm>
#include <climits>
#include <cstdint>
#include <cstring>
#include <optional>
#include <set>
#include <thread>
#include <utility>

#include "symbols/process/held_file.h"
#include "symbols/process/mounts.h"
#include "symbols/process/process_maps.h"
#include "symbols/process/read_budget.h"
#include "userspace/base/text.h"

namespace proftrace {
namespace {

constexpr int64_t kOverlayMagic = 0x794c7630;  // OVERLAYFS_SUPER_MAGIC
constexpr unsigned kOpenTreeClone = 1;         // OPEN_TREE_CLONE
constexpr size_t kMostMountsBytes = size_t{16} << 20;
constexpr size_t kMostMountsAround = 32;
// The limits of the search in one namespace: enough to read some libraries twice.
constexpr uint64_t kMostComparedBytes = uint64_t{8} << 30;
constexpr int64_t kLongestSearchNs = 5'000'000'000;
constexpr std::string_view kDeleted = " (deleted)";

// Returns the path of `part`, which begins with a slash, in `folder`.
std::string PathIn(const std::string& folder, const std::string& part) {
  if (part == "/") return folder;
  return folder == "/" ? part : folder + part;
}

// Returns the part of `path` below `folder`, with its slash; nullopt: `path` does not lie in
// `folder`.
std::optional<std::string> PartBelow(const std::string& path, const std::string& folder) {
  const std::string prefix = folder == "/" ? "" : folder;
  if (!path.starts_with(prefix + "/")) return std::nullopt;
  return path.substr(prefix.size());
}

std::string TargetOfLink(const std::string& path) {
  char target[PATH_MAX];
  const ssize_t size = readlink(path.c_str(), target, sizeof(target));
  return size <= 0 ? "" : std::string(target, static_cast<size_t>(size));
}

bool HoldsSameBytes(int a, int b) {
  constexpr size_t kPieceBytes = size_t{1} << 20;
  std::string piece(kPieceBytes, '\0');
  std::string other(kPieceBytes, '\0');
  for (off_t at = 0;;) {
    if (!ReadBudget::PayAll(2 * kPieceBytes)) return false;
    const ssize_t got = pread(a, piece.data(), piece.size(), at);
    if (got < 0 || pread(b, other.data(), other.size(), at) != got) return false;
    if (got == 0) return true;
    if (std::memcmp(piece.data(), other.data(), static_cast<size_t>(got)) != 0) return false;
    at += got;
  }
}

// Opens the regular file at `path` below `root`. Invalid: it has another size, so that it cannot be
// the wanted one, or it is the file on the overlay itself.
UniqueFd OpenCandidate(int root, const std::string& path, const FileState& wanted) {
  open_how how{};
  how.flags = O_PATH | O_CLOEXEC;
  how.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS;
  const UniqueFd place(
      static_cast<int>(syscall(SYS_openat2, root, path.c_str(), &how, sizeof(how))));
  const std::optional<FileState> state = StateOfFile(place.get());
  if (!state.has_value() || state->bytes != wanted.bytes) return UniqueFd();
  // This is the file on the overlay, which is mounted over its own layer.
  if (state->device == wanted.device && state->inode == wanted.inode) return UniqueFd();
  return UniqueFd(
      open(LinkOfDescriptor(place.get()).c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
}

// The wanted file, and the files found so far.
struct LayerSearch {
  int fd = -1;
  FileState wanted;
  std::string part;  // the file's path below the overlay's root
  std::vector<std::string> lower;
  std::set<std::pair<uint64_t, uint64_t>> seen;  // device and inode
  std::vector<UniqueFd> found;
};

// Looks into one layer. Each mount around it is cloned without the mounts inside of it, because the
// overlay itself may hide its layer.
void SearchLayer(const std::string& folder, const std::vector<std::string>& points,
                 LayerSearch* search) {
  size_t looks = 0;
  for (const std::string& point : points) {
    const std::optional<std::string> part = PartBelow(PathIn(folder, search->part), point);
    if (!part.has_value()) continue;
    if (++looks > kMostMountsAround || !ReadBudget::PayAll(0)) return;
    const UniqueFd tree(static_cast<int>(
        syscall(SYS_open_tree, AT_FDCWD, point.c_str(), kOpenTreeClone | O_CLOEXEC)));
    UniqueFd file = tree.valid() ? OpenCandidate(tree.get(), *part, search->wanted) : UniqueFd();
    const std::optional<FileState> state = StateOfFile(file.get());
    if (!state.has_value() || !search->seen.insert({state->device, state->inode}).second) continue;
    if (HoldsSameBytes(file.get(), search->fd)) search->found.push_back(std::move(file));
  }
}

// Looks for the layers in the mount namespace of the calling thread.
void SearchHere(int proc, LayerSearch* search) {
  ReadBudget budget({.bytes = kMostComparedBytes, .cpu_ns = kLongestSearchNs});
  const ReadBudget::Scope scope(&budget);
  const UniqueFd mounts(openat(proc, "thread-self/mountinfo", O_RDONLY | O_CLOEXEC));
  const std::string text = ReadSmallFile(LinkOfDescriptor(mounts.get()), kMostMountsBytes);
  std::vector<std::string> points;
  for (const std::string_view line : SplitText(text, "\n", /*skip_empty=*/true)) {
    if (const auto mount = ParseMountLine(line)) points.push_back(mount->point);
  }
  // The innermost mount points come first.
  std::sort(points.begin(), points.end(), [](const std::string& a, const std::string& b) {
    return std::pair(a.size(), a) > std::pair(b.size(), b);
  });
  points.erase(std::unique(points.begin(), points.end()), points.end());
  for (const std::string& folder : search->lower) {
    if (folder[0] == '/') SearchLayer(folder, points, search);
  }
}

}  // namespace

bool IsOnOverlay(int fd) {
  struct statfs system {};
  return fstatfs(fd, &system) == 0 && system.f_type == kOverlayMagic;
}

OverlayMount ParseOverlayMount(std::string_view mountinfo, std::string_view mount_id) {
  OverlayMount overlay;
  for (const std::string_view line : SplitText(mountinfo, "\n", /*skip_empty=*/true)) {
    const auto mount = ParseMountLine(line);
    if (!mount.has_value() || mount->id != mount_id || mount->type != "overlay") continue;
    overlay.root = mount->root;
    overlay.point = mount->point;
    overlay.lower = LayersOf(*mount).lower;
  }
  return overlay;
}

std::vector<UniqueFd> SameFilesBelow(Pid pid, int fd) {
  LayerSearch search;
  const std::optional<FileState> wanted = StateOfFile(fd);
  if (!wanted.has_value() || !IsOnOverlay(fd)) return {};
  search.fd = fd;
  search.wanted = *wanted;
  const std::string process = "/proc/" + std::to_string(Raw(LivingThread(pid)));
  const std::string facts = ReadSmallFile("/proc/self/fdinfo/" + std::to_string(fd), 4096);
  const OverlayMount overlay = ParseOverlayMount(
      ReadSmallFile(process + "/mountinfo", kMostMountsBytes), StatusValue(facts, "mnt_id"));
  // The mount point is a path from the process's root on, the file's path one from the root of its
  // mount namespace.
  const std::string root = TargetOfLink(process + "/root");
  const std::string point = PathIn(root, overlay.point);
  std::string path = TargetOfLink(LinkOfDescriptor(fd));
  if (path.ends_with(kDeleted)) path.resize(path.size() - kDeleted.size());
  const std::optional<std::string> part = PartBelow(path, point);
  if (overlay.lower.empty() || root.empty() || !part.has_value()) return {};
  search.part = PathIn(overlay.root, *part);
  search.lower = overlay.lower;
  const UniqueFd proc(open("/proc", O_PATH | O_DIRECTORY | O_CLOEXEC));
  const UniqueFd theirs(open((process + "/ns/mnt").c_str(), O_RDONLY | O_CLOEXEC));
  // A new thread enters the process's mount namespace, because this one must stay in its own.
  std::thread([&] {
    if (unshare(CLONE_FS) != 0 || setns(theirs.get(), CLONE_NEWNS) != 0) return;
    SearchHere(proc.get(), &search);
  }).join();
  SearchHere(proc.get(), &search);
  return std::move(search.found);
}

}  // namespace proftrace
