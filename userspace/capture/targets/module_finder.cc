#include "userspace/capture/targets/module_finder.h"

#include <algorithm>
#include <utility>

#include "symbols/process/cache_bytes.h"
#include "symbols/process/process_memory.h"
#include "symbols/python/python_modules.h"
#include "symbols/python/python_objects.h"
#include "userspace/base/clock.h"
#include "userspace/model/name_limits.h"

namespace proftrace {
namespace {

// How many models of a process are followed, as a job may make models all the time.
constexpr size_t kMostModels = 256;
// How many of the youngest models are read again, as they may have got modules since.
constexpr size_t kModelsReadAgain = 4;

void PutSeen(const SeenModule& seen, CacheWriter* out) {
  out->Number(seen.object);
  out->Number(seen.type);
  out->Number(static_cast<uint64_t>(seen.told_ns));
}

SeenModule TakeSeen(CacheReader* in) {
  SeenModule seen;
  seen.object = in->Number<uint64_t>();
  seen.type = in->Number<uint64_t>();
  seen.told_ns = static_cast<int64_t>(in->Number<uint64_t>());
  return seen;
}

}  // namespace

bool ModuleFinder::IsStillThere(Pid pid, uint64_t object, Process* process, Children* children) {
  const Place place = process->places[object];
  const ProcessMemory memory(pid);
  const uint64_t type = object + PythonObjects::TypeOffset(process->layout);
  if (memory.ReadWord(type).value_or(0) != place.type) return false;
  if (place.parent == 0) return true;
  const auto [it, is_new] = children->try_emplace(place.parent);
  if (is_new) {
    const int64_t now_ns = MonotonicNs();
    if (!PythonObjects(memory, process->layout).IsReferenced(place.parent)) return false;
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

bool ModuleFinder::ReadModel(Pid pid, uint64_t root, uint64_t object, Process* process) {
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
  for (const PythonModuleNode* node : renamed) {
    found_.push_back({{node->object, node->type, process->seen[node->object].told_ns}, node->path});
  }
  return objects.contains(object);
}

bool ModuleFinder::FindModel(Pid pid, const SeenModule& seen, Process* process) {
  const auto known = process->places.find(seen.object);
  if (known != process->places.end()) {
    const Place& place = known->second;
    Children children;
    if (place.parent == 0 && place.type != seen.type) {
      // Another module lies at the address of a model: like the one before it, it is in no other
      // model. Jobs make such modules for a single call.
      std::erase(process->models, seen.object);
      process->models.push_back(seen.object);
      return ReadModel(pid, seen.object, seen.object, process);
    }
    if (place.type == seen.type &&
        (place.read_ns >= seen.told_ns || IsStillThere(pid, seen.object, process, &children))) {
      return true;
    }
    process->places.erase(seen.object);
  }
  const size_t count = std::min(process->models.size(), kModelsReadAgain);
  for (size_t i = 0; i < count; ++i) {
    const uint64_t model = process->models[process->models.size() - 1 - i];
    if (ReadModel(pid, model, seen.object, process)) return true;
  }
  std::erase(process->models, seen.object);
  if (process->models.size() >= kMostModels) return false;
  process->models.push_back(seen.object);
  return ReadModel(pid, seen.object, seen.object, process);
}

std::vector<FoundModule> ModuleFinder::Find(Pid pid, uint32_t program, const PythonLayout& layout,
                                            const SeenModule& seen) {
  Process& process = processes_[Raw(pid)];
  if (process.program != program) process = Process{program, layout, {}, {}, {}};
  found_.clear();
  if (const auto before = process.seen.find(seen.object);
      before != process.seen.end() && before->second.type == seen.type) {
    return {};  // another thread has reported the same module
  }
  process.seen.erase(seen.object);
  // A job that reaches these limits makes models all the time. Everything that is known of it is
  // forgotten, because the earlier models are not asked for again.
  if (process.seen.size() >= kMostNames || process.places.size() >= 8 * kMostNames) {
    process = Process{program, layout, {}, {}, {}};
  }
  if (!FindModel(pid, seen, &process)) return std::move(found_);
  process.seen[seen.object] = seen;
  found_.push_back({seen, process.places[seen.object].path});
  return std::move(found_);
}

std::string AskModule(uint32_t program, const PythonLayout& layout, const SeenModule& seen) {
  CacheWriter out;
  out.Number(program);
  out.Text(BytesOfPlain(layout));
  PutSeen(seen, &out);
  return out.Take();
}

std::vector<FoundModule> ModulesOf(std::string_view answer) {
  std::vector<FoundModule> found;
  CacheReader in(answer);
  const uint32_t count = in.Number<uint32_t>();
  for (uint32_t i = 0; i < count; ++i) {
    FoundModule module{TakeSeen(&in), in.Text()};
    if (!in.ok()) break;
    found.push_back(std::move(module));
  }
  return found;
}

std::string AnswerForModule(ModuleFinder* search, Pid pid, std::string_view question) {
  CacheReader in(question);
  const uint32_t program = in.Number<uint32_t>();
  PythonLayout layout;
  TakePlain(in.Text(), &layout);
  const std::vector<FoundModule> found = search->Find(pid, program, layout, TakeSeen(&in));
  CacheWriter out;
  out.Number(static_cast<uint32_t>(found.size()));
  for (const FoundModule& module : found) {
    PutSeen(module.seen, &out);
    out.Text(module.path);
  }
  return out.Take();
}

}  // namespace proftrace
