#include "userspace/merge/device_merger.h"

#include <algorithm>
#include <limits>
#include <utility>
#include <variant>

#include "userspace/base/saturating.h"
#include "userspace/merge/device_names.h"

namespace proftrace {
namespace {

constexpr size_t kCallBytes = size_t{64} << 20;      // of memory; the others are spilled
constexpr size_t kActivityBytes = size_t{64} << 20;  // of memory; the others are spilled
constexpr size_t kMarkerBytes = size_t{16} << 20;    // of memory; the others are spilled
constexpr size_t kMaxNameBytes = 4096;               // longer names are cut, marked and counted
constexpr std::string_view kCutMark = "\u2026";
// CUPTI knows a device's clock to within a few microseconds. Work may seem to begin before its call
// by no more than this.
constexpr int64_t kClockToleranceNs = 1'000'000;
// The tolerance where only one call has had the id, so that the work can belong to no other call.
constexpr int64_t kOnlyCallToleranceNs = 1'000'000'000;
// The most calls with the same id that are looked through. Ids come again after 2^32 calls.
constexpr int kMostCallsOfId = 64;
// CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0: Kineto gives it the operators' ids.
constexpr uint32_t kOperatorCorrelation = 3;
// CUpti_ActivityFlag.
constexpr uint32_t kMarkerInstantaneous = 1u << 0;
constexpr uint32_t kMarkerStart = 1u << 1;

// Cuts a name that is too long, at a whole character.
std::string CutName(std::string name, uint64_t* cut) {
  if (name.size() <= kMaxNameBytes) return name;
  ++*cut;
  size_t size = kMaxNameBytes;
  while (size > 0 && (static_cast<unsigned char>(name[size]) & 0xc0) == 0x80) --size;
  name.resize(size);
  return name.append(kCutMark);
}

}  // namespace

DeviceMerger::DeviceMerger(const DeviceDecoder& decoder, const std::string& spill_directory,
                           TimelineBuilder* timeline, DeviceLedger* ledger)
    : decoder_(decoder),
      timeline_(timeline),
      ledger_(ledger),
      calls_(spill_directory, kCallBytes),
      activities_(spill_directory, kActivityBytes),
      markers_(spill_directory, kMarkerBytes) {}

void DeviceMerger::SetProcessStart(Pid pid, int64_t start_ns) {
  const auto [it, inserted] = process_starts_.try_emplace(Raw(pid), start_ns);
  if (!inserted) it->second = std::min(it->second, start_ns);
}

int64_t DeviceMerger::StartOf(Pid pid) const {
  const auto it = process_starts_.find(Raw(pid));
  return it == process_starts_.end() ? window_.start_ns : std::max(it->second, window_.start_ns);
}

bool DeviceMerger::IsOutside(Pid pid, int64_t start_ns) const {
  return start_ns < StartOf(pid) || (window_.end_ns.has_value() && start_ns > *window_.end_ns);
}

absl::Status DeviceMerger::Add(const DeviceEvent& event) {
  if (const auto* call = std::get_if<DeviceCall>(&event)) {
    PlacedCall placed;
    placed.call = *call;
    return calls_.Append(placed);
  }
  if (const auto* activity = std::get_if<DecodedActivity>(&event)) return AddActivity(*activity);
  ++ledger_->merged;
  if (const auto* device = std::get_if<DecodedDevice>(&event)) {
    devices_[{Raw(device->device.pid), device->device.device}] = *device;
  } else if (const auto* context = std::get_if<DeviceContext>(&event)) {
    context_devices_[{Raw(context->pid), context->context}] = context->device;
  } else if (const auto* external = std::get_if<ExternalCorrelation>(&event)) {
    if (external->kind == kOperatorCorrelation) {
      external_ids_[{Raw(external->pid), external->correlation}] = external->id;
    }
  } else if (const auto* look = std::get_if<ClockLook>(&event)) {
    AddClock(*look);
  } else if (const auto* loss = std::get_if<DeviceLoss>(&event)) {
    uint64_t& count = (loss->by_cupti ? cupti_dropped_ : unread_)[Raw(loss->pid)];
    count += std::min(loss->count, std::numeric_limits<uint64_t>::max() / 2 - count);
  }
  return absl::OkStatus();
}

void DeviceMerger::AddClock(const ClockLook& look) {
  DeviceClock& clock = clocks_[Raw(look.pid)];
  const int64_t least_ns = look.cupti_ns - look.after_ns;
  const int64_t most_ns = look.cupti_ns - look.before_ns;
  clock.least_ns = clock.looks == 0 ? least_ns : std::max(clock.least_ns, least_ns);
  clock.most_ns = clock.looks == 0 ? most_ns : std::min(clock.most_ns, most_ns);
  clock.pid = look.pid;
  ++clock.looks;
}

absl::Status DeviceMerger::AddActivity(const DecodedActivity& decoded) {
  DeviceActivity activity = decoded.activity;
  activity.name = DeviceNameId{Raw(decoded.name)};
  if (IsDeviceWork(activity.kind)) {
    context_devices_.try_emplace({Raw(activity.pid), activity.context}, activity.device);
  }
  switch (activity.kind) {
    case DeviceActivityKind::kKernel:
      activity.kernel = timeline_->kernel_count();
      if (absl::Status status = timeline_->AddKernel(decoded.kernel); !status.ok()) return status;
      break;
    case DeviceActivityKind::kEvent:
      recorded_events_[{Raw(activity.pid), activity.context, activity.event}].push_back(
          {activity.correlation, activity.stream});
      if (activity.start_ns == 0) {  // CUPTI did not tell the device's time, so there is no row
        ++ledger_->merged;
        return absl::OkStatus();
      }
      break;
    case DeviceActivityKind::kMarker:
      return AddMarker(activity);
    default:
      break;
  }
  return activities_.Append(activity);
}

absl::Status DeviceMerger::AddMarker(const DeviceActivity& activity) {
  const bool is_instant = (activity.code & kMarkerInstantaneous) != 0;
  return (is_instant ? activities_ : markers_).Append(activity);
}

// A range is one row from two records. Where one of these is missing, the range began before the
// window or lasts beyond it. The records of each thread come in buffers of their own, so an end on
// another thread may come before its begin.
absl::Status DeviceMerger::PairMarkers() {
  std::vector<uint32_t> order(markers_.size());
  for (uint32_t i = 0; i < markers_.size(); ++i) order[i] = i;
  const auto key = [this](uint32_t index) {
    const DeviceActivity& marker = markers_.at(index);
    const bool is_end = (marker.code & kMarkerStart) == 0;
    return std::tuple(Raw(marker.pid), marker.event, marker.start_ns, is_end, index);
  };
  std::sort(order.begin(), order.end(), [&key](uint32_t a, uint32_t b) { return key(a) < key(b); });
  for (size_t i = 0; i < order.size(); ++i) {
    const DeviceActivity& begin = markers_.at(order[i]);
    const DeviceActivity* end = i + 1 < order.size() ? &markers_.at(order[i + 1]) : nullptr;
    const bool is_pair = (begin.code & kMarkerStart) != 0 && end != nullptr &&
                         (end->code & kMarkerStart) == 0 && end->pid == begin.pid &&
                         end->event == begin.event;
    if (!is_pair) {
      ++ledger_->outside_window;
      continue;
    }
    DeviceActivity range = begin;
    range.duration_ns = end->start_ns - begin.start_ns;
    ++ledger_->merged;  // one of its two records; the other one counts when the row is made
    ++i;
    if (absl::Status status = activities_.Append(range); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status DeviceMerger::PrepareCalls() {
  call_order_.resize(calls_.size());
  for (uint32_t i = 0; i < calls_.size(); ++i) call_order_[i] = i;
  std::sort(call_order_.begin(), call_order_.end(), [this](uint32_t a, uint32_t b) {
    const DeviceCall& left = calls_.at(a).call;
    const DeviceCall& right = calls_.at(b).call;
    if (left.start_ns != right.start_ns) return left.start_ns < right.start_ns;
    // A call comes before the calls that it makes.
    if (left.end_ns != right.end_ns) return left.end_ns > right.end_ns;
    return left.is_driver != right.is_driver ? right.is_driver : a < b;
  });
  for (auto& [key, events] : recorded_events_) {
    std::stable_sort(events.begin(), events.end(),
                     [](const RecordedEvent& a, const RecordedEvent& b) {
                       return a.correlation < b.correlation;
                     });
  }
  return PairMarkers();
}

absl::Status DeviceMerger::PlaceCallsBefore(int64_t time_ns, SpanBuilder* spans) {
  while (next_call_ < call_order_.size()) {
    const uint32_t index = call_order_[next_call_];
    if (calls_.at(index).call.start_ns >= time_ns) break;
    ++next_call_;
    if (absl::Status status = PlaceCall(index, spans); !status.ok()) return status;
  }
  return absl::OkStatus();
}

absl::Status DeviceMerger::PlaceCall(uint32_t index, SpanBuilder* spans) {
  PlacedCall& placed = calls_.at(index);
  const DeviceCall& call = placed.call;
  const auto [last, inserted] =
      last_calls_.try_emplace({Raw(call.pid), call.facts.correlation}, index);
  if (!inserted) placed.previous = std::exchange(last->second, index);
  if (IsOutside(call.pid, call.start_ns)) {
    placed.is_outside = true;
    ++ledger_->outside_window;
    return absl::OkStatus();
  }
  const LabelEntry label = LabelOf(call);
  const absl::StatusOr<CallPlace> place = spans->AddCall(
      {call.pid, call.tid, call.start_ns, call.end_ns, label.id, call.facts, label.is_shown});
  if (!place.ok()) return place.status();
  placed.place = *place;
  ++ledger_->merged;
  return absl::OkStatus();
}

DeviceMerger::LabelEntry DeviceMerger::LabelOf(const DeviceCall& call) {
  const uint64_t key = uint64_t{Raw(call.name)} << 1 | (call.is_driver ? 1 : 0);
  const auto known = labels_.find(key);
  if (known != labels_.end()) {
    if (!known->second.is_named) ++ledger_->unnamed;
    return known->second;
  }
  const std::string name = decoder_.Name(call.name).value_or("");
  LabelEntry entry;
  entry.is_named = !name.empty();
  if (!entry.is_named) ++ledger_->unnamed;
  Label label;
  label.name =
      entry.is_named ? CutName(std::string(CallName(name)), &ledger_->names_cut) : "<unknown call>";
  label.category = call.is_driver ? Category::kCudaDriver : Category::kCudaRuntime;
  label.kind = SpanKind::kRuntime;
  entry.is_shown = !entry.is_named || IsShownCall(label.name, call.is_driver);
  entry.id = timeline_->InternLabel(label);
  labels_.emplace(key, entry);
  return entry;
}

uint32_t DeviceMerger::FindCall(const DeviceActivity& activity) const {
  if (activity.correlation == 0) return kNone;
  const auto last = last_calls_.find({Raw(activity.pid), activity.correlation});
  if (last == last_calls_.end()) return kNone;
  uint32_t earliest = last->second;
  int looked_at = 0;
  for (uint32_t index = last->second; index != kNone; index = calls_.at(index).previous) {
    if (calls_.at(index).call.start_ns <= activity.start_ns) return index;
    if (++looked_at == kMostCallsOfId) return kNone;
    earliest = index;
  }
  const int64_t early_ns = calls_.at(earliest).call.start_ns - activity.start_ns;
  const int64_t tolerance_ns = looked_at == 1 ? kOnlyCallToleranceNs : kClockToleranceNs;
  return early_ns <= tolerance_ns ? earliest : kNone;
}

void DeviceMerger::LearnExternalPlaces() {
  if (external_ids_.empty()) return;
  for (const uint32_t index : call_order_) {
    const PlacedCall& placed = calls_.at(index);
    if (placed.place.op == kNoSpan) continue;
    const auto id = external_ids_.find({Raw(placed.call.pid), placed.call.facts.correlation});
    if (id == external_ids_.end()) continue;
    external_places_.try_emplace({Raw(placed.call.pid), id->second}, placed.place);
  }
}

bool DeviceMerger::Link(DeviceActivity* activity) {
  const uint32_t index = FindCall(*activity);
  const bool has_call = index != kNone && !calls_.at(index).is_outside;
  if (activity->start_ns < StartOf(activity->pid)) return false;
  if (!has_call && IsOutside(activity->pid, activity->start_ns)) return false;
  if (has_call) {
    PlacedCall& call = calls_.at(index);
    activity->call = call.place.row;
    activity->op = call.place.op;
    activity->annotation = call.place.annotation;
    activity->is_first_of_call = !call.has_work;
    call.has_work = true;
    activity->tid = call.call.tid;
    activity->is_linked = true;
  }
  if (activity->op == kNoSpan) {
    const auto id = external_ids_.find({Raw(activity->pid), activity->correlation});
    if (id != external_ids_.end()) {
      const auto place = external_places_.find({Raw(activity->pid), id->second});
      if (place != external_places_.end()) {
        activity->op = place->second.op;
        activity->is_linked = true;
      }
    }
  }
  return true;
}

// Fills in the device that is waited for, and for a wait for an event, where the event was recorded
// last (Kineto's getWaitEventInfo).
void DeviceMerger::FillSync(DeviceActivity* activity) const {
  const auto device = context_devices_.find({Raw(activity->pid), activity->context});
  if (device != context_devices_.end()) activity->device = device->second;
  const auto events =
      recorded_events_.find({Raw(activity->pid), activity->context, activity->event});
  if (activity->event == kNowhere || events == recorded_events_.end()) return;
  const auto after =
      std::upper_bound(events->second.begin(), events->second.end(), activity->correlation,
                       [](uint32_t correlation, const RecordedEvent& event) {
                         return correlation < event.correlation;
                       });
  if (after == events->second.begin()) return;
  activity->awaited_stream = (after - 1)->stream;
  activity->awaited_correlation = (after - 1)->correlation;
}

DeviceNameId DeviceMerger::NameOf(const DeviceActivity& activity) {
  const bool has_own =
      activity.kind == DeviceActivityKind::kKernel || activity.kind == DeviceActivityKind::kMarker;
  const uint32_t parts = has_own
                             ? Raw(activity.name)
                             : uint32_t{activity.copy_kind} << 16 |
                                   uint32_t{activity.source_kind} << 8 | activity.destination_kind;
  const std::tuple<uint8_t, uint32_t, uint32_t> key{static_cast<uint8_t>(activity.kind), parts,
                                                    has_own ? 0 : activity.code};
  const auto known = names_.find(key);
  if (known != names_.end()) {
    if (!known->second.is_named) ++ledger_->unnamed;
    return known->second.id;
  }
  std::optional<std::string> text;
  if (has_own) text = decoder_.Name(DeviceNameRef{Raw(activity.name)});
  const bool is_named = !has_own || (text.has_value() && !text->empty());
  if (!is_named) ++ledger_->unnamed;
  const DeviceNameId id = timeline_->InternDeviceName(
      CutName(DeviceActivityName(activity, text.value_or("")), &ledger_->names_cut));
  names_.emplace(key, NameEntry{id, is_named});
  return id;
}

// Adds the work to the sums of its operator and to the stretch of its annotation.
absl::Status DeviceMerger::Charge(const DeviceActivity& activity) {
  if (activity.annotation != kNoSpan) {
    const auto [it, inserted] = annotations_.try_emplace(
        {Raw(activity.annotation), activity.device, activity.stream},
        DeviceAnnotation{activity.annotation, kNowhere, activity.pid, activity.device,
                         activity.stream, activity.start_ns, activity.end_ns()});
    it->second.start_ns = std::min(it->second.start_ns, activity.start_ns);
    it->second.end_ns = std::max(it->second.end_ns, activity.end_ns());
  }
  if (activity.op == kNoSpan) return absl::OkStatus();
  SpanColumn<int64_t>& column = timeline_->columns().device_ns;
  return column.Set(activity.op, SaturatingSum(column.at(activity.op), activity.duration_ns));
}

absl::Status DeviceMerger::AddToTimeline(DeviceActivity activity) {
  activity.name = NameOf(activity);
  if (!IsDeviceWork(activity.kind)) {
    ++ledger_->merged;
    return timeline_->AddDeviceActivity(activity);
  }
  ++(activity.is_linked ? ledger_->merged : ledger_->unlinked);
  if (absl::Status status = Charge(activity); !status.ok()) return status;
  return timeline_->AddDeviceActivity(activity);
}

absl::Status DeviceMerger::Finish() {
  LearnExternalPlaces();
  std::vector<uint32_t> order(activities_.size());
  for (uint32_t i = 0; i < activities_.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(), [this](uint32_t a, uint32_t b) {
    const DeviceActivity& left = activities_.at(a);
    const DeviceActivity& right = activities_.at(b);
    if (left.start_ns != right.start_ns) return left.start_ns < right.start_ns;
    if (left.duration_ns != right.duration_ns) return left.duration_ns > right.duration_ns;
    return a < b;
  });
  // Work is linked before other activities, because it gets its call's arrow whatever else the call
  // did.
  std::erase_if(order, [this](uint32_t index) {
    DeviceActivity& activity = activities_.at(index);
    if (!IsDeviceWork(activity.kind) || Link(&activity)) return false;
    ++ledger_->outside_window;
    return true;
  });
  for (const uint32_t index : order) {
    DeviceActivity& activity = activities_.at(index);
    if (!IsDeviceWork(activity.kind)) {
      if (!Link(&activity)) {
        ++ledger_->outside_window;
        continue;
      }
      if (activity.kind == DeviceActivityKind::kSync) FillSync(&activity);
    }
    if (absl::Status status = AddToTimeline(activity); !status.ok()) return status;
  }
  FinishFacts();
  return absl::OkStatus();
}

void DeviceMerger::FinishFacts() {
  std::vector<DeviceAnnotation> annotations;
  annotations.reserve(annotations_.size());
  for (const auto& [key, annotation] : annotations_) annotations.push_back(annotation);
  std::stable_sort(annotations.begin(), annotations.end(), ComesBefore);
  timeline_->SetDeviceAnnotations(std::move(annotations));
  std::vector<GpuDevice> devices;
  for (const auto& [key, decoded] : devices_) {
    GpuDevice& device = devices.emplace_back(decoded.device);
    device.name = CutName(decoder_.Name(decoded.name).value_or(""), &ledger_->names_cut);
  }
  timeline_->SetDevices(std::move(devices));
  std::vector<DeviceClock> clocks;
  for (const auto& [pid, clock] : clocks_) clocks.push_back(clock);
  timeline_->SetDeviceClocks(std::move(clocks));
}

}  // namespace proftrace
