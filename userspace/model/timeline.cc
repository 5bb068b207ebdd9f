#include "userspace/model/timeline.h"

#include <cstdint>
#include <string>
#include <utility>

#include "userspace/model/name_limits.h"

namespace proftrace {
namespace {

constexpr size_t kSpanMemoryBytes = size_t{72} << 20;      // 1.5 M spans; the others are spilled
constexpr size_t kMemoryEventBytes = size_t{56} << 20;     // 1 M events; the others are spilled
constexpr size_t kDeviceActivityBytes = size_t{64} << 20;  // half a million; the others are spilled
constexpr size_t kKernelBytes = size_t{40} << 20;

Label OtherNamesLike(const Label& label) {
  Label other = label;
  other.name = kOtherNames;
  other.overload_name.clear();
  return other;
}

}  // namespace

const GpuDevice* Timeline::FindDevice(Pid pid, uint32_t device) const {
  for (const GpuDevice& known : devices_) {
    if (known.pid == pid && known.device == device) return &known;
  }
  return nullptr;
}

TimelineBuilder::TimelineBuilder(const std::string& spill_directory)
    : timeline_(std::make_unique<Timeline>()) {
  timeline_->spans_ = std::make_unique<SpanStore>(spill_directory, kSpanMemoryBytes);
  timeline_->memory_events_ =
      std::make_unique<MemoryEventStore>(spill_directory, kMemoryEventBytes);
  timeline_->device_activities_ =
      std::make_unique<DeviceActivityStore>(spill_directory, kDeviceActivityBytes);
  timeline_->kernels_ = std::make_unique<KernelStore>(spill_directory, kKernelBytes);
  timeline_->columns_ = std::make_unique<SpanColumns>(spill_directory);
  timeline_->paths_.emplace_back();  // the root
}

LabelId TimelineBuilder::InternLabel(const Label& label) {
  const LabelId next{static_cast<uint32_t>(timeline_->labels_.size())};
  const bool is_full = label_ids_.size() >= kMostNames && !label_ids_.contains(label);
  const auto [it, inserted] = label_ids_.try_emplace(is_full ? OtherNamesLike(label) : label, next);
  if (inserted) timeline_->labels_.push_back(it->first);
  return it->second;
}

ThreadIndex TimelineBuilder::AddThread(Pid pid, Tid tid, std::string name) {
  timeline_->threads_.push_back(Thread{pid, tid, std::move(name)});
  return ThreadIndex{static_cast<uint32_t>(timeline_->threads_.size() - 1)};
}

PathId TimelineBuilder::InternPath(PathId parent, LabelId label) {
  if (path(parent).is_cut()) {
    parent = path(parent).parent;  // "…"
  } else if (path(parent).depth == kMostPathLevels) {
    Label cut;
    cut.name = kCutPathName;
    parent = InternNode(parent, InternLabel(cut));
  }
  return InternNode(parent, label);
}

PathId TimelineBuilder::InternNode(PathId parent, LabelId label) {
  uint64_t key = (static_cast<uint64_t>(Raw(parent)) << 32) | Raw(label);
  if (path_ids_.size() >= kMostPaths && !path_ids_.contains(key)) {
    parent = kRootPath;
    label = InternLabel(OtherNamesLike(timeline_->labels_[Raw(label)]));
    key = Raw(label);
  }
  const PathId next{static_cast<uint32_t>(timeline_->paths_.size())};
  const auto [it, inserted] = path_ids_.try_emplace(key, next);
  if (inserted) {
    timeline_->paths_.push_back(PathNode{parent, label, timeline_->paths_[Raw(parent)].depth + 1});
  }
  return it->second;
}

DeviceNameId TimelineBuilder::InternDeviceName(const std::string& name) {
  const DeviceNameId next{static_cast<uint32_t>(timeline_->device_names_.size())};
  const bool is_full = device_name_ids_.size() >= kMostNames && !device_name_ids_.contains(name);
  const auto [it, inserted] = device_name_ids_.try_emplace(is_full ? kOtherNames : name, next);
  if (inserted) timeline_->device_names_.push_back(it->first);
  return it->second;
}

absl::StatusOr<SpanId> TimelineBuilder::AddSpan(const Span& span) {
  const SpanId id{timeline_->spans_->size()};
  if (absl::Status status = timeline_->spans_->Append(span); !status.ok()) return status;
  return id;
}

void TimelineBuilder::SetStacks(std::vector<PythonFrame> frames, std::vector<PythonCode> codes,
                                std::vector<PythonModule> modules) {
  timeline_->python_frames_ = std::move(frames);
  timeline_->python_codes_ = std::move(codes);
  timeline_->python_modules_ = std::move(modules);
}

std::unique_ptr<Timeline> TimelineBuilder::Finish(RecordingInfo info, const Ledger& ledger) {
  timeline_->info_ = std::move(info);
  timeline_->ledger_ = ledger;
  if (label_ids_.size() >= kMostNames) {
    uint64_t rows = 0;
    for (uint32_t i = 0; i < span_count(); ++i) {
      rows += timeline_->labels_[Raw(span(SpanId{i}).label)].name == kOtherNames;
    }
    if (rows > 0) {
      timeline_->info_.unsupported.push_back(
          {"names", std::to_string(rows) + " rows have a name beyond the first " +
                        std::to_string(kMostNames) + " and are called " + kOtherNames +
                        "; give annotations names that repeat, or record a shorter time"});
    }
  }
  if (path_ids_.size() >= kMostPaths) {
    timeline_->info_.unsupported.push_back(
        {"paths", "there are more than " + std::to_string(kMostPaths) +
                      " paths of names; rows on later ones have the path " + kOtherNames +
                      "; record a shorter time"});
  }
  if (device_name_ids_.size() >= kMostNames) {
    timeline_->info_.unsupported.push_back(
        {"names of GPU work", "there are more than " + std::to_string(kMostNames) +
                                  " names of kernels, copies and calls; later ones are called " +
                                  kOtherNames + "; record a shorter time"});
  }
  label_ids_.clear();
  path_ids_.clear();
  device_name_ids_.clear();
  return std::move(timeline_);
}

}  // namespace proftrace
