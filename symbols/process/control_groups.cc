#include "symbols/process/control_groups.h"

#include <absl/strings/str_cat.h>

#include <algorithm>

#include "symbols/process/process_maps.h"
#include "userspace/base/text.h"

namespace proftrace {
namespace {

constexpr size_t kMostFileBytes = 1 << 20;
constexpr size_t kMostLevels = 64;

struct GroupMount {
  std::string root;   // the group of the hierarchy that is mounted
  std::string place;  // the folder where it is mounted
};

bool HasWord(std::string_view list, std::string_view word) {
  const std::vector<std::string_view> words = SplitText(list, ",", /*skip_empty=*/true);
  return std::find(words.begin(), words.end(), word) != words.end();
}

// "36 35 0:30 /root /place options optional - type source super-options" (proc(5)).
std::optional<GroupMount> FindGroupMount(std::string_view mounts, std::string_view type,
                                         std::string_view controller) {
  for (const std::string_view line : SplitText(mounts, "\n", /*skip_empty=*/true)) {
    const size_t dash = line.find(" - ");
    if (dash == std::string_view::npos) continue;
    const auto head = SplitText(line.substr(0, dash), " ", /*skip_empty=*/true);
    const auto tail = SplitText(line.substr(dash + 3), " ", /*skip_empty=*/true);
    if (head.size() < 5 || tail.size() < 3 || tail[0] != type) continue;
    if (!controller.empty() && !HasWord(tail[2], controller)) continue;
    return GroupMount{std::string(head[3]), std::string(head[4])};
  }
  return std::nullopt;
}

// Returns the path in the controller's line "4:memory:/path", or in "0::/path".
std::optional<std::string> PathOfGroup(std::string_view groups, std::string_view controller) {
  for (const std::string_view line : SplitText(groups, "\n", /*skip_empty=*/true)) {
    const size_t first = line.find(':');
    if (first == std::string_view::npos) continue;
    const std::string_view rest = line.substr(first + 1);
    const size_t second = rest.find(':');
    if (second == std::string_view::npos) continue;
    const std::string_view controllers = rest.substr(0, second);
    const bool is_it = controller.empty() ? controllers.empty() : HasWord(controllers, controller);
    if (is_it) return std::string(rest.substr(second + 1));
  }
  return std::nullopt;
}

std::optional<ControlGroup> GroupAt(const GroupMount& mount, const std::string& name, bool is_v2) {
  // A group outside of our namespace of control groups has no folder that we can see.
  if (!name.starts_with('/') || Contains(name, "/../") || name.ends_with("/..")) {
    return std::nullopt;
  }
  std::string below = name;
  if (mount.root != "/") {
    if (below != mount.root && !below.starts_with(mount.root + "/")) return std::nullopt;
    below = below.substr(mount.root.size());
  }
  while (below.ends_with('/')) below.pop_back();
  ControlGroup group{is_v2, name, {}};
  while (group.folders.size() < kMostLevels) {
    group.folders.push_back(mount.place + below);
    if (below.empty()) break;
    below.resize(below.rfind('/'));
  }
  return group;
}

}  // namespace

std::optional<ControlGroup> FindControlGroup(std::string_view groups, std::string_view mounts,
                                             std::string_view controller) {
  if (!controller.empty()) {
    const std::optional<GroupMount> old = FindGroupMount(mounts, "cgroup", controller);
    const std::optional<std::string> name = PathOfGroup(groups, controller);
    if (old.has_value() && name.has_value()) return GroupAt(*old, *name, /*is_v2=*/false);
  }
  const std::optional<GroupMount> unified = FindGroupMount(mounts, "cgroup2", "");
  const std::optional<std::string> name = PathOfGroup(groups, "");
  if (!unified.has_value() || !name.has_value()) return std::nullopt;
  return GroupAt(*unified, *name, /*is_v2=*/true);
}

std::optional<ControlGroup> FindControlGroup(Pid pid, std::string_view controller) {
  return FindControlGroup(
      ReadSmallFile(absl::StrCat("/proc/", Raw(LivingThread(pid)), "/cgroup"), kMostFileBytes),
      ReadSmallFile("/proc/self/mountinfo", kMostFileBytes), controller);
}

uint64_t StatNumber(std::string_view text, std::string_view name) {
  for (const std::string_view line : SplitText(text, "\n", /*skip_empty=*/true)) {
    if (!line.starts_with(name) || line.size() <= name.size() || line[name.size()] != ' ') continue;
    return ParseNumber<uint64_t>(line.substr(name.size() + 1)).value_or(0);
  }
  return 0;
}

}  // namespace proftrace
