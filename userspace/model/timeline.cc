#include "userspace/model/timeline.h"

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "userspace/model/name_limits.h"

namespace proftrace {
namespace {

constexpr size_t kSpanMemoryBytes = size_t{72} << 20;      // 1.5 M spans; the others are spilled
constexpr size_t kMemoryEventBytes = size_t{56} << 20;     // 1 M events; the others are spilled
constexpr size_t kDeviceActivityBytes = size_t{64} << 20;  // half a million; the others are spilled
constexpr size_t kKernelBytes = size_t{40} << 20;

// The numbers of rows that do not have the name or path that they had in the job.
struct RowsInstead {
  uint64_t groups = 0;       // called by their group
  uint64_t others = 0;       // called kOtherNames
  uint64_t group_paths = 0;  // on a path in which names are groups
  uint64_t other_paths = 0;  // on a path of kOtherNames
};

void TellOf(const RowsInstead& rows, std::vector<Unsupported>* unsupported) {
  const auto count = [](uint64_t number) { return std::to_string(number); };
  if (rows.groups + rows.others > 0) {
    unsupported->push_back(
        {"names", count(rows.groups + rows.others) + " rows have a name beyond the first " +
                      count(kMostNames) + ": " + count(rows.groups) +
                      " of them are told as a group, in whose name each number is a *, and " +
                      count(rows.others) + " are called " + kOtherNames +
                      "; give annotations names that repeat, or record a shorter time"});
  }
  if (rows.group_paths + rows.other_paths > 0) {
    unsupported->push_back(
        {"paths", count(rows.group_paths + rows.other_paths) +
                      " rows lie on paths of names after the first " + count(kMostPaths) + ": in " +
                      count(rows.group_paths) +
                      " of them each number in an annotation is a *, and " +
                      count(rows.other_paths) + " are on " + kOtherNames +
                      "; give annotations names that repeat, or record a shorter time"});
  }
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
  return InternBounded(label, kMostNames, &timeline_->labels_, &label_ids_);
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
  const auto key_of = [](PathId above, LabelId below) {
    return (static_cast<uint64_t>(Raw(above)) << 32) | Raw(below);
  };
  uint64_t key = key_of(parent, label);
  if (path_ids_.size() >= kMostPaths && !path_ids_.contains(key)) {
    // Only annotations are grouped, because numbers in the name of an operator are no counts:
    // aten::conv2d.
    const Label& own = timeline_->labels_[Raw(label)];
    const auto group =
        own.kind == SpanKind::kAnnotation ? LabelInstead(own, /*is_group=*/true) : std::nullopt;
    if (group.has_value()) label = InternLabel(*group);
    key = key_of(parent, label);
    if (path_ids_.size() >= kMostPaths + kMostGroupPaths && !path_ids_.contains(key)) {
      parent = kRootPath;
      label = InternLabel(*LabelInstead(timeline_->labels_[Raw(label)], /*is_group=*/false));
      key = key_of(parent, label);
    }
  }
  const PathId next{static_cast<uint32_t>(timeline_->paths_.size())};
  const auto [it, inserted] = path_ids_.try_emplace(key, next);
  if (inserted) {
    timeline_->paths_.push_back(PathNode{parent, label, timeline_->paths_[Raw(parent)].depth + 1});
  }
  return it->second;
}

DeviceNameId TimelineBuilder::InternDeviceName(const std::string& name) {
  const auto add = [this](const std::string& one) {
    const DeviceNameId next{static_cast<uint32_t>(timeline_->device_names_.size())};
    const auto [it, inserted] = device_name_ids_.try_emplace(one, next);
    if (inserted) timeline_->device_names_.push_back(it->first);
    return it->second;
  };
  const size_t names = device_name_ids_.size();
  if (names < kMostNames || device_name_ids_.contains(name)) return add(name);
  const std::optional<std::string> group = GroupOfName(name);
  const bool has_room =
      group && (names < kMostNames + kMostNameGroups || device_name_ids_.contains(*group));
  return add(has_room ? *group : kOtherNames);
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
  if (label_ids_.size() > kMostNames || path_ids_.size() > kMostPaths) {
    RowsInstead rows;
    for (uint32_t i = 0; i < span_count(); ++i) {
      const Span& row = span(SpanId{i});
      if (Raw(row.label) >= kMostNames) {
        ++(timeline_->labels_[Raw(row.label)].name == kOtherNames ? rows.others : rows.groups);
      }
      if (Raw(row.path) <= kMostPaths) continue;  // the first one is the root
      PathNode node = path(row.path);
      while (node.depth > 1) node = path(node.parent);
      const bool is_other = timeline_->labels_[Raw(node.label)].name == kOtherNames;
      ++(is_other ? rows.other_paths : rows.group_paths);
    }
    TellOf(rows, &timeline_->info_.unsupported);
  }
  if (device_name_ids_.size() > kMostNames) {
    timeline_->info_.unsupported.push_back(
        {"names of GPU work",
         "there are more than " + std::to_string(kMostNames) +
             " names of kernels, copies and calls; later ones with a number are "
             "told as a group, others are called " +
             kOtherNames + "; record a shorter time"});
  }
  label_ids_.clear();
  path_ids_.clear();
  device_name_ids_.clear();
  return std::move(timeline_);
}

}  // namespace proftrace
