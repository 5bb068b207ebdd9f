/*
 * A stand-in for the CUDA Driver (libcuda.so.1): memory is the host's, copies are made at once,
 * kernels do nothing. The functions have the driver's own names and arguments, as far as tests call
 * them.
 */
#include <dlfcn.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/support/cuda_double/listener.h"

typedef int
    result; /* CUresult; 0 = CUDA_SUCCESS, 1 = CUDA_ERROR_INVALID_VALUE, 2 = out of memory */

static const struct cuda_double_listener* the_listener;
static unsigned next_correlation = 1;
static int is_initialized;
static __thread unsigned correlation; /* of the outermost call that this thread is in; 0 = none */

void cuda_double_listen(const struct cuda_double_listener* listener) {
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

  (void)stream, (void)parameters, (void)extra;
  cuda_double_begin(&call, "cuLaunchKernel", 1);
  if (!function || !grid_x || !block_x) return cuda_double_end(&call, 1);
  call.event.address = (uint64_t)(uintptr_t)function;
  call.event.grid[0] = grid_x, call.event.grid[1] = grid_y, call.event.grid[2] = grid_z;
  call.event.block[0] = block_x, call.event.block[1] = block_y, call.event.block[2] = block_z;
  call.event.shared_bytes = shared_bytes;
  cuda_double_work(&call, CUDA_DOUBLE_KERNEL);
  return cuda_double_end(&call, 0);
}

result cuMemcpyHtoDAsync_v2(void* to, const void* from, size_t bytes, void* stream) {
  struct cuda_double_call call;

  (void)stream;
  cuda_double_begin(&call, "cuMemcpyHtoDAsync_v2", 1);
  if (!to || !from) return cuda_double_end(&call, 1);
  memcpy(to, from, bytes);
  call.event.bytes = bytes;
  cuda_double_work(&call, CUDA_DOUBLE_MEMCPY);
  return cuda_double_end(&call, 0);
}

result cuMemsetD8Async(void* address, unsigned char value, size_t bytes, void* stream) {
  struct cuda_double_call call;

  (void)stream;
  cuda_double_begin(&call, "cuMemsetD8Async", 1);
  memset(address, value, bytes);
  call.event.bytes = bytes;
  call.event.value = value;
  cuda_double_work(&call, CUDA_DOUBLE_MEMSET);
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
  int waited;

  (void)stream;
  cuda_double_begin(&call, "cuStreamSynchronize", 1);
  waited = usleep(2000);
  cuda_double_work(&call, CUDA_DOUBLE_SYNCHRONIZE);
  return cuda_double_end(&call, waited ? 1 : 0);
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

  if (getenv("CUDA_DOUBLE_LAZY") && !__atomic_load_n(&is_initialized, __ATOMIC_ACQUIRE)) return 3;
  *count = devices ? atoi(devices) : 1;
  return 0;
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
