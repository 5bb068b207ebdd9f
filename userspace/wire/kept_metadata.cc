#include "userspace/wire/kept_metadata.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "userspace/base/dumped_json.h"
#include "userspace/wire/metadata_json.h"

namespace proftrace {
namespace {

using metadata_json::Number;
using nlohmann::json;

constexpr size_t kBlockBytes = 4u << 20;
constexpr size_t kBytesBesideEntry = 80;
// The most notes on features that cannot be recorded, because each process has notes of its own and
// a job may have thousands of processes.
constexpr size_t kMostNotes = 1000;

}  // namespace

void KeptMetadata::Add(const std::vector<std::string>& json_arrays, int64_t now_ns) {
  for (const std::string& array : json_arrays) {
    const json parsed = json::parse(array, nullptr, /*allow_exceptions=*/false);
    if (!parsed.is_array()) continue;
    for (const json& json_entry : parsed) {
      const std::string type = json_entry.value("type", "");
      Entry entry;
      entry.told_ns = now_ns;
      entry.pid = Number<uint32_t>(json_entry, "pid");
      entry.tid = Number<uint32_t>(json_entry, "tid");
      entry.image = Number<uint32_t>(json_entry, "image");
      entry.text = DumpedJson(json_entry);
      if (type == "recording" || type == "end" || type == "steps" || type == "budget" ||
          type == "tier_choice") {
        bytes_ += entry.text.size() - last_[type].size();
        last_[type] = std::move(entry.text);
        continue;
      }
      if (type == "clock" || type == "cpu_quotas" || type == "host_state") {
        bytes_ += kBytesBesideEntry + entry.text.size();
        snapshots_[type].push_back(std::move(entry));
        continue;
      }
      if (type == "process") {
        entry.kind = Kind::kProcess;
      } else if (type == "thread") {
        entry.kind = Kind::kThread;
      } else if (type == "module" || type == "script" || type == "job" ||
                 type == "process_groups" || type == "gpu_agent" || type == "cpu_groups" ||
                 type == "cpu_mask") {
        entry.kind = Kind::kOfProcess;
      } else if (type == "operators" || type == "schemas" || type == "node" ||
                 type == "python_type" || type == "symbol") {
        entry.kind = Kind::kOfImage;
      } else if (type == "unsupported") {
        if (notes_.size() >= kMostNotes || !notes_.insert(entry.text).second) continue;
      }
      bytes_ += kBytesBesideEntry + entry.text.size();
      entries_.push_back(std::move(entry));
    }
  }
}

template <typename Predicate>
void KeptMetadata::RemoveIf(Predicate&& is_over) {
  std::erase_if(entries_, [&](const Entry& entry) {
    if (!is_over(entry)) return false;
    bytes_ -= kBytesBesideEntry + entry.text.size();
    return true;
  });
}

void KeptMetadata::Forget(std::span<const EndedTask> tasks, int64_t late_ns) {
  if (tasks.empty()) return;
  absl::flat_hash_map<std::pair<uint32_t, uint32_t>, int64_t> ended;  // by pid and tid
  for (const EndedTask& task : tasks) ended[{task.pid, task.tid}] = task.end_ns;
  absl::flat_hash_set<uint32_t> images;  // images of ended processes
  RemoveIf([&](const Entry& entry) {
    if (entry.kind == Kind::kLasting || entry.kind == Kind::kOfImage) return false;
    auto it = ended.find({entry.pid, 0});
    if (it == ended.end() && entry.kind == Kind::kThread) it = ended.find({entry.pid, entry.tid});
    // The number may already be that of another process or thread.
    if (it == ended.end() || entry.told_ns > it->second + late_ns) return false;
    if (entry.kind == Kind::kProcess) images.insert(entry.image);
    return true;
  });
  for (const Entry& entry : entries_) {
    if (entry.kind == Kind::kProcess) images.erase(entry.image);
  }
  if (images.empty()) return;
  RemoveIf([&images](const Entry& entry) {
    return entry.kind == Kind::kOfImage && images.contains(entry.image);
  });
}

void KeptMetadata::ForgetSnapshots(int64_t from_ns) {
  for (auto& [type, snapshots] : snapshots_) {
    while (snapshots.size() > 1 && snapshots[1].told_ns < from_ns) {
      bytes_ -= kBytesBesideEntry + snapshots.front().text.size();
      snapshots.pop_front();
    }
  }
}

std::vector<std::string> KeptMetadata::ToJson() const {
  std::vector<std::string> arrays;
  const auto add = [&arrays](const std::string& text) {
    if (arrays.empty() || arrays.back().size() + text.size() > kBlockBytes) {
      arrays.push_back("[" + text);
    } else {
      arrays.back() += "," + text;
    }
  };
  for (const char* type : {"recording", "tier_choice"}) {
    if (const auto it = last_.find(type); it != last_.end()) add(it->second);
  }
  for (const Entry& entry : entries_) add(entry.text);
  for (const auto& [type, snapshots] : snapshots_) {
    for (const Entry& snapshot : snapshots) add(snapshot.text);
  }
  for (const char* type : {"steps", "budget", "end"}) {
    if (const auto it = last_.find(type); it != last_.end()) add(it->second);
  }
  for (std::string& array : arrays) array += "]";
  return arrays;
}

}  // namespace proftrace
