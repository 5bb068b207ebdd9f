#include "userspace/capture/module_collector.h"

#include <algorithm>
#include <cstring>

#include "bpf/abi/python_records.h"
#include "symbols/process/process_memory.h"
#include "symbols/python/python_modules.h"
#include "userspace/base/clock.h"

namespace proftrace {
namespace {

// A job that makes models all the time is not followed for ever.
constexpr size_t kMostModels = 256;
// The youngest of them, which may have got modules since they were read.
constexpr size_t kModelsReadAgain = 4;
// That wait to be looked for. A job makes up as many as it likes.
constexpr size_t kMostModules = 1u << 16;
constexpr size_t kMostModulesOfOne = 1u << 14;
// For so long is looked for what waits at the end.
constexpr int64_t kFinishNs = 5'000'000'000;
constexpr uint64_t kTypeOffset = 8;  // in an object of Python's

}  // namespace

ModuleCollector::ModuleCollector(CaptureSink* sink) : sink_(sink) {
  thread_ = std::thread([this] { Run(); });
}

ModuleCollector::~ModuleCollector() { Finish(); }

void ModuleCollector::SetLayout(Pid pid, const PythonLayout& layout) {
  const std::lock_guard lock(mutex_);
  layouts_.emplace_back(pid, layout);
}

void ModuleCollector::Observe(std::span<const std::byte> record) {
  abi::pt_pair_record pair{};
  std::memcpy(&pair.head, record.data(), sizeof(pair.head));
  if (pair.head.kind != abi::PT_PYTHON_MODULE || record.size() < sizeof(pair)) return;
  std::memcpy(&pair, record.data(), sizeof(pair));
  const std::lock_guard lock(mutex_);
  size_t& waiting = waiting_[pair.head.pid];
  if (waiting >= kMostModulesOfOne || seen_.size() >= kMostModules) {
    ++not_read_;
    return;
  }
  ++waiting;
  seen_.push_back(
      {Pid{pair.head.pid}, pair.handle, pair.object, static_cast<int64_t>(pair.head.time_ns)});
  changed_.notify_all();
}

void ModuleCollector::Run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stop_ || !seen_.empty(); });
    for (auto& [pid, layout] : layouts_) processes_[Raw(pid)] = Process{layout, {}, {}, {}};
    layouts_.clear();
    if (stop_ && MonotonicNs() > finish_until_ns_) {
      not_read_ += seen_.size();
      seen_.clear();
    }
    if (seen_.empty()) return;
    const Seen seen = seen_.front();
    seen_.pop_front();
    --waiting_[Raw(seen.pid)];
    lock.unlock();
    Collect(seen);
    lock.lock();
  }
}

bool ModuleCollector::IsStillThere(Pid pid, uint64_t object, Process* process, Children* children) {
  const Place place = process->places[object];
  const ProcessMemory memory(pid);
  if (memory.ReadWord(object + kTypeOffset).value_or(0) != place.type) return false;
  if (place.parent == 0) return true;
  const auto [it, is_new] = children->try_emplace(place.parent);
  if (is_new) {
    const int64_t now_ns = MonotonicNs();
    // What is freed counts no references, whatever else it still says.
    if (static_cast<uint32_t>(memory.ReadWord(place.parent).value_or(0)) == 0) return false;
    PythonModuleLimits limits;
    limits.depth = 1;
    for (const PythonModuleNode& node :
         ReadPythonModules(memory, process->layout, place.parent, limits).modules) {
      if (node.parent == 0) continue;
      it->second.insert(node.object);
      const auto other = process->places.find(node.object);
      if (other == process->places.end()) continue;
      if (other->second.parent == place.parent && other->second.type == node.type) {
        other->second.read_ns = now_ns;
      }
    }
  }
  return it->second.contains(object);
}

bool ModuleCollector::ReadModel(Pid pid, uint64_t root, uint64_t object, Process* process) {
  const int64_t now_ns = MonotonicNs();
  const PythonModuleTree tree =
      ReadPythonModules(ProcessMemory(pid), process->layout, root, PythonModuleLimits());
  absl::flat_hash_set<uint64_t> objects;
  for (const PythonModuleNode& node : tree.modules) objects.insert(node.object);
  std::vector<const PythonModuleNode*> renamed;
  Children children;
  for (const PythonModuleNode& node : tree.modules) {
    const auto known = process->places.find(node.object);
    const bool was_here = known != process->places.end() && known->second.model == root &&
                          known->second.type == node.type && known->second.path == node.path;
    if (known != process->places.end() && known->second.model != root &&
        !objects.contains(known->second.model) &&
        IsStillThere(pid, node.object, process, &children)) {
      continue;
    }
    process->places[node.object] = {root, node.parent, node.type, now_ns, node.path};
    const auto seen = process->seen.find(node.object);
    const bool is_seen = seen != process->seen.end() && seen->second.type == node.type;
    if (is_seen && !was_here) renamed.push_back(&node);
  }
  if (!renamed.empty()) {
    sink_->AddMetadata([&](MetadataWriter& writer) {
      for (const PythonModuleNode* node : renamed) {
        writer.AddModulePath({pid, node->object, node->type}, process->seen[node->object].told_ns,
                             node->path);
      }
    });
  }
  return objects.contains(object);
}

bool ModuleCollector::FindModel(const Seen& seen, Process* process) {
  const auto known = process->places.find(seen.object);
  if (known != process->places.end()) {
    const Place& place = known->second;
    Children children;
    if (place.parent == 0 && place.type != seen.type) {
      // As the one before, in no other model: modules that are made for a call.
      std::erase(process->models, seen.object);
      process->models.push_back(seen.object);
      return ReadModel(seen.pid, seen.object, seen.object, process);
    }
    if (place.type == seen.type && (place.read_ns >= seen.told_ns ||
                                    IsStillThere(seen.pid, seen.object, process, &children))) {
      return true;
    }
    process->places.erase(seen.object);
  }
  const size_t count = std::min(process->models.size(), kModelsReadAgain);
  for (size_t i = 0; i < count; ++i) {
    const uint64_t model = process->models[process->models.size() - 1 - i];
    if (ReadModel(seen.pid, model, seen.object, process)) return true;
  }
  std::erase(process->models, seen.object);
  if (process->models.size() >= kMostModels) return false;
  process->models.push_back(seen.object);
  return ReadModel(seen.pid, seen.object, seen.object, process);
}

void ModuleCollector::Collect(const Seen& seen) {
  const auto it = processes_.find(Raw(seen.pid));
  if (it == processes_.end()) return;
  Process& process = it->second;
  if (const auto before = process.seen.find(seen.object);
      before != process.seen.end() && before->second.type == seen.type) {
    return;  // another thread tells of it
  }
  process.seen.erase(seen.object);
  if (!FindModel(seen, &process)) return;
  process.seen[seen.object] = seen;
  const std::string path = process.places[seen.object].path;
  sink_->AddMetadata([&](MetadataWriter& writer) {
    writer.AddModulePath({seen.pid, seen.object, seen.type}, seen.told_ns, path);
  });
}

void ModuleCollector::Finish() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    finish_until_ns_ = MonotonicNs() + kFinishNs;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

uint64_t ModuleCollector::not_read() const {
  const std::lock_guard lock(mutex_);
  return not_read_;
}

}  // namespace proftrace
