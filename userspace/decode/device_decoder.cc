#include "userspace/decode/device_decoder.h"

#include <algorithm>
#include <cstring>

#include "userspace/model/name_limits.h"
#include "userspace/wire/metadata.h"

namespace proftrace {
namespace {

// More devices than any host has. Larger numbers are not those of devices.
constexpr uint32_t kMostDevices = 1024;
// The most names that are kept: twice as many as in the Timeline, which reports when it is full.
constexpr size_t kMostDeviceNames = 2 * kMostNames;
constexpr DeviceNameRef kOtherDeviceNames{1};
static_assert(kNowhere == PT_GPU_NOWHERE);

template <typename Record>
std::optional<Record> Read(std::span<const std::byte> bytes) {
  if (bytes.size() < sizeof(Record)) return std::nullopt;
  Record record;
  std::memcpy(&record, bytes.data(), sizeof(record));
  return record;
}

bool IsTime(uint64_t time_ns) {
  return time_ns > 0 && time_ns <= static_cast<uint64_t>(kLatestMonotonicNs);
}

// Returns a time, or 0 where it is missing.
int64_t TimeOrZero(uint64_t time_ns) { return IsTime(time_ns) ? static_cast<int64_t>(time_ns) : 0; }

bool IsInterval(uint64_t start_ns, uint64_t end_ns) {
  return IsTime(start_ns) && IsTime(end_ns) && end_ns >= start_ns;
}

// Returns whether work had not ended, or CUPTI could not take its times.
bool IsUnfinished(uint64_t start_ns, uint64_t end_ns) {
  return (start_ns == 0 || IsTime(start_ns)) && end_ns == 0;
}

bool IsDevice(uint32_t device) { return device < kMostDevices; }

DeviceActivity ActivityOf(const abi::pt_record& head, DeviceActivityKind kind) {
  DeviceActivity activity;
  activity.kind = kind;
  activity.pid = Pid{head.pid};
  activity.tid = Tid{head.tid};
  activity.start_ns = TimeOrZero(head.time_ns);
  return activity;
}

DeviceActivity IntervalOf(const abi::pt_record& head, uint64_t end_ns, DeviceActivityKind kind) {
  DeviceActivity activity = ActivityOf(head, kind);
  activity.duration_ns = static_cast<int64_t>(end_ns - head.time_ns);
  return activity;
}

// Sets the fields that several kinds of records have under the same names.
template <typename Record>
void SetPlace(const Record& record, DeviceActivity* activity) {
  activity->correlation = record.correlation;
  activity->device = record.device;
  activity->context = record.context;
  activity->stream = record.stream;
}

std::optional<DeviceEvent> DecodeMemcpy(std::span<const std::byte> bytes) {
  const auto record = Read<abi::pt_gpu_memcpy_record>(bytes);
  if (!record || !IsInterval(record->head.time_ns, record->end_ns)) return std::nullopt;
  if (!IsDevice(record->device)) return std::nullopt;
  DecodedActivity decoded;
  decoded.activity = IntervalOf(record->head, record->end_ns, DeviceActivityKind::kMemcpy);
  SetPlace(*record, &decoded.activity);
  decoded.activity.bytes = record->bytes;
  decoded.activity.graph_node = record->graph_node;
  decoded.activity.graph = record->graph;
  decoded.activity.from_device = record->source_device;
  decoded.activity.to_device = record->destination_device;
  decoded.activity.copy_kind = record->kind;
  decoded.activity.source_kind = record->source_kind;
  decoded.activity.destination_kind = record->destination_kind;
  return decoded;
}

std::optional<DeviceEvent> DecodeMemset(std::span<const std::byte> bytes) {
  const auto record = Read<abi::pt_gpu_memset_record>(bytes);
  if (!record || !IsInterval(record->head.time_ns, record->end_ns)) return std::nullopt;
  if (!IsDevice(record->device)) return std::nullopt;
  DecodedActivity decoded;
  decoded.activity = IntervalOf(record->head, record->end_ns, DeviceActivityKind::kMemset);
  SetPlace(*record, &decoded.activity);
  decoded.activity.bytes = record->bytes;
  decoded.activity.graph_node = record->graph_node;
  decoded.activity.graph = record->graph;
  decoded.activity.status = record->value;
  decoded.activity.source_kind = record->memory_kind;
  return decoded;
}

std::optional<DeviceEvent> DecodeGraph(std::span<const std::byte> bytes) {
  const auto record = Read<abi::pt_gpu_graph_record>(bytes);
  if (!record || !IsInterval(record->head.time_ns, record->end_ns)) return std::nullopt;
  if (!IsDevice(record->device)) return std::nullopt;
  DecodedActivity decoded;
  decoded.activity = IntervalOf(record->head, record->end_ns, DeviceActivityKind::kGraph);
  SetPlace(*record, &decoded.activity);
  decoded.activity.graph = record->graph;
  return decoded;
}

std::optional<DeviceEvent> DecodeSync(std::span<const std::byte> bytes) {
  const auto record = Read<abi::pt_gpu_sync_record>(bytes);
  if (!record || !IsInterval(record->head.time_ns, record->end_ns)) return std::nullopt;
  DecodedActivity decoded;
  decoded.activity = IntervalOf(record->head, record->end_ns, DeviceActivityKind::kSync);
  decoded.activity.correlation = record->correlation;
  decoded.activity.context = record->context;
  decoded.activity.stream = record->stream;
  decoded.activity.event = record->event;
  decoded.activity.code = record->type;
  decoded.activity.status = record->status;
  return decoded;
}

std::optional<DeviceEvent> DecodeCudaEvent(std::span<const std::byte> bytes) {
  const auto record = Read<abi::pt_gpu_event_record>(bytes);
  if (!record || (record->head.time_ns != 0 && !IsTime(record->head.time_ns))) return std::nullopt;
  if (!IsDevice(record->device) && record->device != PT_GPU_NOWHERE) return std::nullopt;
  DecodedActivity decoded;
  decoded.activity = ActivityOf(record->head, DeviceActivityKind::kEvent);
  SetPlace(*record, &decoded.activity);
  decoded.activity.event = record->event;
  return decoded;
}

std::optional<DeviceEvent> DecodeOverhead(std::span<const std::byte> bytes) {
  const auto record = Read<abi::pt_gpu_overhead_record>(bytes);
  if (!record || !IsInterval(record->head.time_ns, record->end_ns)) return std::nullopt;
  DecodedActivity decoded;
  decoded.activity = IntervalOf(record->head, record->end_ns, DeviceActivityKind::kOverhead);
  decoded.activity.correlation = record->correlation;
  decoded.activity.code = record->kind;
  return decoded;
}

std::optional<DeviceEvent> DecodeMemory(std::span<const std::byte> bytes) {
  const auto record = Read<abi::pt_gpu_memory_record>(bytes);
  if (!record || !IsTime(record->head.time_ns)) return std::nullopt;
  if (!IsDevice(record->device) && record->device != PT_GPU_NOWHERE) return std::nullopt;
  DecodedActivity decoded;
  decoded.activity = ActivityOf(record->head, DeviceActivityKind::kMemory);
  SetPlace(*record, &decoded.activity);
  decoded.activity.address = record->address;
  decoded.activity.bytes = record->bytes;
  decoded.activity.code = record->operation;
  decoded.activity.source_kind = static_cast<uint8_t>(std::min<uint32_t>(record->kind, 0xff));
  return decoded;
}

std::optional<DeviceEvent> DecodePool(std::span<const std::byte> bytes) {
  const auto record = Read<abi::pt_gpu_pool_record>(bytes);
  if (!record || !IsTime(record->head.time_ns)) return std::nullopt;
  if (!IsDevice(record->device) && record->device != PT_GPU_NOWHERE) return std::nullopt;
  DecodedActivity decoded;
  decoded.activity = ActivityOf(record->head, DeviceActivityKind::kPool);
  decoded.activity.correlation = record->correlation;
  decoded.activity.device = record->device;
  decoded.activity.address = record->pool;
  decoded.activity.bytes = record->bytes;
  decoded.activity.code = record->operation;
  return decoded;
}

std::optional<DeviceEvent> DecodeContext(std::span<const std::byte> bytes) {
  const auto record = Read<abi::pt_gpu_context_record>(bytes);
  if (!record || !IsDevice(record->device)) return std::nullopt;
  return DeviceContext{Pid{record->head.pid}, record->context, record->device};
}

std::optional<DeviceEvent> DecodeExternal(std::span<const std::byte> bytes) {
  const auto record = Read<abi::pt_gpu_external_record>(bytes);
  if (!record) return std::nullopt;
  return ExternalCorrelation{Pid{record->head.pid}, record->correlation, record->kind,
                             record->external_id};
}

std::optional<DeviceEvent> DecodeClock(std::span<const std::byte> bytes) {
  const auto record = Read<abi::pt_gpu_clock_record>(bytes);
  if (!record || !IsInterval(record->head.time_ns, record->after_ns)) return std::nullopt;
  // CUPTI's own clock may count from another moment, up to Unix time.
  if (record->cupti_ns > static_cast<uint64_t>(kLatestUnixNs)) return std::nullopt;
  return ClockLook{Pid{record->head.pid}, static_cast<int64_t>(record->head.time_ns),
                   static_cast<int64_t>(record->cupti_ns), static_cast<int64_t>(record->after_ns)};
}

std::optional<DeviceEvent> DecodeCount(std::span<const std::byte> bytes) {
  const auto record = Read<abi::pt_gpu_count_record>(bytes);
  if (!record) return std::nullopt;
  return DeviceLoss{Pid{record->head.pid}, record->head.kind == abi::PT_GPU_DROPPED, record->count};
}

template <typename Record>
bool HasNoEnd(std::span<const std::byte> bytes) {
  const auto record = Read<Record>(bytes);
  return record.has_value() && IsUnfinished(record->head.time_ns, record->end_ns);
}

bool IsOfUnfinishedWork(const abi::pt_record& head, std::span<const std::byte> record) {
  switch (head.kind) {
    case abi::PT_GPU_KERNEL:
      return HasNoEnd<abi::pt_gpu_kernel_record>(record);
    case abi::PT_GPU_MEMCPY:
      return HasNoEnd<abi::pt_gpu_memcpy_record>(record);
    case abi::PT_GPU_MEMSET:
      return HasNoEnd<abi::pt_gpu_memset_record>(record);
    case abi::PT_GPU_GRAPH:
      return HasNoEnd<abi::pt_gpu_graph_record>(record);
    case abi::PT_GPU_SYNC:
      return HasNoEnd<abi::pt_gpu_sync_record>(record);
    case abi::PT_GPU_CALL:
      return HasNoEnd<abi::pt_gpu_call_record>(record);
    default:
      return false;
  }
}

}  // namespace

DeviceDecoder::DeviceDecoder(DeviceLedger* ledger) : ledger_(ledger), names_(2) {
  names_[Raw(kOtherDeviceNames)] = {kOtherNames, sizeof(kOtherNames) - 1, true};
}

DeviceNameRef DeviceDecoder::RefOf(uint32_t pid, uint64_t id) {
  if (id == 0) return kNoDeviceName;
  const DeviceNameRef next{name_count()};
  if (refs_.size() >= kMostDeviceNames && !refs_.contains({pid, id})) return kOtherDeviceNames;
  const auto [it, inserted] = refs_.try_emplace({pid, id}, next);
  if (inserted) names_.emplace_back();
  return it->second;
}

std::optional<std::string> DeviceDecoder::Name(DeviceNameRef ref) const {
  const PartialName& name = names_[Raw(ref)];
  if (!name.is_known || name.text.size() != name.length) return std::nullopt;
  return name.text;
}

void DeviceDecoder::Decode(std::span<const std::byte> records, std::vector<DeviceEvent>* events) {
  size_t at = 0;
  while (at < records.size()) {
    ++ledger_->records;
    abi::pt_record head;
    if (records.size() - at < sizeof(head)) {
      ++ledger_->malformed;
      return;
    }
    std::memcpy(&head, records.data() + at, sizeof(head));
    const size_t bytes = size_t{head.words} * 8;
    if (bytes < sizeof(head) || bytes > records.size() - at) {
      ++ledger_->malformed;
      return;
    }
    if (!DecodeRecord(head, records.subspan(at, bytes), events)) ++ledger_->malformed;
    at += bytes;
  }
}

bool DeviceDecoder::DecodeRecord(const abi::pt_record& head, std::span<const std::byte> record,
                                 std::vector<DeviceEvent>* events) {
  if (head.kind < abi::PT_GPU_NAME || head.kind > abi::PT_GPU_CLOCK) {
    ++ledger_->unknown;
    return true;
  }
  if (head.kind == abi::PT_GPU_NAME) return DecodeName(head, record);
  if (IsOfUnfinishedWork(head, record)) {
    ++ledger_->unfinished;
    return true;
  }
  std::optional<DeviceEvent> event = DecodeActivity(head, record);
  if (!event) event = DecodeFact(head, record);
  if (!event) return false;
  events->push_back(*std::move(event));
  return true;
}

std::optional<DeviceEvent> DeviceDecoder::DecodeActivity(const abi::pt_record& head,
                                                         std::span<const std::byte> record) {
  switch (head.kind) {
    case abi::PT_GPU_KERNEL:
      return DecodeKernel(record);
    case abi::PT_GPU_MEMCPY:
      return DecodeMemcpy(record);
    case abi::PT_GPU_MEMSET:
      return DecodeMemset(record);
    case abi::PT_GPU_SYNC:
      return DecodeSync(record);
    case abi::PT_GPU_CALL:
      return DecodeCall(record);
    case abi::PT_GPU_MARKER:
      return DecodeMarker(record);
    case abi::PT_GPU_OVERHEAD:
      return DecodeOverhead(record);
    case abi::PT_GPU_MEMORY:
      return DecodeMemory(record);
    case abi::PT_GPU_POOL:
      return DecodePool(record);
    case abi::PT_GPU_GRAPH:
      return DecodeGraph(record);
    case abi::PT_GPU_EVENT:
      return DecodeCudaEvent(record);
    default:
      return std::nullopt;
  }
}

std::optional<DeviceEvent> DeviceDecoder::DecodeFact(const abi::pt_record& head,
                                                     std::span<const std::byte> record) {
  switch (head.kind) {
    case abi::PT_GPU_EXTERNAL:
      return DecodeExternal(record);
    case abi::PT_GPU_DEVICE:
      return DecodeDevice(record);
    case abi::PT_GPU_CONTEXT:
      return DecodeContext(record);
    case abi::PT_GPU_DROPPED:
    case abi::PT_GPU_UNKNOWN:
      return DecodeCount(record);
    case abi::PT_GPU_CLOCK:
      return DecodeClock(record);
    default:
      return std::nullopt;
  }
}

bool DeviceDecoder::DecodeName(const abi::pt_record& head, std::span<const std::byte> record) {
  // The record ends with the last words that are used.
  abi::pt_gpu_name_record name{};
  if (record.size() < PT_GPU_NAME_HEAD_BYTES || record.size() > sizeof(name)) return false;
  std::memcpy(&name, record.data(), record.size());
  const size_t held = record.size() - PT_GPU_NAME_HEAD_BYTES;
  if (name.id == 0 || name.length > PT_GPU_NAME_LIMIT || name.offset > name.length) return false;
  const size_t wanted = std::min<size_t>(name.length - name.offset, PT_GPU_TEXT_BYTES);
  if (held < wanted) return false;
  ++ledger_->merged;
  const DeviceNameRef ref = RefOf(head.pid, name.id);
  if (ref == kOtherDeviceNames) return true;
  PartialName& known = names_[Raw(ref)];
  if (name.offset == 0) {
    known = PartialName{{}, name.length, true};
  } else if (!known.is_known || known.length != name.length || known.text.size() != name.offset) {
    known.text.clear();  // a part is missing: the name is not known
    return true;
  }
  known.text.append(name.text, wanted);
  return true;
}

std::optional<DeviceEvent> DeviceDecoder::DecodeKernel(std::span<const std::byte> bytes) {
  const auto record = Read<abi::pt_gpu_kernel_record>(bytes);
  if (!record || !IsInterval(record->head.time_ns, record->end_ns)) return std::nullopt;
  if (!IsDevice(record->device)) return std::nullopt;
  DecodedActivity decoded;
  decoded.activity = IntervalOf(record->head, record->end_ns, DeviceActivityKind::kKernel);
  SetPlace(*record, &decoded.activity);
  decoded.activity.graph_node = record->graph_node;
  decoded.activity.graph = record->graph;
  decoded.name = RefOf(record->head.pid, record->name);
  KernelFacts& kernel = decoded.kernel;
  kernel.queued_ns = TimeOrZero(record->queued_ns);
  kernel.submitted_ns = TimeOrZero(record->submitted_ns);
  std::copy_n(record->grid, 3, kernel.grid);
  std::copy_n(record->block, 3, kernel.block);
  std::copy_n(record->cluster, 3, kernel.cluster);
  kernel.static_shared_bytes = record->static_shared_bytes;
  kernel.dynamic_shared_bytes = record->dynamic_shared_bytes;
  kernel.registers = record->registers;
  kernel.local_bytes = record->local_bytes;
  kernel.priority = record->priority;
  kernel.channel = record->channel;
  kernel.shared_executed_bytes = record->shared_executed_bytes;
  return decoded;
}

std::optional<DeviceEvent> DeviceDecoder::DecodeMarker(std::span<const std::byte> bytes) {
  const auto record = Read<abi::pt_gpu_marker_record>(bytes);
  if (!record || !IsTime(record->head.time_ns)) return std::nullopt;
  DecodedActivity decoded;
  decoded.activity = ActivityOf(record->head, DeviceActivityKind::kMarker);
  decoded.activity.code = record->flags;
  decoded.activity.event = record->id;
  decoded.name = RefOf(record->head.pid, record->name);
  return decoded;
}

std::optional<DeviceEvent> DeviceDecoder::DecodeCall(std::span<const std::byte> bytes) {
  const auto record = Read<abi::pt_gpu_call_record>(bytes);
  if (!record || !IsInterval(record->head.time_ns, record->end_ns)) return std::nullopt;
  if (record->domain != abi::PT_GPU_DRIVER && record->domain != abi::PT_GPU_RUNTIME) {
    return std::nullopt;
  }
  DeviceCall call;
  call.start_ns = static_cast<int64_t>(record->head.time_ns);
  call.end_ns = static_cast<int64_t>(record->end_ns);
  call.pid = Pid{record->head.pid};
  call.tid = Tid{record->head.tid};
  call.name = RefOf(record->head.pid, record->name);
  call.facts = {record->correlation, record->callback, record->result};
  call.is_driver = record->domain == abi::PT_GPU_DRIVER;
  return call;
}

std::optional<DeviceEvent> DeviceDecoder::DecodeDevice(std::span<const std::byte> bytes) {
  if (bytes.size() < PT_GPU_DEVICE_OLD_BYTES) return std::nullopt;
  abi::pt_gpu_device_record whole{};
  std::memcpy(&whole, bytes.data(), std::min(bytes.size(), sizeof(whole)));
  const abi::pt_gpu_device_record* record = &whole;
  if (!IsDevice(record->device)) return std::nullopt;
  DecodedDevice decoded;
  decoded.name = RefOf(record->head.pid, record->name);
  GpuDevice& device = decoded.device;
  device.pid = Pid{record->head.pid};
  device.device = record->device;
  device.memory_bytes = record->memory_bytes;
  device.compute_major = record->compute_major;
  device.compute_minor = record->compute_minor;
  device.multiprocessors = record->multiprocessors;
  device.warp_size = record->warp_size;
  device.max_threads_a_block = record->max_threads_a_block;
  device.max_warps_a_multiprocessor = record->max_warps_a_multiprocessor;
  device.max_blocks_a_multiprocessor = record->max_blocks_a_multiprocessor;
  device.max_registers_a_block = record->max_registers_a_block;
  device.max_registers_a_multiprocessor = record->max_registers_a_multiprocessor;
  device.max_shared_bytes_a_block = record->max_shared_bytes_a_block;
  device.max_shared_bytes_a_multiprocessor = record->max_shared_bytes_a_multiprocessor;
  device.max_shared_bytes_optin = record->max_shared_bytes_optin;
  std::copy_n(record->uuid, device.uuid.size(), device.uuid.begin());
  return decoded;
}

}  // namespace proftrace
