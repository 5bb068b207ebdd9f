#include "userspace/capture/module_collector.h"

#include <algorithm>
#include <cstring>

#include "bpf/abi/python_records.h"
#include "symbols/process_memory.h"
#include "symbols/python_modules.h"

namespace proftrace {
namespace {

// A job that makes models all the time is not followed for ever.
constexpr size_t kMostModels = 256;
// The youngest of them, which may have got modules since they were read.
constexpr size_t kModelsReadAgain = 4;

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
  seen_.push_back({Pid{pair.head.pid}, pair.handle});
  changed_.notify_all();
}

void ModuleCollector::Run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return stop_ || !seen_.empty(); });
    for (auto& [pid, layout] : layouts_) processes_[Raw(pid)] = Process{layout, {}, {}, {}};
    layouts_.clear();
    if (seen_.empty()) return;
    const Seen seen = seen_.front();
    seen_.pop_front();
    lock.unlock();
    Collect(seen);
    lock.lock();
  }
}

bool ModuleCollector::ReadModel(Pid pid, uint64_t root, uint64_t object, Process* process) {
  const PythonModuleTree tree =
      ReadPythonModules(ProcessMemory(pid), process->layout, root, PythonModuleLimits());
  absl::flat_hash_set<uint64_t> objects;
  for (const PythonModuleNode& node : tree.modules) objects.insert(node.object);
  std::vector<const PythonModuleNode*> renamed;
  for (const PythonModuleNode& node : tree.modules) {
    Place& place = process->places[node.object];
    if (place.model == root) continue;
    if (place.model != 0 && !objects.contains(place.model)) continue;
    place = {root, node.path};
    if (process->seen.contains(node.object)) renamed.push_back(&node);
  }
  if (!renamed.empty()) {
    sink_->AddMetadata([&](MetadataWriter& writer) {
      for (const PythonModuleNode* node : renamed) {
        writer.AddModulePath(pid, node->object, node->path);
      }
    });
  }
  return objects.contains(object);
}

void ModuleCollector::Collect(const Seen& seen) {
  const auto it = processes_.find(Raw(seen.pid));
  if (it == processes_.end()) return;
  Process& process = it->second;
  if (!process.places.contains(seen.object)) {
    const size_t count = std::min(process.models.size(), kModelsReadAgain);
    bool is_there = false;
    for (size_t i = 0; i < count && !is_there; ++i) {
      const uint64_t model = process.models[process.models.size() - 1 - i];
      is_there = ReadModel(seen.pid, model, seen.object, &process);
    }
    if (!is_there) {
      if (process.models.size() >= kMostModels) return;
      process.models.push_back(seen.object);
      if (!ReadModel(seen.pid, seen.object, seen.object, &process)) return;
    }
  }
  process.seen.insert(seen.object);
  const std::string path = process.places[seen.object].path;
  sink_->AddMetadata(
      [&](MetadataWriter& writer) { writer.AddModulePath(seen.pid, seen.object, path); });
}

void ModuleCollector::Finish() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
    changed_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

}  // namespace proftrace
