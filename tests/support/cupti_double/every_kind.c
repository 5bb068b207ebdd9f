/*
 * A record of each kind, with values of its own in every field: what a test looks for in the
 * outputs. Calls lie 100 us apart and take 10 us, what they ask for begins 20 us after them.
 */
#include <cupti_activity.h>
#include <cupti_driver_cbid.h>
#include <cupti_result.h>
#include <cupti_runtime_cbid.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "tests/support/cupti_double/cupti_double.h"

#define CALL_NS 100000
#define BEGIN(type, record, record_kind) \
  type record;                           \
  memset(&(record), 0, sizeof(record));  \
  (record).kind = (record_kind)
#define EMIT(record) cupti_double_emit(&(record), cupti_double_size((record).kind))

extern struct cupti_double cupti_double;

static uint64_t emit_call(CUpti_ActivityKind kind, uint32_t callback, uint64_t start,
                          uint32_t correlation) {
  BEGIN(CUpti_ActivityAPI, call, kind);
  call.cbid = callback;
  call.start = start;
  call.end = start + 10000;
  call.processId = (uint32_t)getpid();
  call.threadId = (uint32_t)syscall(SYS_gettid);
  call.correlationId = correlation;
  EMIT(call);
  return start + 20000;
}

static uint64_t emit_runtime_call(uint32_t callback, uint64_t start, uint32_t correlation) {
  return emit_call(CUPTI_ACTIVITY_KIND_RUNTIME, callback, start, correlation);
}

static void emit_copies(uint64_t start, uint32_t correlation) {
  BEGIN(CUpti_ActivityMemcpy7, copy, CUPTI_ACTIVITY_KIND_MEMCPY);
  copy.start =
      emit_runtime_call(CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyAsync_v3020, start, correlation);
  copy.end = copy.start + 2000;
  copy.copyKind = CUPTI_ACTIVITY_MEMCPY_KIND_DTOH;
  copy.srcKind = CUPTI_ACTIVITY_MEMORY_KIND_DEVICE;
  copy.dstKind = CUPTI_ACTIVITY_MEMORY_KIND_PINNED;
  copy.bytes = 8192;
  copy.contextId = 1, copy.streamId = 21, copy.correlationId = correlation;
  EMIT(copy);

  BEGIN(CUpti_ActivityMemcpyPtoP4, peer, CUPTI_ACTIVITY_KIND_MEMCPY2);
  peer.start = emit_runtime_call(CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyAsync_v3020, start + CALL_NS,
                                 correlation + 1);
  peer.end = peer.start + 3000;
  peer.copyKind = CUPTI_ACTIVITY_MEMCPY_KIND_PTOP;
  peer.srcKind = peer.dstKind = CUPTI_ACTIVITY_MEMORY_KIND_DEVICE;
  peer.bytes = 12288;
  peer.srcDeviceId = 0, peer.dstDeviceId = 1;
  peer.contextId = 1, peer.streamId = 22, peer.correlationId = correlation + 1;
  EMIT(peer);

  BEGIN(CUpti_ActivityMemset5, set, CUPTI_ACTIVITY_KIND_MEMSET);
  set.start = emit_runtime_call(CUPTI_RUNTIME_TRACE_CBID_cudaMemsetAsync_v3020, start + 2 * CALL_NS,
                                correlation + 2);
  set.end = set.start + 4000;
  set.value = 7, set.bytes = 512, set.memoryKind = CUPTI_ACTIVITY_MEMORY_KIND_DEVICE;
  set.contextId = 1, set.streamId = 21, set.correlationId = correlation + 2;
  EMIT(set);
}

static void emit_kernels(uint64_t start, uint32_t correlation) {
  BEGIN(CUpti_ActivityKernel13, kernel, CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
  kernel.start =
      emit_runtime_call(CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000, start, correlation);
  kernel.end = kernel.start + 5000;
  kernel.contextId = 1, kernel.streamId = 21, kernel.correlationId = correlation;
  kernel.gridX = 5, kernel.gridY = 6, kernel.gridZ = 7;
  kernel.blockX = 32, kernel.blockY = 2, kernel.blockZ = 1;
  kernel.registersPerThread = 40;
  kernel.staticSharedMemory = 11, kernel.dynamicSharedMemory = 12;
  kernel.name = "_Z10every_kindPfi";
  EMIT(kernel);

  BEGIN(CUpti_ActivityGraphTrace2, graph, CUPTI_ACTIVITY_KIND_GRAPH_TRACE);
  graph.start = emit_call(CUPTI_ACTIVITY_KIND_DRIVER, CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel,
                          start + CALL_NS, correlation + 1);
  graph.end = graph.start + 6000;
  graph.graphId = 9, graph.contextId = 1, graph.streamId = 21;
  graph.correlationId = correlation + 1;
  EMIT(graph);
}

static void emit_waits(uint64_t start, uint32_t correlation) {
  BEGIN(CUpti_ActivityCudaEvent2, event, CUPTI_ACTIVITY_KIND_CUDA_EVENT);
  event.correlationId = correlation;
  event.contextId = 1, event.streamId = 21, event.eventId = 33;
  event.deviceTimestamp =
      emit_runtime_call(CUPTI_RUNTIME_TRACE_CBID_cudaEventRecord_v3020, start, correlation);
  EMIT(event);

  BEGIN(CUpti_ActivitySynchronization2, wait, CUPTI_ACTIVITY_KIND_SYNCHRONIZATION);
  wait.type = CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_WAIT_EVENT;
  wait.start = emit_runtime_call(CUPTI_RUNTIME_TRACE_CBID_cudaStreamWaitEvent_v3020,
                                 start + CALL_NS, correlation + 1);
  wait.end = wait.start + 7000;
  wait.correlationId = correlation + 1, wait.contextId = 1, wait.streamId = 22;
  wait.cudaEventId = 33;
  EMIT(wait);
}

static void emit_memory(uint64_t start, uint32_t correlation) {
  BEGIN(CUpti_ActivityMemory4, memory, CUPTI_ACTIVITY_KIND_MEMORY2);
  memory.timestamp =
      emit_runtime_call(CUPTI_RUNTIME_TRACE_CBID_cudaMalloc_v3020, start, correlation);
  memory.memoryOperationType = CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_ALLOCATION;
  memory.memoryKind = CUPTI_ACTIVITY_MEMORY_KIND_DEVICE;
  memory.address = 0x7f0000000000, memory.bytes = 65536;
  memory.processId = (uint32_t)getpid(), memory.contextId = 1;
  memory.correlationId = correlation;
  EMIT(memory);

  BEGIN(CUpti_ActivityMemoryPool3, pool, CUPTI_ACTIVITY_KIND_MEMORY_POOL);
  pool.timestamp = start + CALL_NS;
  pool.memoryPoolOperationType = CUPTI_ACTIVITY_MEMORY_POOL_OPERATION_TYPE_CREATED;
  pool.memoryPoolType = CUPTI_ACTIVITY_MEMORY_POOL_TYPE_LOCAL;
  pool.address = 0x7e0000000000, pool.size = 4096;
  pool.processId = (uint32_t)getpid();
  EMIT(pool);
}

static CUpti_ActivityObjectKindId this_thread(void) {
  CUpti_ActivityObjectKindId thread;
  memset(&thread, 0, sizeof(thread));
  thread.pt.processId = (uint32_t)getpid();
  thread.pt.threadId = (uint32_t)syscall(SYS_gettid);
  return thread;
}

static void emit_overhead(CUpti_ActivityOverheadKind kind, uint64_t start, uint64_t end) {
  BEGIN(CUpti_ActivityOverhead3, overhead, CUPTI_ACTIVITY_KIND_OVERHEAD);
  overhead.overheadKind = kind;
  overhead.objectKind = CUPTI_ACTIVITY_OBJECT_THREAD;
  overhead.objectId = this_thread();
  overhead.start = start, overhead.end = end;
  EMIT(overhead);
}

static void emit_others(uint64_t start, uint32_t correlation) {
  emit_overhead(CUPTI_ACTIVITY_OVERHEAD_LAZY_FUNCTION_LOADING, start, start + 8000);
  emit_overhead(CUPTI_ACTIVITY_OVERHEAD_RUNTIME_TRIGGERED_MODULE_LOADING, start + 2 * CALL_NS,
                start + 2 * CALL_NS + 6000);

  BEGIN(CUpti_ActivityMarker2, marker, CUPTI_ACTIVITY_KIND_MARKER);
  marker.flags = CUPTI_ACTIVITY_FLAG_MARKER_START;
  marker.timestamp = start + CALL_NS, marker.id = 77;
  marker.objectKind = CUPTI_ACTIVITY_OBJECT_THREAD;
  marker.objectId = this_thread();
  marker.name = "a range";
  EMIT(marker);
  marker.flags = CUPTI_ACTIVITY_FLAG_MARKER_END;
  marker.timestamp += 9000;
  marker.name = NULL;
  EMIT(marker);

  BEGIN(CUpti_ActivityExternalCorrelation, external, CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION);
  external.externalKind = CUPTI_EXTERNAL_CORRELATION_KIND_CUSTOM0;
  external.externalId = 5, external.correlationId = correlation;
  EMIT(external);

  BEGIN(CUpti_ActivityJit, jit, CUPTI_ACTIVITY_KIND_JIT); /* of no interest: counted */
  EMIT(jit);
}

void cupti_double_emit_overheads(void) {
  uint64_t times[3];
  if (!(cupti_double.enabled >> CUPTI_ACTIVITY_KIND_OVERHEAD & 1)) return;
  for (int i = 0; i < 3; ++i) cuptiGetTimestamp(&times[i]);
  emit_overhead(CUPTI_ACTIVITY_OVERHEAD_LAZY_FUNCTION_LOADING, times[0], times[1]);
  emit_overhead(CUPTI_ACTIVITY_OVERHEAD_RUNTIME_TRIGGERED_MODULE_LOADING, times[1], times[2]);
}

void cupti_double_emit_every_kind(uint64_t start, uint32_t correlation) {
  emit_kernels(start, correlation);
  emit_copies(start + 2 * CALL_NS, correlation + 2);
  emit_waits(start + 5 * CALL_NS, correlation + 5);
  emit_memory(start + 7 * CALL_NS, correlation + 7);
  emit_others(start + 9 * CALL_NS, correlation);
}
