#include "symbols/process/mounts.h"

#include <absl/strings/str_cat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <utility>

#include "symbols/process/process_maps.h"
#include "userspace/base/clock.h"
#include "userspace/base/of_this_process.h"
#include "userspace/base/text.h"

namespace proftrace {
namespace {

constexpr size_t kMostMountinfoBytes = size_t{16} << 20;

constexpr size_t kMostLayers = 512;      // the most that overlayfs allows
constexpr size_t kMostOverlaysDeep = 3;  // overlayfs allows two above each other

// Adds the folders of an option "lowerdir". Colons stand between them, two before layers that only
// hold bytes of files; "\\:" stands for a colon in a name.
void AddFolders(const std::string& option, std::vector<std::string>* folders) {
  std::string folder;
  const auto finish = [&] {
    if (!folder.empty() && folders->size() < kMostLayers) folders->push_back(folder);
    folder.clear();
  };
  for (size_t i = 0; i < option.size(); ++i) {
    if (option[i] == ':') {
      finish();
    } else if (option[i] == '\\' && i + 1 < option.size()) {
      folder.push_back(option[++i]);
    } else {
      folder.push_back(option[i]);
    }
  }
  finish();
}

// File systems of this machine that have no block device in mountinfo, because they keep their
// files in memory or manage their disks themselves.
constexpr std::string_view kLocalTypes[] = {"tmpfs", "ramfs", "rootfs",   "devtmpfs", "overlay",
                                            "btrfs", "zfs",   "bcachefs", "ubifs",    "hugetlbfs"};

}  // namespace

std::string UnescapedMountText(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto is_octal = [](char c) { return c >= '0' && c <= '7'; };
    const bool is_escape = text[i] == '\\' && i + 3 < text.size() && is_octal(text[i + 1]) &&
                           is_octal(text[i + 2]) && is_octal(text[i + 3]);
    if (is_escape) {
      out.push_back(static_cast<char>((text[i + 1] - '0') * 64 + (text[i + 2] - '0') * 8 +
                                      (text[i + 3] - '0')));
      i += 3;
    } else {
      out.push_back(text[i]);
    }
  }
  return out;
}

// The fields of a line: id, parent, device, root, point, options, tags…, "-", type, source,
// options.
std::optional<MountLine> ParseMountLine(std::string_view line) {
  const std::vector<std::string_view> fields = SplitText(line, " ", /*skip_empty=*/true);
  const auto dash = std::find(fields.begin(), fields.end(), "-");
  if (dash - fields.begin() < 6 || fields.end() - dash < 4) return std::nullopt;
  return MountLine{
      fields[0], fields[2], UnescapedMountText(fields[3]), UnescapedMountText(fields[4]),
      dash[1],   dash[3]};
}

namespace {

std::shared_ptr<const MountTable> ReadMounts(Pid pid) {
  auto table = std::make_shared<MountTable>();
  table->text = ReadSmallFile(absl::StrCat("/proc/", Raw(LivingThread(pid)), "/mountinfo"),
                              kMostMountinfoBytes);
  for (const std::string_view line : SplitText(table->text, "\n", /*skip_empty=*/true)) {
    if (auto mount = ParseMountLine(line)) table->lines.push_back(*std::move(mount));
  }
  return table;
}

// Keeps tables of mounts for a tenth of a second, because an attach looks for the mount of each
// mapped file, some hundred times.
class MountTables {
 public:
  std::shared_ptr<const MountTable> Of(Pid pid) {
    constexpr int64_t kHoldsForNs = 100'000'000;
    constexpr size_t kMostProcesses = 64;
    const std::lock_guard lock(mutex_);
    const int64_t now_ns = MonotonicNs();
    if (known_.size() > kMostProcesses) known_.clear();
    Known& known = known_[pid];
    if (known.table == nullptr || now_ns - known.read_ns > kHoldsForNs) {
      known = {ReadMounts(pid), now_ns};
    }
    return known.table;
  }

 private:
  struct Known {
    std::shared_ptr<const MountTable> table;
    int64_t read_ns = 0;
  };
  std::mutex mutex_;
  std::map<Pid, Known> known_;
};

constinit OfThisProcess<MountTables> mount_tables;

}  // namespace

std::shared_ptr<const MountTable> MountsOf(Pid pid) { return mount_tables.Get().Of(pid); }

OverlayLayers LayersOf(const MountLine& mount) {
  OverlayLayers layers;
  if (mount.type != "overlay") return layers;
  for (std::string_view option : SplitText(mount.options, ",", /*skip_empty=*/true)) {
    if (ConsumeText(&option, "lowerdir=")) {
      AddFolders(UnescapedMountText(option), &layers.lower);
    } else if (ConsumeText(&option, "lowerdir+=")) {
      layers.lower.push_back(UnescapedMountText(option));
    } else if (ConsumeText(&option, "upperdir=") || ConsumeText(&option, "datadir+=")) {
      layers.others.push_back(UnescapedMountText(option));
    }
  }
  return layers;
}

MountFacts FactsOfMount(const MountLine& mount) {
  MountFacts facts;
  facts.type = std::string(mount.type);
  const std::vector<std::string_view> numbers = SplitText(mount.device, ":", /*skip_empty=*/true);
  const auto major_number = numbers.empty() ? std::nullopt : ParseNumber<unsigned>(numbers.front());
  const auto minor_number = numbers.empty() ? std::nullopt : ParseNumber<unsigned>(numbers.back());
  if (major_number && minor_number) facts.device = makedev(*major_number, *minor_number);
  const bool is_fuse = mount.type.starts_with("fuse");  // "fuse.sshfs", "fuseblk"
  const bool has_disk = !mount.device.starts_with("0:");
  facts.is_remote =
      is_fuse || (!has_disk && std::find(std::begin(kLocalTypes), std::end(kLocalTypes),
                                         mount.type) == std::end(kLocalTypes));
  if (!is_fuse) return facts;
  for (std::string_view option : SplitText(mount.options, ",", /*skip_empty=*/true)) {
    if (ConsumeText(&option, "user_id=")) facts.user = ParseNumber<uint32_t>(option);
    if (ConsumeText(&option, "group_id=")) facts.group = ParseNumber<uint32_t>(option);
    if (option != "allow_other") continue;
    facts.user.reset();
    facts.group.reset();
    break;
  }
  return facts;
}

namespace {

// Returns the mount that a path lies on, without following links. The path begins at the root of
// the table's process; the mount `but` is left out. Null: there is none.
const MountLine* LineOfPath(const MountTable& table, std::string_view path,
                            const MountLine* but = nullptr) {
  const MountLine* found = nullptr;
  size_t longest = 0;
  for (const MountLine& mount : table.lines) {
    std::string_view rest = path;
    const std::string_view point = mount.point == "/" ? std::string_view() : mount.point;
    if (&mount == but || !ConsumeText(&rest, point) || (!rest.empty() && rest.front() != '/')) {
      continue;
    }
    // Where several file systems are mounted at one place, the last one hides the others.
    if (point.size() + 1 < longest) continue;
    longest = point.size() + 1;
    found = &mount;
  }
  return found;
}

bool HasRemoteLayer(const MountLine& mount, const std::vector<const MountTable*>& tables,
                    size_t depth) {
  OverlayLayers layers = LayersOf(mount);
  layers.lower.insert(layers.lower.end(), layers.others.begin(), layers.others.end());
  for (const std::string& folder : layers.lower) {
    for (const MountTable* table : tables) {
      // An overlay that is mounted over its own layer hides the file system of that layer, so that
      // it is left out.
      const MountLine* below = LineOfPath(*table, folder, &mount);
      if (below == nullptr) continue;
      if (FactsOfMount(*below).is_remote) return true;
      if (depth < kMostOverlaysDeep && HasRemoteLayer(*below, tables, depth + 1)) return true;
    }
  }
  return false;
}

// Keeps for a second whether an overlay has a remote layer, because many files lie on the same
// overlay.
class OverlayFacts {
 public:
  bool AreRemote(Pid pid, const MountLine& mount) {
    constexpr int64_t kHoldsForNs = 1'000'000'000;
    constexpr size_t kMostKnown = 1024;
    const std::pair<Pid, std::string> key(pid, std::string(mount.id));
    {
      const std::lock_guard lock(mutex_);
      const auto known = known_.find(key);
      if (known != known_.end() && MonotonicNs() - known->second.read_ns < kHoldsForNs) {
        return known->second.is_remote;
      }
    }
    const auto theirs = MountsOf(pid);
    const auto own = MountsOf(Pid{static_cast<uint32_t>(getpid())});
    const bool is_remote = HasRemoteLayer(mount, {theirs.get(), own.get()}, 0);
    const std::lock_guard lock(mutex_);
    if (known_.size() > kMostKnown) known_.clear();
    known_[key] = {is_remote, MonotonicNs()};
    return is_remote;
  }

 private:
  struct Known {
    bool is_remote = false;
    int64_t read_ns = 0;
  };
  std::mutex mutex_;
  std::map<std::pair<Pid, std::string>, Known> known_;
};

constinit OfThisProcess<OverlayFacts> overlay_facts;

bool IsRemoteOverlay(Pid pid, const MountLine& mount) {
  return mount.type == "overlay" && overlay_facts.Get().AreRemote(pid, mount);
}

// Returns the facts of a mount and of the layers below it.
MountFacts FactsFor(Pid pid, const MountLine& mount) {
  MountFacts facts = FactsOfMount(mount);
  facts.is_remote |= IsRemoteOverlay(pid, mount);
  return facts;
}

}  // namespace

bool HasRemoteLayer(const MountLine& mount, const std::vector<const MountTable*>& tables) {
  return HasRemoteLayer(mount, tables, 0);
}

bool SeesRemoteOverlay(Pid pid) {
  const std::shared_ptr<const MountTable> table = MountsOf(pid);
  return std::any_of(table->lines.begin(), table->lines.end(),
                     [pid](const MountLine& mount) { return IsRemoteOverlay(pid, mount); });
}

MountFacts MountOfDevice(Pid pid, uint64_t device) {
  const std::string number = absl::StrCat(major(device), ":", minor(device));
  const std::shared_ptr<const MountTable> table = MountsOf(pid);
  for (const MountLine& mount : table->lines) {
    if (mount.device == number) return FactsFor(pid, mount);
  }
  MountFacts unknown;
  unknown.device = device;
  // A number of a block device is that of a local disk that is mounted elsewhere, as below an
  // overlay.
  unknown.is_remote = major(device) == 0;
  return unknown;
}

MountFacts MountOfDescriptor(Pid pid, int fd) {
  constexpr size_t kMostFdinfoBytes = 4096;
  const std::string info = ReadSmallFile(absl::StrCat("/proc/self/fdinfo/", fd), kMostFdinfoBytes);
  const std::string_view id = StatusValue(info, "mnt_id");
  const std::shared_ptr<const MountTable> table = MountsOf(pid);
  for (const MountLine& mount : table->lines) {
    if (mount.id == id) return FactsFor(pid, mount);
  }
  return {};
}

MountFacts MountOfPath(Pid pid, std::string_view path) {
  const std::shared_ptr<const MountTable> table = MountsOf(pid);
  const MountLine* mount = LineOfPath(*table, path);
  return mount == nullptr ? MountFacts() : FactsFor(pid, *mount);
}

}  // namespace proftrace
