#include "userspace/agent/translator.h"

#include <string.h>

namespace proftrace::agent {
namespace {

constexpr uint32_t kNoStream = 0;  // CUPTI_INVALID_STREAM_ID
constexpr uint32_t kNotOfAGraph = 0;
constexpr uint8_t kIsAsync = 1;
// CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN
constexpr int kSharedOptinAttribute = 97;

// Returns the first `size` bytes of CUPTI's record; fields behind them are zeros.
template <typename Activity>
Activity Read(const uint8_t* record, size_t size) {
  Activity activity{};
  memcpy(&activity, record, size < sizeof(activity) ? size : sizeof(activity));
  return activity;
}

template <typename Activity>
void SetKinds(const Activity& from, abi::pt_gpu_memcpy_record* to) {
  to->kind = from.copy_kind;
  to->source_kind = from.source_kind;
  to->destination_kind = from.destination_kind;
}

uint32_t GraphOf(uint32_t graph) { return graph == kNotOfAGraph ? PT_GPU_NOWHERE : graph; }

}  // namespace

void Translator::TranslateBuffer(uint8_t* buffer, size_t valid_bytes) {
  const uint8_t* end = buffer + valid_bytes;
  const uint8_t* behind = buffer;  // the end of the record before, if its size is known
  void* record = nullptr;
  for (;;) {
    const CuptiResult result = from_.cupti->ActivityGetNextRecord(buffer, valid_bytes, &record);
    if (result == kCuptiMaxLimitReached) return;
    if (result == kCuptiInvalidKind) {
      ++counts_.incomplete;
      counts_.incomplete_bytes += static_cast<size_t>(end - behind);
      return;
    }
    const auto* bytes = static_cast<const uint8_t*>(record);
    const bool is_inside = result == kCuptiSuccess && bytes >= buffer && bytes + 8 <= end;
    if (is_inside) behind = EndOf(bytes, end);
    if (is_inside && IsOwn(bytes)) {
      ++counts_.own;
      continue;
    }
    ++counts_.given;
    // CUPTI cannot find the record behind this one, so this one is the buffer's last.
    if (!is_inside) {
      ++counts_.unread;
      ++unread_by_kind_[0];
      return;
    }
    switch (Translate(bytes, static_cast<size_t>(end - bytes))) {
      case Outcome::kWritten:
        ++counts_.written;
        break;
      case Outcome::kDropped:
        ++counts_.dropped;
        break;
      case Outcome::kUnread: {
        uint32_t kind;
        memcpy(&kind, bytes, sizeof(kind));
        ++counts_.unread;
        ++unread_by_kind_[kind < kActivityKinds ? kind : kActivityKinds];
      }
    }
  }
}

const uint8_t* Translator::EndOf(const uint8_t* record, const uint8_t* end) const {
  uint32_t kind;
  memcpy(&kind, record, sizeof(kind));
  const size_t size = kind < kActivityKinds ? from_.sizes->bytes[kind] : 0;
  return static_cast<size_t>(end - record) < size ? end : record + size;
}

bool Translator::IsOwn(const uint8_t* record) const {
  uint32_t kind_and_callback[2];
  memcpy(kind_and_callback, record, sizeof(kind_and_callback));
  return from_.own_callback != 0 && kind_and_callback[0] == kActivityDriver &&
         kind_and_callback[1] == from_.own_callback;
}

void Translator::TellUnread() {
  for (uint32_t kind = 0; kind <= kActivityKinds; ++kind) {
    if (unread_by_kind_[kind] == 0) continue;
    auto record = Begin<abi::pt_gpu_count_record>(0);
    record.count = unread_by_kind_[kind];
    record.which = kind;
    if (Put(&record, abi::PT_GPU_UNKNOWN) == Outcome::kWritten) unread_by_kind_[kind] = 0;
  }
}

Translator::Outcome Translator::Translate(const uint8_t* record, size_t room) {
  uint32_t kind;
  memcpy(&kind, record, sizeof(kind));
  const size_t size = kind < kActivityKinds ? from_.sizes->bytes[kind] : 0;
  if (size == 0 || size > room) return Outcome::kUnread;
  switch (kind) {
    case kActivityKernel:
    case kActivityConcurrentKernel:
      return Kernel(record, size);
    case kActivityMemcpy:
      return Memcpy(record, size);
    case kActivityMemcpy2:
      return PeerCopy(record, size);
    case kActivityMemset:
      return Memset(record, size);
    case kActivitySynchronization:
      return Synchronization(record, size);
    case kActivityDriver:
    case kActivityRuntime:
      return Call(record, size);
    case kActivityExternalCorrelation:
      return External(record, size);
    case kActivityMarker:
      return Marker(record, size);
    case kActivityOverhead:
      return Overhead(record, size);
    case kActivityMemory2:
      return Memory(record, size);
    case kActivityMemoryPool:
      return MemoryPool(record, size);
    case kActivityDevice:
      return Device(record, size);
    case kActivityContext:
      return Context(record, size);
    case kActivityGraphTrace:
      return GraphTrace(record, size);
    case kActivityCudaEvent:
      return CudaEvent(record, size);
    default:
      return Outcome::kUnread;
  }
}

template <typename Record>
Record Translator::Begin(uint64_t cupti_ns, uint32_t thread) const {
  Record record{};
  record.head.time_ns = from_.clock->ToMonotonic(cupti_ns);
  record.head.pid = static_cast<uint32_t>(from_.pid);
  record.head.tid = thread;
  return record;
}

template <typename Record>
Translator::Outcome Translator::Put(Record* record, abi::pt_gpu_kind kind) {
  return from_.ring->Write(&record->head, sizeof(*record), kind) ? Outcome::kWritten
                                                                 : Outcome::kDropped;
}

bool Translator::NameOf(const char* text, uint64_t* id) {
  return from_.names->Intern(text, from_.pid, from_.ring, id);
}

bool Translator::CallName(uint32_t domain, uint32_t callback, uint64_t* id) {
  const bool is_cached = callback < kCachedCallbacks;
  if (is_cached && call_names_[domain][callback] != 0) {
    *id = call_names_[domain][callback];
    return true;
  }
  const char* name = nullptr;
  if (from_.cupti->GetCallbackName(domain, callback, &name) != kCuptiSuccess) name = nullptr;
  if (!NameOf(name, id)) return false;
  if (is_cached) call_names_[domain][callback] = *id;
  return true;
}

uint32_t Translator::ThreadOf(uint32_t object_kind, const ActivityObject& object) const {
  return object_kind == kObjectThread && from_.has_thread_ids ? object.thread_or_context : 0;
}

Translator::Outcome Translator::Kernel(const uint8_t* record, size_t size) {
  const auto from = Read<KernelActivity>(record, size);
  auto to = Begin<abi::pt_gpu_kernel_record>(from.start);
  if (!NameOf(from.name, &to.name)) return Outcome::kDropped;
  to.end_ns = from_.clock->ToMonotonic(from.end);
  to.queued_ns = from_.clock->ToMonotonic(from.queued);
  to.submitted_ns = from_.clock->ToMonotonic(from.submitted);
  to.graph_node = from.graph_node;
  to.correlation = from.correlation;
  to.device = from.device;
  to.context = from.context;
  to.stream = from.stream;
  to.graph = GraphOf(from.graph);
  for (int i = 0; i < 3; ++i) {
    to.grid[i] = from.grid[i];
    to.block[i] = from.block[i];
    to.cluster[i] = static_cast<int32_t>(from.cluster[i]);
  }
  to.static_shared_bytes = from.static_shared;
  to.dynamic_shared_bytes = from.dynamic_shared;
  to.registers = from.registers;
  to.local_bytes = from.local_per_thread;
  to.priority = from.priority;
  to.channel = from.channel;
  to.shared_executed_bytes = from.shared_executed;
  return Put(&to, abi::PT_GPU_KERNEL);
}

// Sets the fields that records of copies and of memsets have in common.
template <typename Activity, typename Record>
void Translator::SetTransfer(const Activity& from, Record* to) const {
  to->end_ns = from_.clock->ToMonotonic(from.end);
  to->bytes = from.bytes;
  to->graph_node = from.graph_node;
  to->correlation = from.correlation;
  to->device = from.device;
  to->context = from.context;
  to->stream = from.stream;
  to->graph = GraphOf(from.graph);
  to->is_async = from.flags & kIsAsync;
}

Translator::Outcome Translator::Memcpy(const uint8_t* record, size_t size) {
  const auto from = Read<MemcpyActivity>(record, size);
  auto to = Begin<abi::pt_gpu_memcpy_record>(from.start);
  SetTransfer(from, &to);
  to.source_device = to.destination_device = PT_GPU_NOWHERE;
  SetKinds(from, &to);
  return Put(&to, abi::PT_GPU_MEMCPY);
}

Translator::Outcome Translator::PeerCopy(const uint8_t* record, size_t size) {
  const auto from = Read<PeerCopyActivity>(record, size);
  auto to = Begin<abi::pt_gpu_memcpy_record>(from.start);
  SetTransfer(from, &to);
  to.source_device = from.source_device;
  to.destination_device = from.destination_device;
  SetKinds(from, &to);
  return Put(&to, abi::PT_GPU_MEMCPY);
}

Translator::Outcome Translator::Memset(const uint8_t* record, size_t size) {
  const auto from = Read<MemsetActivity>(record, size);
  auto to = Begin<abi::pt_gpu_memset_record>(from.start);
  SetTransfer(from, &to);
  to.value = from.value;
  to.memory_kind = static_cast<uint8_t>(from.memory_kind);
  return Put(&to, abi::PT_GPU_MEMSET);
}

Translator::Outcome Translator::Synchronization(const uint8_t* record, size_t size) {
  const auto from = Read<SynchronizationActivity>(record, size);
  auto to = Begin<abi::pt_gpu_sync_record>(from.start);
  to.end_ns = from_.clock->ToMonotonic(from.end);
  to.type = from.type;
  to.correlation = from.correlation;
  to.context = from.context;
  // CUPTI_SYNCHRONIZATION_INVALID_VALUE is PT_GPU_NOWHERE.
  to.stream = from.stream;
  to.event = from.event;
  to.status = from.result;
  return Put(&to, abi::PT_GPU_SYNC);
}

Translator::Outcome Translator::Call(const uint8_t* record, size_t size) {
  const auto from = Read<CallActivity>(record, size);
  const bool is_driver = from.kind == kActivityDriver;
  auto to = Begin<abi::pt_gpu_call_record>(from.start, from_.has_thread_ids ? from.thread : 0);
  if (!CallName(is_driver ? kDomainDriver : kDomainRuntime, from.callback, &to.name)) {
    return Outcome::kDropped;
  }
  to.end_ns = from_.clock->ToMonotonic(from.end);
  to.correlation = from.correlation;
  to.callback = from.callback;
  to.result = from.result;
  to.domain = is_driver ? abi::PT_GPU_DRIVER : abi::PT_GPU_RUNTIME;
  return Put(&to, abi::PT_GPU_CALL);
}

Translator::Outcome Translator::External(const uint8_t* record, size_t size) {
  const auto from = Read<ExternalActivity>(record, size);
  auto to = Begin<abi::pt_gpu_external_record>(0);
  to.external_id = from.external_id;
  to.correlation = from.correlation;
  to.kind = from.external_kind;
  return Put(&to, abi::PT_GPU_EXTERNAL);
}

Translator::Outcome Translator::Marker(const uint8_t* record, size_t size) {
  const auto from = Read<MarkerActivity>(record, size);
  auto to =
      Begin<abi::pt_gpu_marker_record>(from.timestamp, ThreadOf(from.object_kind, from.object));
  if (!NameOf(from.name, &to.name) || !NameOf(from.domain, &to.domain)) return Outcome::kDropped;
  to.id = from.id;
  to.flags = from.flags;
  return Put(&to, abi::PT_GPU_MARKER);
}

Translator::Outcome Translator::Overhead(const uint8_t* record, size_t size) {
  const auto from = Read<OverheadActivity>(record, size);
  auto to = Begin<abi::pt_gpu_overhead_record>(from.start, ThreadOf(from.object_kind, from.object));
  to.end_ns = from_.clock->ToMonotonic(from.end);
  to.kind = from.overhead_kind;
  to.correlation = from.correlation;
  return Put(&to, abi::PT_GPU_OVERHEAD);
}

Translator::Outcome Translator::Memory(const uint8_t* record, size_t size) {
  const auto from = Read<MemoryActivity>(record, size);
  auto to = Begin<abi::pt_gpu_memory_record>(from.timestamp);
  to.address = from.address;
  to.bytes = from.bytes;
  to.pool = from.pool;
  to.operation = from.operation;
  to.kind = from.memory_kind;
  to.correlation = from.correlation;
  to.device = from.device;
  to.context = from.context;
  to.stream = from.stream == kNoStream ? PT_GPU_NOWHERE : from.stream;
  return Put(&to, abi::PT_GPU_MEMORY);
}

Translator::Outcome Translator::MemoryPool(const uint8_t* record, size_t size) {
  const auto from = Read<MemoryPoolActivity>(record, size);
  auto to = Begin<abi::pt_gpu_pool_record>(from.timestamp);
  to.pool = from.pool;
  to.bytes = from.bytes;
  to.used_bytes = from.used_bytes;
  to.release_threshold = from.release_threshold;
  to.operation = from.operation;
  to.type = from.pool_type;
  to.correlation = from.correlation;
  to.device = from.device;
  return Put(&to, abi::PT_GPU_POOL);
}

Translator::Outcome Translator::Device(const uint8_t* record, size_t size) {
  const auto from = Read<DeviceActivity>(record, size);
  auto to = Begin<abi::pt_gpu_device_record>(0);
  if (!NameOf(from.name, &to.name)) return Outcome::kDropped;
  to.memory_bytes = from.memory_bytes;
  to.device = from.id;
  to.compute_major = from.compute_major;
  to.compute_minor = from.compute_minor;
  to.multiprocessors = from.multiprocessors;
  to.warp_size = from.warp_size;
  to.max_threads_a_block = from.threads_a_block;
  to.max_warps_a_multiprocessor = from.warps_a_multiprocessor;
  to.max_blocks_a_multiprocessor = from.blocks_a_multiprocessor;
  to.max_registers_a_block = from.registers_a_block;
  to.max_registers_a_multiprocessor = from.registers_a_multiprocessor;
  to.max_shared_bytes_a_block = from.shared_a_block;
  to.max_shared_bytes_a_multiprocessor = from.shared_a_multiprocessor;
  memcpy(to.uuid, from.uuid, sizeof(to.uuid));
  int optin = 0;
  if (from_.device_attribute != nullptr &&
      from_.device_attribute(&optin, kSharedOptinAttribute, static_cast<int>(from.id)) == 0) {
    to.max_shared_bytes_optin = static_cast<uint32_t>(optin);
  }
  return Put(&to, abi::PT_GPU_DEVICE);
}

Translator::Outcome Translator::Context(const uint8_t* record, size_t size) {
  const auto from = Read<ContextActivity>(record, size);
  auto to = Begin<abi::pt_gpu_context_record>(0);
  to.context = from.context;
  to.device = from.device;
  to.null_stream = from.null_stream;
  return Put(&to, abi::PT_GPU_CONTEXT);
}

Translator::Outcome Translator::GraphTrace(const uint8_t* record, size_t size) {
  const auto from = Read<GraphTraceActivity>(record, size);
  auto to = Begin<abi::pt_gpu_graph_record>(from.start);
  to.end_ns = from_.clock->ToMonotonic(from.end);
  to.correlation = from.correlation;
  to.device = from.device;
  to.context = from.context;
  to.stream = from.stream;
  to.graph = from.graph;
  return Put(&to, abi::PT_GPU_GRAPH);
}

Translator::Outcome Translator::CudaEvent(const uint8_t* record, size_t size) {
  const auto from = Read<CudaEventActivity>(record, size);
  const bool has_device = size > offsetof(CudaEventActivity, device);
  auto to = Begin<abi::pt_gpu_event_record>(from.timestamp);
  to.correlation = from.correlation;
  to.event = from.event;
  to.device = has_device ? from.device : PT_GPU_NOWHERE;
  to.context = from.context;
  to.stream = from.stream;
  return Put(&to, abi::PT_GPU_EVENT);
}

}  // namespace proftrace::agent
