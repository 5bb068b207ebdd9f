#include "symbols/python/python_modules.h"

#include <absl/container/flat_hash_set.h>

#include <utility>

#include "symbols/process/cached_memory.h"
#include "symbols/python/python_objects.h"

namespace proftrace {
namespace {

constexpr std::string_view kChildren = "_modules";

// Reads memory up to a limit, so that the reading of a tree that is made to have no end does end.
class LimitedMemory final : public TargetMemory {
 public:
  LimitedMemory(const TargetMemory& memory, size_t bytes) : memory_(memory), left_(bytes) {}
  bool Read(uint64_t address, void* buffer, size_t bytes) const override {
    const size_t cost = bytes + kReadBytes;
    if (left_ < cost) left_ = 0;
    if (left_ == 0) return false;
    left_ -= cost;
    return memory_.Read(address, buffer, bytes);
  }
  bool is_used_up() const { return left_ == 0; }

 private:
  static constexpr size_t kReadBytes = 64;  // the cost of a read besides its bytes

  const TargetMemory& memory_;
  mutable size_t left_;
};

class ModuleWalk {
 public:
  ModuleWalk(const TargetMemory& memory, const PythonLayout& layout,
             const PythonModuleLimits& limits)
      : objects_(memory, layout), limits_(limits) {}

  PythonModuleTree Read(uint64_t root) {
    Enter(root, 0, "");
    while (!levels_.empty()) {
      Level& level = levels_.back();
      if (level.next == level.children.size()) {
        kept_bytes_ -= level.bytes;
        levels_.pop_back();
        continue;
      }
      const auto [object, name] = std::move(level.children[level.next++]);
      Enter(object, level.parent, level.path.empty() ? name : level.path + "." + name);
    }
    return std::move(tree_);
  }

 private:
  struct Level {
    uint64_t parent = 0;  // the module that holds all the children
    std::string path;     // the path of that module
    std::vector<std::pair<uint64_t, std::string>> children;  // the children's addresses and names
    size_t next = 0;
    size_t bytes = 0;  // how many bytes the names take
  };

  void Enter(uint64_t object, uint64_t parent, const std::string& path) {
    if (seen_.contains(object)) return;
    const auto type = objects_.TypeOf(object, 0);
    const auto class_name = objects_.TypeName(object);
    if (!type || !class_name || class_name == "NoneType") return;
    const size_t bytes = sizeof(PythonModuleNode) + path.size() + class_name->size();
    if (tree_.modules.size() >= limits_.modules || path.size() > limits_.path_bytes ||
        !Keep(bytes)) {
      tree_.is_whole = false;
      return;
    }
    seen_.insert(object);
    tree_.modules.push_back({object, *type, parent, path, *class_name});
    const auto children = objects_.Attribute(object, kChildren);
    const auto items = children ? objects_.DictItems(*children) : std::nullopt;
    if (!items || items->empty()) return;
    if (levels_.size() >= limits_.depth) {
      tree_.is_whole = false;
      return;
    }
    Level level;
    level.parent = object;
    level.path = path;
    for (const PythonItem& item : *items) {
      if (level.children.size() >= limits_.modules) break;
      auto name = objects_.Text(item.key, limits_.path_bytes);
      if (!name) continue;
      const size_t size = sizeof(level.children[0]) + name->size();
      if (!Keep(size)) {
        tree_.is_whole = false;
        break;
      }
      level.bytes += size;
      level.children.emplace_back(item.value, *std::move(name));
    }
    levels_.push_back(std::move(level));
  }

  // Takes room for `bytes`. False: there is no room left.
  bool Keep(size_t bytes) {
    if (bytes > limits_.kept_bytes - kept_bytes_) return false;
    kept_bytes_ += bytes;
    return true;
  }

  const PythonObjects objects_;
  const PythonModuleLimits limits_;
  std::vector<Level> levels_;
  absl::flat_hash_set<uint64_t> seen_;
  PythonModuleTree tree_;
  size_t kept_bytes_ = 0;
};

}  // namespace

PythonModuleTree ReadPythonModules(const TargetMemory& memory, const PythonLayout& layout,
                                   uint64_t root, const PythonModuleLimits& limits) {
  const CachedMemory cached(memory);
  const LimitedMemory limited(cached, limits.bytes);
  PythonModuleTree tree = ModuleWalk(limited, layout, limits).Read(root);
  tree.is_whole = tree.is_whole && !limited.is_used_up();
  return tree;
}

}  // namespace proftrace
