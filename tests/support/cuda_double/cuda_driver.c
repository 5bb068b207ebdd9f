/*
 * A stand-in for the CUDA Driver (libcuda.so.1): memory is the host's, copies are made at once,
 * kernels do nothing. The functions have the driver's own names and arguments, as far as tests call
 * them.
 *
 * With CUDA_DOUBLE_KERNEL_NS=N set there is a device, as far as time goes: a kernel takes N ns for
 * each of its grid's columns, a copy or a memset for each KiB, in order on its stream, and who
 * waits for the stream waits for that. A stream has a queue of QUEUED pieces of work, as on a GPU:
 * who launches one more waits until the first of them is done.
 */
#include <dlfcn.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tests/support/cuda_double/listener.h"

typedef int
    result; /* CUresult; 0 = CUDA_SUCCESS, 1 = CUDA_ERROR_INVALID_VALUE, 2 = out of memory */

static const struct cuda_double_listener* the_listener;
static unsigned next_correlation = 1;
static int is_initialized;
static __thread unsigned correlation; /* of the outermost call that this thread is in; 0 = none */

#define KIB 1024
#define STREAMS 64
#define QUEUED 1024
#define DEFAULT_WAIT_US 2000
#define LOOK_NS 2000000
static pthread_mutex_t device_lock = PTHREAD_MUTEX_INITIALIZER;
static uint64_t free_at[STREAMS]; /* CLOCK_MONOTONIC: when what each stream has is done */
static uint64_t done_at[STREAMS]
                       [QUEUED]; /* of each stream's last pieces of work, by their number */
static unsigned taken[STREAMS];  /* how many pieces of work each stream was given */
static double ticks_a_ns = 1;    /* of the listener's clock, which need not count ns */

static uint64_t monotonic_ns(void) {
  struct timespec now;

  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static uint64_t column_ns(void) {
  const char* wanted = getenv("CUDA_DOUBLE_KERNEL_NS");

  return wanted ? strtoull(wanted, NULL, 10) : 0;
}

/* How fast the listener's clock runs. */
static void look_at_clock(const struct cuda_double_listener* listener) {
  const uint64_t ns = monotonic_ns(), ticks = listener->now();

  while (monotonic_ns() - ns < LOOK_NS) {
  }
  ticks_a_ns = (double)(listener->now() - ticks) / (double)(monotonic_ns() - ns);
}

static void sleep_until(uint64_t until_ns) {
  struct timespec until;

  until.tv_sec = (time_t)(until_ns / 1000000000);
  until.tv_nsec = (long)(until_ns % 1000000000);
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &until, NULL)) {
  }
}

/* The stream's next piece of work takes so long; gives when it begins. Waits for a place in the
 * stream's queue. */
static uint64_t take_device(unsigned stream, uint64_t duration_ns) {
  const unsigned at = stream % STREAMS;
  uint64_t start_ns = monotonic_ns(), first_ns;

  pthread_mutex_lock(&device_lock);
  first_ns = done_at[at][taken[at] % QUEUED];
  if (free_at[at] > start_ns) start_ns = free_at[at];
  free_at[at] = done_at[at][taken[at]++ % QUEUED] = start_ns + duration_ns;
  pthread_mutex_unlock(&device_lock);
  sleep_until(first_ns);
  return start_ns;
}

static void await_stream(unsigned stream) {
  uint64_t until_ns;

  pthread_mutex_lock(&device_lock);
  until_ns = free_at[stream % STREAMS];
  pthread_mutex_unlock(&device_lock);
  if (!column_ns() || !until_ns) {
    usleep(DEFAULT_WAIT_US);
    return;
  }
  sleep_until(until_ns);
}

void cuda_double_listen(const struct cuda_double_listener* listener) {
  if (listener && column_ns() && __atomic_load_n(&the_listener, __ATOMIC_ACQUIRE) != listener) {
    look_at_clock(listener);
  }
  __atomic_store_n(&the_listener, listener, __ATOMIC_RELEASE);
}

void cuda_double_set_correlation(unsigned next) {
  __atomic_store_n(&next_correlation, next, __ATOMIC_RELAXED);
}

void cuda_double_begin(struct cuda_double_call* call, const char* name, int is_driver) {
  const struct cuda_double_listener* listener = __atomic_load_n(&the_listener, __ATOMIC_ACQUIRE);

  memset(call, 0, sizeof(*call));
  if (!listener) return;
  call->is_outermost = !correlation;
  if (!correlation) correlation = __atomic_fetch_add(&next_correlation, 1, __ATOMIC_RELAXED);
  call->event.correlation = correlation;
  call->event.name = name;
  call->event.is_driver = is_driver;
  call->event.start = listener->now();
}

void cuda_double_work(struct cuda_double_call* call, enum cuda_double_what what) {
  const struct cuda_double_listener* listener = __atomic_load_n(&the_listener, __ATOMIC_ACQUIRE);

  if (!listener || !call->event.correlation) return;
  call->event.what = what;
  call->event.end = listener->now();
  listener->hear(&call->event);
}

/* A piece of work: on the device, when there is time on it. */
static void run(const struct cuda_double_call* call, enum cuda_double_what what, uint64_t amount) {
  const struct cuda_double_listener* listener = __atomic_load_n(&the_listener, __ATOMIC_ACQUIRE);
  const uint64_t duration_ns = column_ns() * amount;
  struct cuda_double_call work = *call;
  uint64_t start_ns;

  if (!duration_ns) {
    cuda_double_work(&work, what);
    return;
  }
  start_ns = take_device(call->event.stream, duration_ns);
  if (!listener || !call->event.correlation) return;
  work.event.what = what;
  work.event.start = listener->now() +
                     (uint64_t)(int64_t)((double)(int64_t)(start_ns - monotonic_ns()) * ticks_a_ns);
  work.event.end = work.event.start + (uint64_t)((double)duration_ns * ticks_a_ns);
  listener->hear(&work.event);
}

int cuda_double_end(struct cuda_double_call* call, int end_result) {
  if (!call->is_outermost) return end_result;
  call->event.result = end_result;
  cuda_double_work(call, CUDA_DOUBLE_CALL);
  correlation = 0;
  return end_result;
}

result cuLaunchKernel(void* function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                      unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                      void* stream, void** parameters, void** extra) {
  struct cuda_double_call call;

  (void)parameters, (void)extra;
  cuda_double_begin(&call, "cuLaunchKernel", 1);
  if (!function || !grid_x || !block_x) return cuda_double_end(&call, 1);
  call.event.address = (uint64_t)(uintptr_t)function;
  call.event.grid[0] = grid_x, call.event.grid[1] = grid_y, call.event.grid[2] = grid_z;
  call.event.block[0] = block_x, call.event.block[1] = block_y, call.event.block[2] = block_z;
  call.event.shared_bytes = shared_bytes;
  call.event.stream = (unsigned)(uintptr_t)stream;
  run(&call, CUDA_DOUBLE_KERNEL, call.event.grid[0]);
  return cuda_double_end(&call, 0);
}

result cuGraphLaunch(const struct cuda_double_graph* graph, void* stream) {
  struct cuda_double_call call;
  unsigned node;

  cuda_double_begin(&call, "cuGraphLaunch", 1);
  if (!graph) return cuda_double_end(&call, 1);
  call.event.address = (uint64_t)(uintptr_t)graph->name;
  call.event.stream = (unsigned)(uintptr_t)stream;
  call.event.graph = graph->id;
  for (node = 0; node < 3; ++node) call.event.grid[node] = call.event.block[node] = 1;
  for (node = 0; node < graph->kernels; ++node) {
    call.event.graph_node = (uint64_t)graph->id << 32 | node;
    run(&call, CUDA_DOUBLE_KERNEL, call.event.grid[0]);
  }
  return cuda_double_end(&call, 0);
}

static result copy_memory(const char* name, void* to, const void* from, size_t bytes, void* stream,
                          int kind) {
  struct cuda_double_call call;

  cuda_double_begin(&call, name, 1);
  if (!to || !from) return cuda_double_end(&call, 1);
  memcpy(to, from, bytes);
  call.event.bytes = bytes;
  call.event.stream = (unsigned)(uintptr_t)stream;
  call.event.copy_kind = kind;
  run(&call, CUDA_DOUBLE_MEMCPY, bytes / KIB);
  return cuda_double_end(&call, 0);
}

result cuMemcpyHtoDAsync_v2(void* to, const void* from, size_t bytes, void* stream) {
  return copy_memory("cuMemcpyHtoDAsync_v2", to, from, bytes, stream, 1);
}

result cuMemcpyDtoHAsync_v2(void* to, const void* from, size_t bytes, void* stream) {
  return copy_memory("cuMemcpyDtoHAsync_v2", to, from, bytes, stream, 2);
}

result cuMemcpyDtoDAsync_v2(void* to, const void* from, size_t bytes, void* stream) {
  return copy_memory("cuMemcpyDtoDAsync_v2", to, from, bytes, stream, 3);
}

result cuMemsetD8Async(void* address, unsigned char value, size_t bytes, void* stream) {
  struct cuda_double_call call;

  cuda_double_begin(&call, "cuMemsetD8Async", 1);
  memset(address, value, bytes);
  call.event.stream = (unsigned)(uintptr_t)stream;
  call.event.bytes = bytes;
  call.event.value = value;
  run(&call, CUDA_DOUBLE_MEMSET, bytes / KIB);
  return cuda_double_end(&call, 0);
}

result cuMemAlloc_v2(void** address, size_t bytes) {
  struct cuda_double_call call;

  cuda_double_begin(&call, "cuMemAlloc_v2", 1);
  *address = malloc(bytes);
  call.event.address = (uint64_t)(uintptr_t)*address;
  call.event.bytes = bytes;
  if (*address) cuda_double_work(&call, CUDA_DOUBLE_ALLOCATE);
  return cuda_double_end(&call, *address ? 0 : 2);
}

result cuMemFree_v2(void* address) {
  struct cuda_double_call call;

  cuda_double_begin(&call, "cuMemFree_v2", 1);
  call.event.address = (uint64_t)(uintptr_t)address;
  free(address);
  cuda_double_work(&call, CUDA_DOUBLE_FREE);
  return cuda_double_end(&call, 0);
}

/* What a test waits for. */
result cuStreamSynchronize(void* stream) {
  struct cuda_double_call call;

  cuda_double_begin(&call, "cuStreamSynchronize", 1);
  call.event.stream = (unsigned)(uintptr_t)stream;
  await_stream(call.event.stream);
  cuda_double_work(&call, CUDA_DOUBLE_SYNCHRONIZE);
  return cuda_double_end(&call, 0);
}

result cuCtxGetDevice(int* device) {
  *device = 0;
  return 0;
}

/* With CUDA_DOUBLE_LAZY set, nothing works until this was called; else it always has been. */
result cuInit(unsigned flags) {
  const char* injected = getenv("CUDA_INJECTION64_PATH");
  void* library = injected && !is_initialized ? dlopen(injected, RTLD_NOW | RTLD_LOCAL) : NULL;
  int (*initialize)(void) = library ? (int (*)(void))dlsym(library, "InitializeInjection") : NULL;

  if (initialize && initialize() != 1) return 1;
  __atomic_store_n(&is_initialized, 1, __ATOMIC_RELEASE);
  return flags ? 1 : 0;
}

/* CUDA_DOUBLE_DEVICES: how many there are, 1 else. */
result cuDeviceGetCount(int* count) {
  const char* devices = getenv("CUDA_DOUBLE_DEVICES");
  struct cuda_double_call call;

  cuda_double_begin(&call, "cuDeviceGetCount", 1);
  if (getenv("CUDA_DOUBLE_LAZY") && !__atomic_load_n(&is_initialized, __ATOMIC_ACQUIRE)) {
    return cuda_double_end(&call, 3);
  }
  *count = devices ? atoi(devices) : 1;
  return cuda_double_end(&call, 0);
}

result cuDeviceGetAttribute(int* value, int attribute, int device) {
  if (attribute != 97 || device != 0) return 1;
  *value = 101376;
  return 0;
}

/* CUDA_DOUBLE_VERSION, 12090 else. */
result cuDriverGetVersion(int* version) {
  const char* wanted = getenv("CUDA_DOUBLE_VERSION");

  *version = wanted ? atoi(wanted) : 12090;
  return 0;
}
