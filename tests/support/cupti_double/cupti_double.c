/*
 * A stand-in for CUPTI (libcupti): the entry points that the GPU agent calls, with CUPTI's own
 * layouts of records. It records what is done with the stand-in for CUDA, and whatever a test gives
 * it.
 */
#include <cupti_activity.h>
#include <cupti_callbacks.h>
#include <cupti_driver_cbid.h>
#include <cupti_result.h>
#include <cupti_runtime_cbid.h>
#include <cupti_version.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/cuda_double/listener.h"
#include "tests/support/cupti_double/cupti_double.h"

#define EXPORT __attribute__((visibility("default")))

EXPORT struct cupti_double cupti_double;

static uint64_t default_now(void) {
  struct timespec now;

  clock_gettime(CLOCK_REALTIME, &now);
  return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void set_field(const char* name, uint64_t value) {
#define FIELD(field) \
  if (!strcmp(name, #field)) cupti_double.field = value
  FIELD(version);
  FIELD(subscribe_result);
  FIELD(register_result);
  FIELD(timestamp_result);
  FIELD(thread_id_result);
  FIELD(refused_kinds);
  FIELD(enabled_elsewhere);
  FIELD(hang_flush);
  FIELD(hold_buffers);
  FIELD(fill);
  FIELD(cut);
  FIELD(extra_drops);
  FIELD(incomplete_ends);
#undef FIELD
}

__attribute__((constructor)) static void read_environment(void) {
  const char* settings = getenv("CUPTI_DOUBLE");
  char name[32];
  unsigned long long value;
  int length;

  cupti_double.version = CUPTI_DOUBLE_VERSION;
  cupti_double.now = default_now;
  cupti_double_prepare();
  while (settings && sscanf(settings, "%31[^=]=%llu%n", name, &value, &length) == 2) {
    set_field(name, value);
    settings += length;
    if (*settings == ',') ++settings;
  }
}

/* Newer ones are longer and begin alike. */
size_t cupti_double_size(unsigned kind) {
  const uint32_t version = cupti_double.version;

  switch (kind) {
    case CUPTI_ACTIVITY_KIND_KERNEL:
    case CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL:
      if (version >= 130500) return sizeof(CUpti_ActivityKernel13);
      if (version >= 130000) return sizeof(CUpti_ActivityKernel10);
      if (version >= 19) return sizeof(CUpti_ActivityKernel9);
      if (version >= 18) return sizeof(CUpti_ActivityKernel8);
      return version >= 17 ? sizeof(CUpti_ActivityKernel7) : sizeof(CUpti_ActivityKernel6);
    case CUPTI_ACTIVITY_KIND_MEMCPY:
      if (version >= 130500) return sizeof(CUpti_ActivityMemcpy7);
      if (version >= 26) return sizeof(CUpti_ActivityMemcpy6);
      return version >= 17 ? sizeof(CUpti_ActivityMemcpy5) : sizeof(CUpti_ActivityMemcpy4);
    case CUPTI_ACTIVITY_KIND_MEMCPY2:
      return version >= 17 ? sizeof(CUpti_ActivityMemcpyPtoP4) : sizeof(CUpti_ActivityMemcpyPtoP3);
    case CUPTI_ACTIVITY_KIND_MEMSET:
      if (version >= 130500) return sizeof(CUpti_ActivityMemset5);
      return version >= 17 ? sizeof(CUpti_ActivityMemset4) : sizeof(CUpti_ActivityMemset3);
    case CUPTI_ACTIVITY_KIND_SYNCHRONIZATION:
      return version >= 26 ? sizeof(CUpti_ActivitySynchronization2)
                           : sizeof(CUpti_ActivitySynchronization);
    case CUPTI_ACTIVITY_KIND_DRIVER:
    case CUPTI_ACTIVITY_KIND_RUNTIME:
      return sizeof(CUpti_ActivityAPI);
    case CUPTI_ACTIVITY_KIND_EXTERNAL_CORRELATION:
      return sizeof(CUpti_ActivityExternalCorrelation);
    case CUPTI_ACTIVITY_KIND_MARKER:
      return sizeof(CUpti_ActivityMarker2);
    case CUPTI_ACTIVITY_KIND_OVERHEAD:
      if (version >= 26) return sizeof(CUpti_ActivityOverhead3);
      return version >= 20 ? sizeof(CUpti_ActivityOverhead2) : sizeof(CUpti_ActivityOverhead);
    case CUPTI_ACTIVITY_KIND_MEMORY2:
      if (version >= 20) return sizeof(CUpti_ActivityMemory4);
      return version >= 17 ? sizeof(CUpti_ActivityMemory3) : sizeof(CUpti_ActivityMemory2);
    case CUPTI_ACTIVITY_KIND_MEMORY_POOL:
      if (version >= 130000) return sizeof(CUpti_ActivityMemoryPool3);
      return version >= 18 ? sizeof(CUpti_ActivityMemoryPool2) : sizeof(CUpti_ActivityMemoryPool);
    case CUPTI_ACTIVITY_KIND_DEVICE:
      return version >= 20 ? sizeof(CUpti_ActivityDevice5) : sizeof(CUpti_ActivityDevice4);
    case CUPTI_ACTIVITY_KIND_CONTEXT:
      return version >= 26 ? sizeof(CUpti_ActivityContext3) : sizeof(CUpti_ActivityContext);
    case CUPTI_ACTIVITY_KIND_GRAPH_TRACE:
      return version >= 23 ? sizeof(CUpti_ActivityGraphTrace2) : sizeof(CUpti_ActivityGraphTrace);
    case CUPTI_ACTIVITY_KIND_CUDA_EVENT:
      if (version >= 130500) return sizeof(CUpti_ActivityCudaEvent3);
      return version >= 26 ? sizeof(CUpti_ActivityCudaEvent2) : sizeof(CUpti_ActivityCudaEvent);
    case CUPTI_ACTIVITY_KIND_JIT: /* of no interest to anybody */
      return sizeof(CUpti_ActivityJit);
    default:
      return 0;
  }
}

static const struct {
  uint32_t number;
  const char* name;
} runtime_calls[] =
    {
        {CUPTI_RUNTIME_TRACE_CBID_cudaGetDevice_v3020, "cudaGetDevice_v3020"},
        {CUPTI_RUNTIME_TRACE_CBID_cudaMalloc_v3020, "cudaMalloc_v3020"},
        {CUPTI_RUNTIME_TRACE_CBID_cudaFree_v3020, "cudaFree_v3020"},
        {CUPTI_RUNTIME_TRACE_CBID_cudaMemcpyAsync_v3020, "cudaMemcpyAsync_v3020"},
        {CUPTI_RUNTIME_TRACE_CBID_cudaMemsetAsync_v3020, "cudaMemsetAsync_v3020"},
        {CUPTI_RUNTIME_TRACE_CBID_cudaStreamSynchronize_v3020, "cudaStreamSynchronize_v3020"},
        {CUPTI_RUNTIME_TRACE_CBID_cudaLaunchKernel_v7000, "cudaLaunchKernel_v7000"},
        {CUPTI_RUNTIME_TRACE_CBID_cudaGraphLaunch_v10000, "cudaGraphLaunch_v10000"},
        {CUPTI_RUNTIME_TRACE_CBID_cudaEventRecord_v3020, "cudaEventRecord_v3020"},
        {CUPTI_RUNTIME_TRACE_CBID_cudaStreamWaitEvent_v3020, "cudaStreamWaitEvent_v3020"},
},
  driver_calls[] = {
      {CUPTI_DRIVER_TRACE_CBID_cuStreamSynchronize, "cuStreamSynchronize"},
      {CUPTI_DRIVER_TRACE_CBID_cuMemAlloc_v2, "cuMemAlloc_v2"},
      {CUPTI_DRIVER_TRACE_CBID_cuMemFree_v2, "cuMemFree_v2"},
      {CUPTI_DRIVER_TRACE_CBID_cuMemcpyHtoDAsync_v2, "cuMemcpyHtoDAsync_v2"},
      {CUPTI_DRIVER_TRACE_CBID_cuMemsetD8Async, "cuMemsetD8Async"},
      {CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoHAsync_v2, "cuMemcpyDtoHAsync_v2"},
      {CUPTI_DRIVER_TRACE_CBID_cuMemcpyDtoDAsync_v2, "cuMemcpyDtoDAsync_v2"},
      {CUPTI_DRIVER_TRACE_CBID_cuLaunchKernel, "cuLaunchKernel"},
      {CUPTI_DRIVER_TRACE_CBID_cuGraphLaunch, "cuGraphLaunch"},
      {CUPTI_DRIVER_TRACE_CBID_cuCtxGetDevice, "cuCtxGetDevice"},
      {CUPTI_DRIVER_TRACE_CBID_cuDeviceGetCount, "cuDeviceGetCount"},
};
#define COUNT(array) (sizeof(array) / sizeof(array[0]))

#define DEFAULT_STREAM 7
static uint32_t stream_of(const struct cuda_double_event* event) {
  return event->stream ? event->stream : DEFAULT_STREAM;
}

static int is_enabled(CUpti_ActivityKind kind) { return cupti_double.enabled >> kind & 1; }

static void emit(CUpti_ActivityKind kind, const void* record) {
  cupti_double_emit(record, cupti_double_size(kind));
}

static void hear_call(const struct cuda_double_event* event) {
  CUpti_ActivityAPI call;
  const size_t length = strlen(event->name);
  size_t i;

  memset(&call, 0, sizeof(call));
  call.kind = event->is_driver ? CUPTI_ACTIVITY_KIND_DRIVER : CUPTI_ACTIVITY_KIND_RUNTIME;
  call.start = event->start;
  call.end = event->end;
  call.processId = (uint32_t)getpid();
  call.threadId = cupti_double.thread_id_type == CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM
                      ? (uint32_t)syscall(SYS_gettid)
                      : (uint32_t)pthread_self();
  call.correlationId = event->correlation;
  call.returnValue = (uint32_t)event->result;
  for (i = 0; i < COUNT(runtime_calls) && !event->is_driver; ++i) {
    if (!strncmp(runtime_calls[i].name, event->name, length) &&
        runtime_calls[i].name[length] == '_') {
      call.cbid = runtime_calls[i].number;
    }
  }
  for (i = 0; i < COUNT(driver_calls) && event->is_driver; ++i) {
    if (!strcmp(driver_calls[i].name, event->name)) call.cbid = driver_calls[i].number;
  }
  if (event->is_driver && call.cbid < COUNT(cupti_double.driver_calls_off) &&
      cupti_double.driver_calls_off[call.cbid]) {
    return;
  }
  if (!is_enabled(call.kind)) return;
  emit(call.kind, &call);
  if (call.kind == CUPTI_ACTIVITY_KIND_DRIVER &&
      call.cbid == CUPTI_DRIVER_TRACE_CBID_cuDeviceGetCount) {
    ++cupti_double.counts_of_devices;
  }
}

static void hear_kernel(const struct cuda_double_event* event) {
  CUpti_ActivityKernel13 kernel;
  const char* name = (const char*)(uintptr_t)event->address;

  if (!is_enabled(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL)) return;
  memset(&kernel, 0, sizeof(kernel));
  kernel.kind = CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL;
  kernel.start = event->start;
  kernel.end = event->end;
  kernel.deviceId = 0;
  kernel.contextId = 1;
  kernel.streamId = stream_of(event);
  kernel.graphId = event->graph;
  kernel.graphNodeId = event->graph_node;
  kernel.gridX = (int)event->grid[0], kernel.gridY = (int)event->grid[1];
  kernel.gridZ = (int)event->grid[2];
  kernel.blockX = (int)event->block[0], kernel.blockY = (int)event->block[1];
  kernel.blockZ = (int)event->block[2];
  kernel.dynamicSharedMemory = (int)event->shared_bytes;
  kernel.registersPerThread = 32;
  kernel.correlationId = event->correlation;
  kernel.name = name[0] == '_' && name[1] == 'Z' ? name : "_Z12double_kernelv";
  emit(CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL, &kernel);
}

static void hear_memory(const struct cuda_double_event* event) {
  CUpti_ActivityMemory4 memory;

  if (!is_enabled(CUPTI_ACTIVITY_KIND_MEMORY2)) return;
  memset(&memory, 0, sizeof(memory));
  memory.kind = CUPTI_ACTIVITY_KIND_MEMORY2;
  memory.memoryOperationType = event->what == CUDA_DOUBLE_ALLOCATE
                                   ? CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_ALLOCATION
                                   : CUPTI_ACTIVITY_MEMORY_OPERATION_TYPE_RELEASE;
  memory.memoryKind = CUPTI_ACTIVITY_MEMORY_KIND_DEVICE;
  memory.correlationId = event->correlation;
  memory.address = event->address;
  memory.bytes = event->bytes;
  memory.timestamp = event->start;
  memory.processId = (uint32_t)getpid();
  memory.contextId = 1;
  emit(CUPTI_ACTIVITY_KIND_MEMORY2, &memory);
}

static void hear_copy(const struct cuda_double_event* event) {
  CUpti_ActivityMemcpy7 copy;

  if (!is_enabled(CUPTI_ACTIVITY_KIND_MEMCPY)) return;
  memset(&copy, 0, sizeof(copy));
  copy.kind = CUPTI_ACTIVITY_KIND_MEMCPY;
  copy.copyKind = event->copy_kind == 1   ? CUPTI_ACTIVITY_MEMCPY_KIND_HTOD
                  : event->copy_kind == 2 ? CUPTI_ACTIVITY_MEMCPY_KIND_DTOH
                                          : CUPTI_ACTIVITY_MEMCPY_KIND_DTOD;
  copy.srcKind = event->copy_kind == 1 ? CUPTI_ACTIVITY_MEMORY_KIND_PAGEABLE
                                       : CUPTI_ACTIVITY_MEMORY_KIND_DEVICE;
  copy.dstKind = event->copy_kind == 2 ? CUPTI_ACTIVITY_MEMORY_KIND_PAGEABLE
                                       : CUPTI_ACTIVITY_MEMORY_KIND_DEVICE;
  copy.flags = CUPTI_ACTIVITY_FLAG_MEMCPY_ASYNC;
  copy.bytes = event->bytes;
  copy.start = event->start;
  copy.end = event->end;
  copy.contextId = 1;
  copy.streamId = stream_of(event);
  copy.correlationId = event->correlation;
  emit(CUPTI_ACTIVITY_KIND_MEMCPY, &copy);
}

static void hear_memset(const struct cuda_double_event* event) {
  CUpti_ActivityMemset5 set;

  if (!is_enabled(CUPTI_ACTIVITY_KIND_MEMSET)) return;
  memset(&set, 0, sizeof(set));
  set.kind = CUPTI_ACTIVITY_KIND_MEMSET;
  set.value = event->value;
  set.bytes = event->bytes;
  set.start = event->start;
  set.end = event->end;
  set.contextId = 1;
  set.streamId = stream_of(event);
  set.correlationId = event->correlation;
  set.flags = CUPTI_ACTIVITY_FLAG_MEMSET_ASYNC;
  set.memoryKind = CUPTI_ACTIVITY_MEMORY_KIND_DEVICE;
  emit(CUPTI_ACTIVITY_KIND_MEMSET, &set);
}

static void hear_synchronization(const struct cuda_double_event* event) {
  CUpti_ActivitySynchronization2 wait;

  if (!is_enabled(CUPTI_ACTIVITY_KIND_SYNCHRONIZATION)) return;
  memset(&wait, 0, sizeof(wait));
  wait.kind = CUPTI_ACTIVITY_KIND_SYNCHRONIZATION;
  wait.type = CUPTI_ACTIVITY_SYNCHRONIZATION_TYPE_STREAM_SYNCHRONIZE;
  wait.start = event->start;
  wait.end = event->end;
  wait.correlationId = event->correlation;
  wait.contextId = 1;
  wait.streamId = stream_of(event);
  wait.cudaEventId = CUPTI_SYNCHRONIZATION_INVALID_VALUE;
  emit(CUPTI_ACTIVITY_KIND_SYNCHRONIZATION, &wait);
}

static void hear(const struct cuda_double_event* event) {
  cupti_double_emit_external_ids(event->correlation);
  switch (event->what) {
    case CUDA_DOUBLE_CALL:
      hear_call(event);
      break;
    case CUDA_DOUBLE_KERNEL:
      hear_kernel(event);
      break;
    case CUDA_DOUBLE_MEMCPY:
      hear_copy(event);
      break;
    case CUDA_DOUBLE_MEMSET:
      hear_memset(event);
      break;
    case CUDA_DOUBLE_SYNCHRONIZE:
      hear_synchronization(event);
      break;
    case CUDA_DOUBLE_ALLOCATE:
    case CUDA_DOUBLE_FREE:
      hear_memory(event);
  }
}

static uint64_t listener_now(void) { return cupti_double.now(); }
static const struct cuda_double_listener listener = {listener_now, hear};

static void listen(void) {
  void* driver = dlopen("libcuda.so.1", RTLD_LAZY | RTLD_NOLOAD);
  void (*set)(const struct cuda_double_listener*) =
      driver ? (void (*)(const struct cuda_double_listener*))dlsym(driver, "cuda_double_listen")
             : NULL;

  if (set) set(cupti_double.enabled ? &listener : NULL);
}

EXPORT CUptiResult cuptiGetVersion(uint32_t* version) {
  *version = cupti_double.version;
  return CUPTI_SUCCESS;
}

EXPORT CUptiResult cuptiSubscribe(CUpti_SubscriberHandle* subscriber, CUpti_CallbackFunc callback,
                                  void* data) {
  (void)callback, (void)data;
  if (cupti_double.subscribe_result) return (CUptiResult)cupti_double.subscribe_result;
  if (cupti_double.subscriptions) return CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED;
  ++cupti_double.subscriptions;
  *subscriber = (CUpti_SubscriberHandle)&cupti_double;
  return CUPTI_SUCCESS;
}

EXPORT CUptiResult cuptiUnsubscribe(CUpti_SubscriberHandle subscriber) {
  if (!subscriber || !cupti_double.subscriptions) return CUPTI_ERROR_INVALID_PARAMETER;
  --cupti_double.subscriptions;
  return CUPTI_SUCCESS;
}

EXPORT CUptiResult cuptiActivityEnable(CUpti_ActivityKind kind) {
  if (cupti_double.refused_kinds >> kind & 1) return CUPTI_ERROR_NOT_COMPATIBLE;
  if (!cupti_double_size(kind)) return CUPTI_ERROR_INVALID_KIND;
  if (kind == CUPTI_ACTIVITY_KIND_DRIVER && !is_enabled(kind)) {
    memset(cupti_double.driver_calls_off, 0, sizeof(cupti_double.driver_calls_off));
  }
  cupti_double.enabled |= (uint64_t)1 << kind;
  listen();
  return CUPTI_SUCCESS;
}

EXPORT CUptiResult cuptiActivityDisable(CUpti_ActivityKind kind) {
  cupti_double.enabled &= ~((uint64_t)1 << kind);
  listen();
  return CUPTI_SUCCESS;
}

EXPORT CUptiResult cuptiActivityEnableAndDump(CUpti_ActivityKind kind) {
  CUpti_ActivityDevice6 device;
  CUpti_ActivityContext4 context;

  if (cupti_double.refused_kinds >> kind & 1) return CUPTI_ERROR_NOT_COMPATIBLE;
  memset(&device, 0, sizeof(device));
  memset(&context, 0, sizeof(context));
  if (kind == CUPTI_ACTIVITY_KIND_DEVICE) {
    device.kind = kind;
    device.globalMemorySize = (uint64_t)80 << 30;
    device.numMultiprocessors = 132;
    device.numThreadsPerWarp = 32;
    device.computeCapabilityMajor = 9;
    device.maxThreadsPerBlock = 1024;
    device.maxWarpsPerMultiprocessor = 64;
    device.maxBlocksPerMultiprocessor = 32;
    device.maxRegistersPerBlock = 65536;
    device.maxRegistersPerMultiprocessor = 65536;
    device.maxSharedMemoryPerBlock = 49152;
    device.maxSharedMemoryPerMultiprocessor = 233472;
    device.name = "Double H100";
    memset(device.uuid.bytes, 0xab, sizeof(device.uuid.bytes));
    emit(kind, &device);
  } else if (kind == CUPTI_ACTIVITY_KIND_CONTEXT) {
    context.kind = kind;
    context.contextId = 1;
    context.nullStreamId = 7;
    emit(kind, &context);
  }
  return cuptiActivityEnable(kind);
}

EXPORT CUptiResult cuptiGetTimestamp(uint64_t* timestamp) {
  *timestamp = cupti_double.now();
  return CUPTI_SUCCESS;
}

EXPORT CUptiResult cuptiActivityRegisterTimestampCallback(CUpti_TimestampCallbackFunc now) {
  if (!now) return CUPTI_ERROR_INVALID_PARAMETER;
  if (cupti_double.timestamp_result) return (CUptiResult)cupti_double.timestamp_result;
  cupti_double.now = now;
  return CUPTI_SUCCESS;
}

EXPORT CUptiResult cuptiSetThreadIdType(CUpti_ActivityThreadIdType type) {
  if (cupti_double.thread_id_result) return (CUptiResult)cupti_double.thread_id_result;
  cupti_double.thread_id_type = type;
  return CUPTI_SUCCESS;
}

EXPORT CUptiResult cuptiGetThreadIdType(CUpti_ActivityThreadIdType* type) {
  *type = (CUpti_ActivityThreadIdType)cupti_double.thread_id_type;
  return CUPTI_SUCCESS;
}

/* As CUPTI 13.0 does it on a GPU: alone it turns nothing on. */
EXPORT CUptiResult cuptiActivityEnableDriverApi(CUpti_CallbackId callback, uint8_t enable) {
  if (callback >= COUNT(cupti_double.driver_calls_off)) return CUPTI_ERROR_INVALID_PARAMETER;
  cupti_double.driver_calls_off[callback] = !enable;
  return CUPTI_SUCCESS;
}

EXPORT CUptiResult cuptiActivityEnableRuntimeApi(CUpti_CallbackId callback, uint8_t enable) {
  (void)callback, (void)enable;
  return CUPTI_SUCCESS;
}

EXPORT CUptiResult cuptiActivityGetEnabledKinds(CUpti_SubscriberHandle subscriber,
                                                CUpti_ActivityKind* kinds, uint32_t* room,
                                                uint32_t* count) {
  (void)subscriber, (void)kinds, (void)room;
  if (cupti_double.version < 130000) return CUPTI_ERROR_NOT_SUPPORTED;
  *count = cupti_double.enabled_elsewhere + (uint32_t)__builtin_popcountll(cupti_double.enabled);
  return CUPTI_SUCCESS;
}

EXPORT CUptiResult cuptiGetCallbackName(CUpti_CallbackDomain domain, uint32_t callback,
                                        const char** name) {
  size_t i;

  for (i = 0; i < COUNT(runtime_calls) && domain == CUPTI_CB_DOMAIN_RUNTIME_API; ++i) {
    if (runtime_calls[i].number == callback) *name = runtime_calls[i].name;
    if (runtime_calls[i].number == callback) return CUPTI_SUCCESS;
  }
  for (i = 0; i < COUNT(driver_calls) && domain == CUPTI_CB_DOMAIN_DRIVER_API; ++i) {
    if (driver_calls[i].number == callback) *name = driver_calls[i].name;
    if (driver_calls[i].number == callback) return CUPTI_SUCCESS;
  }
  return CUPTI_ERROR_INVALID_PARAMETER;
}

EXPORT CUptiResult cuptiGetResultString(CUptiResult result, const char** text) {
  switch (result) {
    case CUPTI_ERROR_NOT_COMPATIBLE:
      *text = "CUPTI_ERROR_NOT_COMPATIBLE";
      break;
    case CUPTI_ERROR_INSUFFICIENT_PRIVILEGES:
      *text = "CUPTI_ERROR_INSUFFICIENT_PRIVILEGES";
      break;
    case CUPTI_ERROR_UNKNOWN:
      *text = "CUPTI_ERROR_UNKNOWN";
      break;
    default:
      return CUPTI_ERROR_INVALID_PARAMETER;
  }
  return CUPTI_SUCCESS;
}
