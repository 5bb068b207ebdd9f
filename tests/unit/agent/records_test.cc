// Each of CUPTI's records, with a value of its own in each field, as the agent tells it.
#include <cupti_activity.h>
#include <unistd.h>

#include <cstring>

#include "tests/support/agent_job.h"
#include "userspace/base/clock.h"

namespace proftrace {
namespace {

// The record that the job is to emit next, given over in pieces of 8 bytes.
struct Pending {
  uint8_t bytes[256];
  size_t length;
};
Pending g_pending;
const char kKernelName[] = "_Z9my_kernelPf";
const char kMarkerName[] = "forward";
const char kDomainName[] = "training";

template <typename Record>
void Emit(AgentJob& job, const Record& record, size_t length = sizeof(Record)) {
  static_assert(sizeof(record) <= sizeof(Pending::bytes));
  for (size_t at = 0; at < length; at += 8) {
    int64_t word = 0;
    std::memcpy(&word, reinterpret_cast<const uint8_t*>(&record) + at, 8);
    job.Do(
        [](JobTools&, int64_t piece) -> int64_t {
          std::memcpy(g_pending.bytes + g_pending.length, &piece, 8);
          g_pending.length += 8;
          return 0;
        },
        word);
  }
  job.Do([](JobTools& tools, int64_t) -> int64_t {
    tools.emit(g_pending.bytes, g_pending.length);
    g_pending.length = 0;
    return 0;
  });
}

class AgentRecordsTest : public testing::TestWithParam<uint32_t> {
 protected:
  AgentRecordsTest() : job_(Options()) { job_.StartAndRun(); }

  static JobOptions Options() {
    JobOptions options;
    options.environment["CUPTI_DOUBLE"] = "version=" + std::to_string(GetParam());
    return options;
  }

  // The one record that comes of it.
  template <typename Told>
  Told Only(abi::pt_gpu_kind kind) {
    job_.Stop();
    const auto records = job_.Records<Told>(kind);
    EXPECT_EQ(records.size(), 1u);
    return records.empty() ? Told{} : records[0];
  }

  AgentJob job_;
};

// The whole range of what is accepted: CUDA 11.2, 11.6, 11.8, 12.0, 12.8, 12.9.1, 13.0.1, 13.5.
INSTANTIATE_TEST_SUITE_P(Versions, AgentRecordsTest,
                         testing::Values(15, 17, 18, 19, 26, 28, 130001, 130500));

TEST_P(AgentRecordsTest, Kernel) {
  CUpti_ActivityKernel13 kernel{};
  kernel.kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
  kernel.registersPerThread = 40;
  kernel.start = 1000, kernel.end = 2000, kernel.queued = 900, kernel.submitted = 950;
  kernel.deviceId = 3, kernel.contextId = 4, kernel.streamId = 21;
  kernel.gridX = 5, kernel.gridY = 6, kernel.gridZ = 7;
  kernel.blockX = 8, kernel.blockY = 9, kernel.blockZ = 10;
  kernel.staticSharedMemory = 11, kernel.dynamicSharedMemory = 12;
  kernel.localMemoryPerThread = 13, kernel.correlationId = 0xffffffff;
  kernel.name = kKernelName;
  kernel.sharedMemoryExecuted = 14, kernel.graphNodeId = 15, kernel.graphId = 16;
  kernel.channelID = 17, kernel.clusterX = 18, kernel.clusterY = 19, kernel.clusterZ = 20;
  kernel.priority = -2;
  const size_t length = GetParam() >= 130500   ? sizeof(CUpti_ActivityKernel13)
                        : GetParam() >= 130000 ? sizeof(CUpti_ActivityKernel10)
                        : GetParam() >= 19     ? sizeof(CUpti_ActivityKernel9)
                        : GetParam() >= 18     ? sizeof(CUpti_ActivityKernel8)
                        : GetParam() >= 17     ? sizeof(CUpti_ActivityKernel7)
                                               : sizeof(CUpti_ActivityKernel6);
  Emit(job_, kernel, length);
  const auto told = Only<abi::pt_gpu_kernel_record>(abi::PT_GPU_KERNEL);
  EXPECT_EQ(told.head.time_ns, 1000u);
  EXPECT_EQ(told.end_ns, 2000u);
  EXPECT_EQ(told.queued_ns, 900u);
  EXPECT_EQ(told.submitted_ns, 950u);
  EXPECT_EQ(job_.Name(told.name), kKernelName);
  EXPECT_EQ(told.graph_node, 15u);
  EXPECT_EQ(told.correlation, 0xffffffffu);
  EXPECT_EQ(told.device, 3u);
  EXPECT_EQ(told.context, 4u);
  EXPECT_EQ(told.stream, 21u);
  EXPECT_EQ(told.graph, 16u);
  EXPECT_EQ(told.grid[0] + told.grid[1] * 10 + told.grid[2] * 100, 5 + 60 + 700);
  EXPECT_EQ(told.block[0] + told.block[1] * 10 + told.block[2] * 100, 8 + 90 + 1000);
  EXPECT_EQ(told.cluster[0], GetParam() >= 18 ? 18 : 0);
  EXPECT_EQ(told.cluster[2], GetParam() >= 18 ? 20 : 0);
  EXPECT_EQ(told.static_shared_bytes, 11);
  EXPECT_EQ(told.dynamic_shared_bytes, 12);
  EXPECT_EQ(told.registers, 40u);
  EXPECT_EQ(told.local_bytes, 13u);
  EXPECT_EQ(told.priority, GetParam() >= 130500 ? -2 : 0);
  EXPECT_EQ(told.channel, GetParam() >= 17 ? 17u : 0u);
  EXPECT_EQ(told.shared_executed_bytes, 14u);
}

TEST_P(AgentRecordsTest, Memcpy) {
  CUpti_ActivityMemcpy7 copy{};
  copy.kind = CUPTI_ACTIVITY_KIND_MEMCPY;
  copy.copyKind = 2, copy.srcKind = 3, copy.dstKind = 4, copy.flags = 1;
  copy.bytes = 1ull << 40, copy.start = 5, copy.end = 6;
  copy.deviceId = 7, copy.contextId = 8, copy.streamId = 9, copy.correlationId = 10;
  copy.graphNodeId = 11, copy.graphId = 0;
  const size_t length = GetParam() >= 130500 ? sizeof(copy)
                        : GetParam() >= 26   ? sizeof(CUpti_ActivityMemcpy6)
                        : GetParam() >= 17   ? sizeof(CUpti_ActivityMemcpy5)
                                             : sizeof(CUpti_ActivityMemcpy4);
  Emit(job_, copy, length);
  const auto told = Only<abi::pt_gpu_memcpy_record>(abi::PT_GPU_MEMCPY);
  EXPECT_EQ(told.head.time_ns, 5u);
  EXPECT_EQ(told.end_ns, 6u);
  EXPECT_EQ(told.bytes, 1ull << 40);
  EXPECT_EQ(told.graph_node, 11u);
  EXPECT_EQ(told.graph, PT_GPU_NOWHERE);
  EXPECT_EQ(told.correlation, 10u);
  EXPECT_EQ(told.device, 7u);
  EXPECT_EQ(told.context, 8u);
  EXPECT_EQ(told.stream, 9u);
  EXPECT_EQ(told.source_device, PT_GPU_NOWHERE);
  EXPECT_EQ(told.kind, 2);
  EXPECT_EQ(told.source_kind, 3);
  EXPECT_EQ(told.destination_kind, 4);
  EXPECT_EQ(told.is_async, 1);
}

TEST_P(AgentRecordsTest, MemcpyBetweenDevices) {
  CUpti_ActivityMemcpyPtoP4 copy{};
  copy.kind = CUPTI_ACTIVITY_KIND_MEMCPY2;
  copy.copyKind = 10, copy.srcKind = 3, copy.dstKind = 3;
  copy.bytes = 4096, copy.start = 5, copy.end = 6;
  copy.deviceId = 1, copy.contextId = 8, copy.streamId = 9, copy.correlationId = 10;
  copy.srcDeviceId = 1, copy.dstDeviceId = 2, copy.graphNodeId = 11, copy.graphId = 12;
  Emit(job_, copy, GetParam() >= 17 ? sizeof(copy) : sizeof(CUpti_ActivityMemcpyPtoP3));
  const auto told = Only<abi::pt_gpu_memcpy_record>(abi::PT_GPU_MEMCPY);
  EXPECT_EQ(told.bytes, 4096u);
  EXPECT_EQ(told.source_device, 1u);
  EXPECT_EQ(told.destination_device, 2u);
  EXPECT_EQ(told.correlation, 10u);
  EXPECT_EQ(told.graph, 12u);
  EXPECT_EQ(told.graph_node, 11u);
  EXPECT_EQ(told.is_async, 0);
}

TEST_P(AgentRecordsTest, Memset) {
  CUpti_ActivityMemset5 set{};
  set.kind = CUPTI_ACTIVITY_KIND_MEMSET;
  set.value = 255, set.bytes = 4096, set.start = 5, set.end = 6;
  set.deviceId = 1, set.contextId = 2, set.streamId = 3, set.correlationId = 4;
  set.flags = 1, set.memoryKind = 3, set.graphNodeId = 7, set.graphId = 8;
  const size_t length = GetParam() >= 130500 ? sizeof(set)
                        : GetParam() >= 17   ? sizeof(CUpti_ActivityMemset4)
                                             : sizeof(CUpti_ActivityMemset3);
  Emit(job_, set, length);
  const auto told = Only<abi::pt_gpu_memset_record>(abi::PT_GPU_MEMSET);
  EXPECT_EQ(told.head.time_ns, 5u);
  EXPECT_EQ(told.end_ns, 6u);
  EXPECT_EQ(told.value, 255u);
  EXPECT_EQ(told.bytes, 4096u);
  EXPECT_EQ(told.device + told.context * 10 + told.stream * 100 + told.correlation * 1000, 4321u);
  EXPECT_EQ(told.memory_kind, 3);
  EXPECT_EQ(told.is_async, 1);
  EXPECT_EQ(told.graph_node, 7u);
  EXPECT_EQ(told.graph, 8u);
}

TEST_P(AgentRecordsTest, Synchronization) {
  CUpti_ActivitySynchronization2 wait{};
  wait.kind = CUPTI_ACTIVITY_KIND_SYNCHRONIZATION;
  wait.type = CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_EVENT_SYNCHRONIZE;
  wait.start = 5, wait.end = 6, wait.correlationId = 7, wait.contextId = 8;
  wait.streamId = CUPTI_SYNCHRONIZATION_INVALID_VALUE, wait.cudaEventId = 9, wait.returnValue = 10;
  Emit(job_, wait, GetParam() >= 26 ? sizeof(wait) : sizeof(CUpti_ActivitySynchronization));
  const auto told = Only<abi::pt_gpu_sync_record>(abi::PT_GPU_SYNC);
  EXPECT_EQ(told.head.time_ns, 5u);
  EXPECT_EQ(told.end_ns, 6u);
  EXPECT_EQ(told.type, 1u);
  EXPECT_EQ(told.correlation, 7u);
  EXPECT_EQ(told.context, 8u);
  EXPECT_EQ(told.stream, PT_GPU_NOWHERE);
  EXPECT_EQ(told.event, 9u);
  EXPECT_EQ(told.status, GetParam() >= 26 ? 10u : 0u);
}

TEST_P(AgentRecordsTest, CallOfTheDriver) {
  CUpti_ActivityAPI call{};
  call.kind = CUPTI_ACTIVITY_KIND_DRIVER;
  call.cbid = 307;
  call.start = 5, call.end = 6, call.threadId = 77, call.correlationId = 8, call.returnValue = 9;
  Emit(job_, call);
  const auto told = Only<abi::pt_gpu_call_record>(abi::PT_GPU_CALL);
  EXPECT_EQ(job_.Name(told.name), "cuLaunchKernel");
  EXPECT_EQ(told.head.tid, 154u);
  EXPECT_EQ(told.head.time_ns, 5u);
  EXPECT_EQ(told.end_ns, 6u);
  EXPECT_EQ(told.correlation, 8u);
  EXPECT_EQ(told.callback, 307u);
  EXPECT_EQ(told.result, 9u);
  EXPECT_EQ(told.domain, abi::PT_GPU_DRIVER);
}

TEST_P(AgentRecordsTest, CallWithoutAName) {
  CUpti_ActivityAPI call{};
  call.kind = CUPTI_ACTIVITY_KIND_RUNTIME;
  call.cbid = 5000;
  Emit(job_, call);
  const auto told = Only<abi::pt_gpu_call_record>(abi::PT_GPU_CALL);
  EXPECT_EQ(told.name, 0u);
  EXPECT_EQ(told.callback, 5000u);
}

TEST_P(AgentRecordsTest, ExternalCorrelation) {
  CUpti_ActivityExternalCorrelation external{};
  external.kind = CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION;
  external.externalKind = CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0;
  external.externalId = 1ull << 33, external.correlationId = 6;
  Emit(job_, external);
  const auto told = Only<abi::pt_gpu_external_record>(abi::PT_GPU_EXTERNAL);
  EXPECT_EQ(told.external_id, 1ull << 33);
  EXPECT_EQ(told.correlation, 6u);
  EXPECT_EQ(told.kind, static_cast<uint32_t>(CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0));
}

TEST_P(AgentRecordsTest, Marker) {
  CUpti_ActivityMarker2 marker{};
  marker.kind = CUPTI_ACTIVITY_KIND_MARKER;
  marker.flags = CUPTI_ACTIVITY_FLAG_MARKER_START;
  marker.timestamp = 5, marker.id = 6;
  marker.objectKind = CUPTI_ACTIVITY_OBJECT_THREAD;
  marker.objectId.pt.processId = 7, marker.objectId.pt.threadId = 8;
  marker.name = kMarkerName, marker.domain = kDomainName;
  Emit(job_, marker);
  const auto told = Only<abi::pt_gpu_marker_record>(abi::PT_GPU_MARKER);
  EXPECT_EQ(job_.Name(told.name), kMarkerName);
  EXPECT_EQ(job_.Name(told.domain), kDomainName);
  EXPECT_EQ(told.head.time_ns, 5u);
  EXPECT_EQ(told.head.tid, 16u);
  EXPECT_EQ(told.id, 6u);
  EXPECT_EQ(told.flags, static_cast<uint32_t>(CUPTI_ACTIVITY_FLAG_MARKER_START));
}

TEST_P(AgentRecordsTest, Overhead) {
  CUpti_ActivityOverhead3 overhead{};
  overhead.kind = CUPTI_ACTIVITY_KIND_OVERHEAD;
  overhead.overheadKind = CUPTI_ACTIVITY_OVERHEAD_CUPTI_BUFFER_FLUSH;
  overhead.objectKind = CUPTI_ACTIVITY_OBJECT_THREAD;
  overhead.objectId.pt.threadId = 8;
  overhead.start = 5, overhead.end = 6, overhead.correlationId = 7;
  const size_t length = GetParam() >= 26   ? sizeof(overhead)
                        : GetParam() >= 20 ? sizeof(CUpti_ActivityOverhead2)
                                           : sizeof(CUpti_ActivityOverhead);
  Emit(job_, overhead, length);
  const auto told = Only<abi::pt_gpu_overhead_record>(abi::PT_GPU_OVERHEAD);
  EXPECT_EQ(told.head.time_ns, 5u);
  EXPECT_EQ(told.end_ns, 6u);
  EXPECT_EQ(told.head.tid, 16u);
  EXPECT_EQ(told.kind, static_cast<uint32_t>(CUPTI_ACTIVITY_OVERHEAD_CUPTI_BUFFER_FLUSH));
  EXPECT_EQ(told.correlation, GetParam() >= 20 ? 7u : 0u);
}

TEST_P(AgentRecordsTest, Memory) {
  CUpti_ActivityMemory4 memory{};
  memory.kind = CUPTI_ACTIVITY_KIND_MEMORY2;
  memory.memoryOperationType = CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_RELEASE;
  memory.memoryKind = CUPTI_ACTIVITY_MEMORY_KIND_DEVICE;
  memory.correlationId = 5, memory.address = 1ull << 46, memory.bytes = 7, memory.timestamp = 8;
  memory.deviceId = 9, memory.contextId = 10, memory.streamId = 0;
  memory.memoryPoolConfig.address = 12;
  const size_t length = GetParam() >= 20   ? sizeof(memory)
                        : GetParam() >= 17 ? sizeof(CUpti_ActivityMemory3)
                                           : sizeof(CUpti_ActivityMemory2);
  Emit(job_, memory, length);
  const auto told = Only<abi::pt_gpu_memory_record>(abi::PT_GPU_MEMORY);
  EXPECT_EQ(told.head.time_ns, 8u);
  EXPECT_EQ(told.address, 1ull << 46);
  EXPECT_EQ(told.bytes, 7u);
  EXPECT_EQ(told.pool, 12u);
  EXPECT_EQ(told.operation, 2u);
  EXPECT_EQ(told.kind, 3u);
  EXPECT_EQ(told.correlation, 5u);
  EXPECT_EQ(told.device, 9u);
  EXPECT_EQ(told.context, 10u);
  EXPECT_EQ(told.stream, PT_GPU_NOWHERE);
}

TEST_P(AgentRecordsTest, MemoryPool) {
  CUpti_ActivityMemoryPool3 pool{};
  pool.kind = CUPTI_ACTIVITY_KIND_MEMORY_POOL;
  pool.memoryPoolOperationType = CUPTI_ACTIVITY_MEMORY_POOL_OPERATION_TYPE_TRIMMED;
  pool.memoryPoolType = CUPTI_ACTIVITY_MEMORY_POOL_TYPE_LOCAL;
  pool.correlationId = 5, pool.deviceId = 6, pool.address = 7, pool.size = 8;
  pool.releaseThreshold = 9, pool.timestamp = 10, pool.utilizedSize = 11;
  const size_t length = GetParam() >= 130000 ? sizeof(pool)
                        : GetParam() >= 18   ? sizeof(CUpti_ActivityMemoryPool2)
                                             : sizeof(CUpti_ActivityMemoryPool);
  Emit(job_, pool, length);
  const auto told = Only<abi::pt_gpu_pool_record>(abi::PT_GPU_POOL);
  EXPECT_EQ(told.head.time_ns, 10u);
  EXPECT_EQ(told.pool, 7u);
  EXPECT_EQ(told.bytes, 8u);
  EXPECT_EQ(told.used_bytes, GetParam() >= 18 ? 11u : 0u);
  EXPECT_EQ(told.release_threshold, 9u);
  EXPECT_EQ(told.operation, static_cast<uint32_t>(pool.memoryPoolOperationType));
  EXPECT_EQ(told.type, 1u);
  EXPECT_EQ(told.correlation, 5u);
  EXPECT_EQ(told.device, 6u);
}

TEST_P(AgentRecordsTest, GraphAsAWhole) {
  CUpti_ActivityGraphTrace2 graph{};
  graph.kind = CUPTI_ACTIVITY_KIND_GRAPH_TRACE;
  graph.correlationId = 5, graph.start = 6, graph.end = 7, graph.deviceId = 8, graph.graphId = 9;
  graph.contextId = 10, graph.streamId = 11;
  Emit(job_, graph, GetParam() >= 23 ? sizeof(graph) : sizeof(CUpti_ActivityGraphTrace));
  const auto told = Only<abi::pt_gpu_graph_record>(abi::PT_GPU_GRAPH);
  EXPECT_EQ(told.head.time_ns, 6u);
  EXPECT_EQ(told.end_ns, 7u);
  EXPECT_EQ(told.correlation, 5u);
  EXPECT_EQ(told.device, 8u);
  EXPECT_EQ(told.graph, 9u);
  EXPECT_EQ(told.context, 10u);
  EXPECT_EQ(told.stream, 11u);
}

TEST_P(AgentRecordsTest, Event) {
  CUpti_ActivityCudaEvent3 event{};
  event.kind = CUPTI_ACTIVITY_KIND_CUDA_EVENT;
  event.correlationId = 5, event.contextId = 6, event.streamId = 7, event.eventId = 8;
  event.deviceId = 9, event.deviceTimestamp = 10;
  const size_t length = GetParam() >= 130500 ? sizeof(event)
                        : GetParam() >= 26   ? sizeof(CUpti_ActivityCudaEvent2)
                                             : sizeof(CUpti_ActivityCudaEvent);
  Emit(job_, event, length);
  const auto told = Only<abi::pt_gpu_event_record>(abi::PT_GPU_EVENT);
  EXPECT_EQ(told.correlation, 5u);
  EXPECT_EQ(told.context, 6u);
  EXPECT_EQ(told.stream, 7u);
  EXPECT_EQ(told.event, 8u);
  EXPECT_EQ(told.device, GetParam() >= 26 ? 9u : PT_GPU_NOWHERE);
  EXPECT_EQ(told.head.time_ns, GetParam() >= 26 ? 10u : 0u);
}

TEST_P(AgentRecordsTest, KindsThatAreNotKnownAreCounted) {
  CUpti_ActivityJit jit{};
  jit.kind = CUPTI_ACTIVITY_KIND_JIT;
  for (int i = 0; i < 3; ++i) Emit(job_, jit);
  const auto told = Only<abi::pt_gpu_count_record>(abi::PT_GPU_UNKNOWN);
  EXPECT_EQ(told.count, 3u);
  EXPECT_EQ(told.which, 52u);
  const AgentReport report = job_.ring().report();
  EXPECT_EQ(report.unread_records, 3u);
  EXPECT_EQ(report.cupti_records, report.ring_records + 3);
}

TEST_P(AgentRecordsTest, ARecordThatIsNotWholeIsCounted) {
  job_.Do([](JobTools& tools, int64_t) -> int64_t { return tools.settings->cut = 8, 0; });
  CUpti_ActivityAPI call{};
  call.kind = CUPTI_ACTIVITY_KIND_RUNTIME;
  Emit(job_, call);
  // Before the end, where the last record of a buffer may be the agent's own.
  const int64_t deadline = MonotonicNs() + 10'000'000'000;
  while (job_.ring().report().unread_records == 0 && MonotonicNs() < deadline) {
    job_.Drain();
    usleep(1000);
  }
  job_.Stop();
  EXPECT_EQ(job_.ring().report().unread_records, 1u);
  EXPECT_TRUE(job_.Records<abi::pt_gpu_call_record>(abi::PT_GPU_CALL).empty());
}

TEST_P(AgentRecordsTest, LongNamesComeInParts) {
  static char long_name[70'001];
  std::memset(long_name, 'x', 70'000);
  std::memcpy(long_name, "_Zbegin", 7);
  CUpti_ActivityMarker2 marker{};
  marker.kind = CUPTI_ACTIVITY_KIND_MARKER;
  marker.name = long_name;
  job_.Do([](JobTools&, int64_t) -> int64_t {
    std::memset(long_name, 'x', 70'000);
    std::memcpy(long_name, "_Zbegin", 7);
    return 0;
  });
  Emit(job_, marker);
  Emit(job_, marker);
  job_.Stop();
  const auto markers = job_.Records<abi::pt_gpu_marker_record>(abi::PT_GPU_MARKER);
  ASSERT_EQ(markers.size(), 2u);
  EXPECT_EQ(markers[0].name, markers[1].name);
  EXPECT_EQ(job_.Name(markers[0].name), std::string(long_name, PT_GPU_NAME_LIMIT));
  size_t parts = 0;
  for (const auto& name : job_.Records<abi::pt_gpu_name_record>(abi::PT_GPU_NAME)) {
    parts += name.id == markers[0].name;
  }
  EXPECT_EQ(parts, (PT_GPU_NAME_LIMIT + PT_GPU_TEXT_BYTES - 1) / PT_GPU_TEXT_BYTES);  // told once
}

}  // namespace
}  // namespace proftrace
