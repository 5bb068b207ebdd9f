// Writes records as a GPU agent does (bpf/abi/gpu_records.h): made-up work of a device.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "bpf/abi/gpu_records.h"
#include "tests/support/record_maker.h"

namespace proftrace {

class GpuRecordMaker {
 public:
  static constexpr uint32_t kContext = 1;
  static constexpr uint32_t kStream = 7;  // CUDA's first context has its default stream there

  // `pid`: of all its records.
  explicit GpuRecordMaker(uint32_t pid = RecordMaker::kPid) : pid_(pid) {}

  // Adds a name in as many parts as it takes. Returns its id.
  uint64_t Name(const std::string& text) {
    const uint64_t id = ++names_;
    size_t offset = 0;
    do {
      AddNamePart(id, text, offset, static_cast<uint32_t>(text.size()));
      offset += PT_GPU_TEXT_BYTES;
    } while (offset < text.size());
    return id;
  }
  // One part; `length`: what it says of the whole name's.
  void AddNamePart(uint64_t id, const std::string& text, size_t offset, uint32_t length) {
    abi::pt_gpu_name_record record{};
    record.head = Head(abi::PT_GPU_NAME, 0, 0);
    record.id = id;
    record.length = length;
    record.offset = static_cast<uint32_t>(offset);
    const size_t bytes =
        offset < text.size() ? std::min<size_t>(text.size() - offset, PT_GPU_TEXT_BYTES) : 0;
    std::memcpy(record.text, text.data() + std::min(offset, text.size()), bytes);
    AddBytes(&record, PT_GPU_NAME_HEAD_BYTES + (bytes + 7) / 8 * 8);
  }

  void Call(uint32_t tid, int64_t start_ns, int64_t end_ns, uint64_t name, uint32_t correlation,
            uint8_t domain = abi::PT_GPU_RUNTIME, uint32_t callback = 211) {
    abi::pt_gpu_call_record record{};
    record.head = Head(abi::PT_GPU_CALL, tid, start_ns);
    record.end_ns = static_cast<uint64_t>(end_ns);
    record.name = name;
    record.correlation = correlation;
    record.callback = callback;
    record.domain = domain;
    Add(record);
  }

  static abi::pt_gpu_kernel_record KernelRecord(int64_t start_ns, int64_t end_ns, uint64_t name,
                                                uint32_t correlation) {
    abi::pt_gpu_kernel_record record{};
    record.head = Head(abi::PT_GPU_KERNEL, 0, start_ns);
    record.end_ns = static_cast<uint64_t>(end_ns);
    record.name = name;
    record.correlation = correlation;
    record.context = kContext;
    record.stream = kStream;
    record.graph = PT_GPU_NOWHERE;
    const int32_t grid[3] = {64, 2, 1};
    const int32_t block[3] = {128, 1, 1};
    std::copy_n(grid, 3, record.grid);
    std::copy_n(block, 3, record.block);
    record.static_shared_bytes = 1024;
    record.dynamic_shared_bytes = 512;
    record.registers = 32;
    return record;
  }
  void Kernel(int64_t start_ns, int64_t end_ns, uint64_t name, uint32_t correlation,
              uint32_t device = 0, uint32_t stream = kStream) {
    abi::pt_gpu_kernel_record record = KernelRecord(start_ns, end_ns, name, correlation);
    record.device = device;
    record.stream = stream;
    Add(record);
  }
  // `kind`, `source`, `destination`: CUpti_ActivityMemcpyKind, CUpti_ActivityMemoryKind.
  void Memcpy(int64_t start_ns, int64_t end_ns, uint32_t correlation, uint64_t bytes, uint8_t kind,
              uint8_t source, uint8_t destination) {
    abi::pt_gpu_memcpy_record record{};
    record.head = Head(abi::PT_GPU_MEMCPY, 0, start_ns);
    record.end_ns = static_cast<uint64_t>(end_ns);
    record.bytes = bytes;
    record.correlation = correlation;
    record.context = kContext;
    record.stream = kStream;
    record.graph = record.source_device = record.destination_device = PT_GPU_NOWHERE;
    record.kind = kind;
    record.source_kind = source;
    record.destination_kind = destination;
    Add(record);
  }
  void Memset(int64_t start_ns, int64_t end_ns, uint32_t correlation, uint64_t bytes) {
    abi::pt_gpu_memset_record record{};
    record.head = Head(abi::PT_GPU_MEMSET, 0, start_ns);
    record.end_ns = static_cast<uint64_t>(end_ns);
    record.bytes = bytes;
    record.correlation = correlation;
    record.context = kContext;
    record.stream = kStream;
    record.graph = PT_GPU_NOWHERE;
    record.memory_kind = 3;
    Add(record);
  }
  // `type`: CUpti_ActivitySynchronizationType.
  void Sync(int64_t start_ns, int64_t end_ns, uint32_t type, uint32_t correlation, uint32_t stream,
            uint32_t event = PT_GPU_NOWHERE) {
    abi::pt_gpu_sync_record record{};
    record.head = Head(abi::PT_GPU_SYNC, 0, start_ns);
    record.end_ns = static_cast<uint64_t>(end_ns);
    record.type = type;
    record.correlation = correlation;
    record.context = kContext;
    record.stream = stream;
    record.event = event;
    Add(record);
  }
  void Event(int64_t ns, uint32_t correlation, uint32_t event, uint32_t stream = kStream) {
    abi::pt_gpu_event_record record{};
    record.head = Head(abi::PT_GPU_EVENT, 0, ns);
    record.correlation = correlation;
    record.event = event;
    record.context = kContext;
    record.stream = stream;
    Add(record);
  }
  void External(uint32_t correlation, uint64_t id, uint32_t kind = 3) {
    abi::pt_gpu_external_record record{};
    record.head = Head(abi::PT_GPU_EXTERNAL, 0, 0);
    record.external_id = id;
    record.correlation = correlation;
    record.kind = kind;
    Add(record);
  }
  // `flags`: CUpti_ActivityFlag, 2 = start, 4 = end.
  void Marker(uint32_t tid, int64_t ns, uint64_t name, uint32_t id, uint32_t flags) {
    abi::pt_gpu_marker_record record{};
    record.head = Head(abi::PT_GPU_MARKER, tid, ns);
    record.name = name;
    record.id = id;
    record.flags = flags;
    Add(record);
  }
  void Overhead(int64_t start_ns, int64_t end_ns, uint32_t kind) {
    abi::pt_gpu_overhead_record record{};
    record.head = Head(abi::PT_GPU_OVERHEAD, 0, start_ns);
    record.end_ns = static_cast<uint64_t>(end_ns);
    record.kind = kind;
    Add(record);
  }
  void Memory(int64_t ns, uint32_t operation, uint64_t address, uint64_t bytes) {
    abi::pt_gpu_memory_record record{};
    record.head = Head(abi::PT_GPU_MEMORY, 0, ns);
    record.address = address;
    record.bytes = bytes;
    record.operation = operation;
    record.kind = 3;
    record.context = kContext;
    record.stream = kStream;
    Add(record);
  }
  void Pool(int64_t ns, uint32_t operation, uint64_t address, uint64_t bytes) {
    abi::pt_gpu_pool_record record{};
    record.head = Head(abi::PT_GPU_POOL, 0, ns);
    record.pool = address;
    record.bytes = bytes;
    record.operation = operation;
    Add(record);
  }
  void Graph(int64_t start_ns, int64_t end_ns, uint32_t correlation, uint32_t graph) {
    abi::pt_gpu_graph_record record{};
    record.head = Head(abi::PT_GPU_GRAPH, 0, start_ns);
    record.end_ns = static_cast<uint64_t>(end_ns);
    record.correlation = correlation;
    record.context = kContext;
    record.stream = kStream;
    record.graph = graph;
    Add(record);
  }
  // Adds a device as an A100 says of itself; `uuid`: each of its bytes.
  void Device(uint32_t device, uint64_t name, uint8_t uuid = 0) {
    const abi::pt_gpu_device_record record = DeviceRecord(device, name, uuid);
    Add(record);
  }
  // Adds a device as agents wrote it that knew of no uuid.
  void OldDevice(uint32_t device, uint64_t name) {
    const abi::pt_gpu_device_record record = DeviceRecord(device, name, 0);
    AddBytes(&record, PT_GPU_DEVICE_OLD_BYTES);
  }
  static abi::pt_gpu_device_record DeviceRecord(uint32_t device, uint64_t name, uint8_t uuid) {
    abi::pt_gpu_device_record record{};
    record.head = Head(abi::PT_GPU_DEVICE, 0, 0);
    record.name = name;
    record.memory_bytes = uint64_t{40} << 30;
    record.device = device;
    record.compute_major = 8;
    record.multiprocessors = 108;
    record.warp_size = 32;
    record.max_threads_a_block = 1024;
    record.max_warps_a_multiprocessor = 64;
    record.max_blocks_a_multiprocessor = 32;
    record.max_registers_a_block = record.max_registers_a_multiprocessor = 65536;
    record.max_shared_bytes_a_block = 49152;
    record.max_shared_bytes_a_multiprocessor = 167936;
    record.max_shared_bytes_optin = 166912;
    std::fill_n(record.uuid, sizeof(record.uuid), uuid);
    return record;
  }
  void Context(uint32_t context, uint32_t device) {
    abi::pt_gpu_context_record record{};
    record.head = Head(abi::PT_GPU_CONTEXT, 0, 0);
    record.context = context;
    record.device = device;
    record.null_stream = kStream;
    Add(record);
  }
  // `kind`: PT_GPU_DROPPED or PT_GPU_UNKNOWN.
  void Count(uint8_t kind, uint64_t count) {
    abi::pt_gpu_count_record record{};
    record.head = Head(kind, 0, 0);
    record.count = count;
    Add(record);
  }
  void Clock(int64_t before_ns, int64_t cupti_ns, int64_t after_ns) {
    abi::pt_gpu_clock_record record{};
    record.head = Head(abi::PT_GPU_CLOCK, 0, before_ns);
    record.cupti_ns = static_cast<uint64_t>(cupti_ns);
    record.after_ns = static_cast<uint64_t>(after_ns);
    Add(record);
  }

  // A record of any kind and size; its `words` is set to the size.
  template <typename Record>
  void Add(Record record) {
    AddBytes(&record, sizeof(record));
  }
  std::vector<std::byte>& bytes() { return bytes_; }

  static abi::pt_record Head(uint8_t kind, uint32_t tid, int64_t ns) {
    return RecordMaker::Head(kind, tid, ns, 0, 0);
  }

 private:
  void AddBytes(const void* record, size_t size) { AppendRecord(record, size, pid_, &bytes_); }

  uint32_t pid_;
  uint64_t names_ = 0;
  std::vector<std::byte> bytes_;
};

}  // namespace proftrace
