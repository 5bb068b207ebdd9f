// Compiled once with each CUPTI's headers that are there: the agent's own declarations say the
// same.
#include <cupti_activity.h>
#include <cupti_callbacks.h>
#include <cupti_result.h>
#include <cupti_version.h>

#include "userspace/agent/activity_records.h"

namespace proftrace::agent {
namespace {

#define SAME(ours, our_field, theirs, their_field)                           \
  static_assert(offsetof(ours, our_field) == offsetof(theirs, their_field)); \
  static_assert(sizeof(ours::our_field) == sizeof(theirs::their_field) ||    \
                sizeof(ours::our_field) == 3 * sizeof(theirs::their_field))
#define SAME_NUMBER(ours, theirs) static_assert(static_cast<int>(ours) == static_cast<int>(theirs))

// The newest of each that this version has.
#if CUPTI_API_VERSION >= 130500
using Kernel = CUpti_ActivityKernel13;
using Copy = CUpti_ActivityMemcpy7;
using Set = CUpti_ActivityMemset5;
using Pool = CUpti_ActivityMemoryPool3;
using Device = CUpti_ActivityDevice6;
using Context = CUpti_ActivityContext4;
using Event = CUpti_ActivityCudaEvent3;
#elif CUPTI_API_VERSION >= 130000
using Kernel = CUpti_ActivityKernel10;
using Copy = CUpti_ActivityMemcpy6;
using Set = CUpti_ActivityMemset4;
using Pool = CUpti_ActivityMemoryPool3;
using Device = CUpti_ActivityDevice5;
using Context = CUpti_ActivityContext3;
using Event = CUpti_ActivityCudaEvent2;
#elif CUPTI_API_VERSION >= 26
using Kernel = CUpti_ActivityKernel9;
using Copy = CUpti_ActivityMemcpy6;
using Set = CUpti_ActivityMemset4;
using Pool = CUpti_ActivityMemoryPool2;
using Device = CUpti_ActivityDevice5;
using Context = CUpti_ActivityContext3;
using Event = CUpti_ActivityCudaEvent2;
#else
using Kernel = CUpti_ActivityKernel8;
using Copy = CUpti_ActivityMemcpy5;
using Set = CUpti_ActivityMemset4;
using Pool = CUpti_ActivityMemoryPool2;
using Device = CUpti_ActivityDevice4;
using Context = CUpti_ActivityContext;
using Event = CUpti_ActivityCudaEvent;
#endif
#if CUPTI_API_VERSION >= 26
using Wait = CUpti_ActivitySynchronization2;
using Overhead = CUpti_ActivityOverhead3;
using Memory = CUpti_ActivityMemory4;
using Graph = CUpti_ActivityGraphTrace2;
SAME(SynchronizationActivity, result, Wait, returnValue);
SAME(OverheadActivity, correlation, Overhead, correlationId);
SAME(CudaEventActivity, device, Event, deviceId);
SAME(CudaEventActivity, timestamp, Event, deviceTimestamp);
#else
using Wait = CUpti_ActivitySynchronization;
using Overhead = CUpti_ActivityOverhead;
using Memory = CUpti_ActivityMemory3;
using Graph = CUpti_ActivityGraphTrace;
#endif
#if CUPTI_API_VERSION >= 130500
SAME(KernelActivity, priority, Kernel, priority);
#endif

SAME(KernelActivity, kind, Kernel, kind);
SAME(KernelActivity, registers, Kernel, registersPerThread);
SAME(KernelActivity, start, Kernel, start);
SAME(KernelActivity, end, Kernel, end);
SAME(KernelActivity, queued, Kernel, queued);
SAME(KernelActivity, submitted, Kernel, submitted);
SAME(KernelActivity, device, Kernel, deviceId);
SAME(KernelActivity, context, Kernel, contextId);
SAME(KernelActivity, stream, Kernel, streamId);
SAME(KernelActivity, grid, Kernel, gridX);
SAME(KernelActivity, block, Kernel, blockX);
SAME(KernelActivity, static_shared, Kernel, staticSharedMemory);
SAME(KernelActivity, dynamic_shared, Kernel, dynamicSharedMemory);
SAME(KernelActivity, local_per_thread, Kernel, localMemoryPerThread);
SAME(KernelActivity, correlation, Kernel, correlationId);
SAME(KernelActivity, name, Kernel, name);
SAME(KernelActivity, shared_executed, Kernel, sharedMemoryExecuted);
SAME(KernelActivity, graph_node, Kernel, graphNodeId);
SAME(KernelActivity, graph, Kernel, graphId);
SAME(KernelActivity, channel, Kernel, channelID);
SAME(KernelActivity, cluster, Kernel, clusterX);

SAME(MemcpyActivity, copy_kind, Copy, copyKind);
SAME(MemcpyActivity, source_kind, Copy, srcKind);
SAME(MemcpyActivity, destination_kind, Copy, dstKind);
SAME(MemcpyActivity, flags, Copy, flags);
SAME(MemcpyActivity, bytes, Copy, bytes);
SAME(MemcpyActivity, start, Copy, start);
SAME(MemcpyActivity, end, Copy, end);
SAME(MemcpyActivity, device, Copy, deviceId);
SAME(MemcpyActivity, context, Copy, contextId);
SAME(MemcpyActivity, stream, Copy, streamId);
SAME(MemcpyActivity, correlation, Copy, correlationId);
SAME(MemcpyActivity, graph_node, Copy, graphNodeId);
SAME(MemcpyActivity, graph, Copy, graphId);

using Peer = CUpti_ActivityMemcpyPtoP4;
SAME(PeerCopyActivity, copy_kind, Peer, copyKind);
SAME(PeerCopyActivity, source_kind, Peer, srcKind);
SAME(PeerCopyActivity, destination_kind, Peer, dstKind);
SAME(PeerCopyActivity, flags, Peer, flags);
SAME(PeerCopyActivity, bytes, Peer, bytes);
SAME(PeerCopyActivity, start, Peer, start);
SAME(PeerCopyActivity, end, Peer, end);
SAME(PeerCopyActivity, device, Peer, deviceId);
SAME(PeerCopyActivity, context, Peer, contextId);
SAME(PeerCopyActivity, stream, Peer, streamId);
SAME(PeerCopyActivity, source_device, Peer, srcDeviceId);
SAME(PeerCopyActivity, destination_device, Peer, dstDeviceId);
SAME(PeerCopyActivity, correlation, Peer, correlationId);
SAME(PeerCopyActivity, graph_node, Peer, graphNodeId);
SAME(PeerCopyActivity, graph, Peer, graphId);

SAME(MemsetActivity, value, Set, value);
SAME(MemsetActivity, bytes, Set, bytes);
SAME(MemsetActivity, start, Set, start);
SAME(MemsetActivity, end, Set, end);
SAME(MemsetActivity, device, Set, deviceId);
SAME(MemsetActivity, context, Set, contextId);
SAME(MemsetActivity, stream, Set, streamId);
SAME(MemsetActivity, correlation, Set, correlationId);
SAME(MemsetActivity, flags, Set, flags);
SAME(MemsetActivity, memory_kind, Set, memoryKind);
SAME(MemsetActivity, graph_node, Set, graphNodeId);
SAME(MemsetActivity, graph, Set, graphId);

SAME(SynchronizationActivity, type, Wait, type);
SAME(SynchronizationActivity, start, Wait, start);
SAME(SynchronizationActivity, end, Wait, end);
SAME(SynchronizationActivity, correlation, Wait, correlationId);
SAME(SynchronizationActivity, context, Wait, contextId);
SAME(SynchronizationActivity, stream, Wait, streamId);
SAME(SynchronizationActivity, event, Wait, cudaEventId);

SAME(CallActivity, callback, CUpti_ActivityAPI, cbid);
SAME(CallActivity, start, CUpti_ActivityAPI, start);
SAME(CallActivity, end, CUpti_ActivityAPI, end);
SAME(CallActivity, thread, CUpti_ActivityAPI, threadId);
SAME(CallActivity, correlation, CUpti_ActivityAPI, correlationId);
SAME(CallActivity, result, CUpti_ActivityAPI, returnValue);

using External = CUpti_ActivityExternalCorrelation;
SAME(ExternalActivity, external_kind, External, externalKind);
SAME(ExternalActivity, external_id, External, externalId);
SAME(ExternalActivity, correlation, External, correlationId);

SAME(MarkerActivity, flags, CUpti_ActivityMarker2, flags);
SAME(MarkerActivity, timestamp, CUpti_ActivityMarker2, timestamp);
SAME(MarkerActivity, id, CUpti_ActivityMarker2, id);
SAME(MarkerActivity, object_kind, CUpti_ActivityMarker2, objectKind);
SAME(MarkerActivity, object, CUpti_ActivityMarker2, objectId);
SAME(MarkerActivity, name, CUpti_ActivityMarker2, name);
SAME(MarkerActivity, domain, CUpti_ActivityMarker2, domain);
static_assert(offsetof(ActivityObject, thread_or_context) ==
              offsetof(CUpti_ActivityObjectKindId, pt.threadId));

SAME(OverheadActivity, overhead_kind, Overhead, overheadKind);
SAME(OverheadActivity, object_kind, Overhead, objectKind);
SAME(OverheadActivity, object, Overhead, objectId);
SAME(OverheadActivity, start, Overhead, start);
SAME(OverheadActivity, end, Overhead, end);

SAME(MemoryActivity, operation, Memory, memoryOperationType);
SAME(MemoryActivity, memory_kind, Memory, memoryKind);
SAME(MemoryActivity, correlation, Memory, correlationId);
SAME(MemoryActivity, address, Memory, address);
SAME(MemoryActivity, bytes, Memory, bytes);
SAME(MemoryActivity, timestamp, Memory, timestamp);
SAME(MemoryActivity, device, Memory, deviceId);
SAME(MemoryActivity, context, Memory, contextId);
SAME(MemoryActivity, stream, Memory, streamId);
SAME(MemoryActivity, pool, Memory, memoryPoolConfig.address);

SAME(MemoryPoolActivity, operation, Pool, memoryPoolOperationType);
SAME(MemoryPoolActivity, pool_type, Pool, memoryPoolType);
SAME(MemoryPoolActivity, correlation, Pool, correlationId);
SAME(MemoryPoolActivity, device, Pool, deviceId);
SAME(MemoryPoolActivity, pool, Pool, address);
SAME(MemoryPoolActivity, bytes, Pool, size);
SAME(MemoryPoolActivity, release_threshold, Pool, releaseThreshold);
SAME(MemoryPoolActivity, timestamp, Pool, timestamp);
SAME(MemoryPoolActivity, used_bytes, Pool, utilizedSize);

SAME(DeviceActivity, memory_bytes, Device, globalMemorySize);
SAME(DeviceActivity, warp_size, Device, numThreadsPerWarp);
SAME(DeviceActivity, multiprocessors, Device, numMultiprocessors);
SAME(DeviceActivity, warps_a_multiprocessor, Device, maxWarpsPerMultiprocessor);
SAME(DeviceActivity, blocks_a_multiprocessor, Device, maxBlocksPerMultiprocessor);
SAME(DeviceActivity, shared_a_multiprocessor, Device, maxSharedMemoryPerMultiprocessor);
SAME(DeviceActivity, registers_a_multiprocessor, Device, maxRegistersPerMultiprocessor);
SAME(DeviceActivity, registers_a_block, Device, maxRegistersPerBlock);
SAME(DeviceActivity, shared_a_block, Device, maxSharedMemoryPerBlock);
SAME(DeviceActivity, threads_a_block, Device, maxThreadsPerBlock);
SAME(DeviceActivity, compute_major, Device, computeCapabilityMajor);
SAME(DeviceActivity, compute_minor, Device, computeCapabilityMinor);
SAME(DeviceActivity, id, Device, id);
SAME(DeviceActivity, name, Device, name);

SAME(ContextActivity, context, Context, contextId);
SAME(ContextActivity, device, Context, deviceId);
SAME(ContextActivity, null_stream, Context, nullStreamId);

SAME(GraphTraceActivity, correlation, Graph, correlationId);
SAME(GraphTraceActivity, start, Graph, start);
SAME(GraphTraceActivity, end, Graph, end);
SAME(GraphTraceActivity, device, Graph, deviceId);
SAME(GraphTraceActivity, graph, Graph, graphId);
SAME(GraphTraceActivity, context, Graph, contextId);
SAME(GraphTraceActivity, stream, Graph, streamId);

SAME(CudaEventActivity, correlation, Event, correlationId);
SAME(CudaEventActivity, context, Event, contextId);
SAME(CudaEventActivity, stream, Event, streamId);
SAME(CudaEventActivity, event, Event, eventId);

SAME_NUMBER(kCuptiMaxLimitReached, CUPTI_ERROR_MAX_LIMIT_REACHED);
SAME_NUMBER(kCuptiNotInitialized, CUPTI_ERROR_NOT_INITIALIZED);
SAME_NUMBER(kCuptiInvalidKind, CUPTI_ERROR_INVALID_KIND);
SAME_NUMBER(kCuptiInsufficientPrivileges, CUPTI_ERROR_INSUFFICIENT_PRIVILEGES);
SAME_NUMBER(kCuptiMultipleSubscribers, CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED);
SAME_NUMBER(kCuptiVirtualizedInsufficientPrivileges,
            CUPTI_ERROR_VIRTUALIZED_DEVICE_INSUFFICIENT_PRIVILEGES);
SAME_NUMBER(kActivityMemcpy, CUPTI_ACTIVITY_KIND_MEMCPY);
SAME_NUMBER(kActivityMemset, CUPTI_ACTIVITY_KIND_MEMSET);
SAME_NUMBER(kActivityKernel, CUPTI_ACTIVITY_KIND_KERNEL);
SAME_NUMBER(kActivityDriver, CUPTI_ACTIVITY_KIND_DRIVER);
SAME_NUMBER(kActivityRuntime, CUPTI_ACTIVITY_KIND_RUNTIME);
SAME_NUMBER(kActivityDevice, CUPTI_ACTIVITY_KIND_DEVICE);
SAME_NUMBER(kActivityContext, CUPTI_ACTIVITY_KIND_CONTEXT);
SAME_NUMBER(kActivityConcurrentKernel, CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL);
SAME_NUMBER(kActivityMarker, CUPTI_ACTIVITY_KIND_MARKER);
SAME_NUMBER(kActivityOverhead, CUPTI_ACTIVITY_KIND_OVERHEAD);
SAME_NUMBER(kActivityMemcpy2, CUPTI_ACTIVITY_KIND_MEMCPY2);
SAME_NUMBER(kActivityCudaEvent, CUPTI_ACTIVITY_KIND_CUDA_EVENT);
SAME_NUMBER(kActivitySynchronization, CUPTI_ACTIVITY_KIND_SYNCHRONIZATION);
SAME_NUMBER(kActivityExternalCorrelation, CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION);
SAME_NUMBER(kActivityMemory2, CUPTI_ACTIVITY_KIND_MEMORY2);
SAME_NUMBER(kActivityMemoryPool, CUPTI_ACTIVITY_KIND_MEMORY_POOL);
SAME_NUMBER(kActivityGraphTrace, CUPTI_ACTIVITY_KIND_GRAPH_TRACE);
SAME_NUMBER(kDomainDriver, CUPTI_CB_DOMAIN_DRIVER_API);
SAME_NUMBER(kDomainRuntime, CUPTI_CB_DOMAIN_RUNTIME_API);
SAME_NUMBER(kFlushForced, CUPTI_ACTIVITY_FLAG_FLUSH_FORCED);
SAME_NUMBER(kThreadIdTypeSystem, CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM);
SAME_NUMBER(kObjectThread, CUPTI_ACTIVITY_OBJECT_THREAD);

}  // namespace
}  // namespace proftrace::agent
