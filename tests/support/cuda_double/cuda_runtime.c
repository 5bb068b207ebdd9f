/*
 * A stand-in for the CUDA Runtime (libcudart): like the real one it loads the driver when it is
 * first needed, and does everything through it.
 */
#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

#include "tests/support/cuda_double/listener.h"

typedef int result; /* cudaError_t; 0 = cudaSuccess, 1 = cudaErrorInvalidValue, 35 = no driver */

struct dim3 {
  unsigned x, y, z;
};

static void* driver_function(const char* name) {
  static void* driver;

  if (!driver) driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
  return driver ? dlsym(driver, name) : NULL;
}

/* The listener is the driver's. */
static void begin(struct cuda_double_call* call, const char* name) {
  void (*begin_call)(struct cuda_double_call*, const char*, int) =
      driver_function("cuda_double_begin");

  memset(call, 0, sizeof(*call));
  if (begin_call) begin_call(call, name, 0);
}

static result end(struct cuda_double_call* call, result end_result) {
  int (*end_call)(struct cuda_double_call*, int) = driver_function("cuda_double_end");

  return end_call ? end_call(call, end_result) : end_result;
}

result cudaLaunchKernel(const void* function, struct dim3 grid, struct dim3 block, void** arguments,
                        size_t shared_bytes, void* stream) {
  result (*launch)(const void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                   unsigned, void*, void**, void**) = driver_function("cuLaunchKernel");
  struct cuda_double_call call;

  if (!launch) return 35;
  begin(&call, "cudaLaunchKernel");
  return end(&call, launch(function, grid.x, grid.y, grid.z, block.x, block.y, block.z,
                           (unsigned)shared_bytes, stream, arguments, NULL));
}

result cudaGraphLaunch(void* graph, void* stream) {
  result (*launch)(void*, void*) = driver_function("cuGraphLaunch");
  struct cuda_double_call call;

  if (!launch) return 35;
  begin(&call, "cudaGraphLaunch");
  return end(&call, launch(graph, stream));
}

result cudaMemcpyAsync(void* to, const void* from, size_t bytes, int kind, void* stream) {
  static const char* const copies[] = {"cuMemcpyHtoDAsync_v2", "cuMemcpyDtoHAsync_v2",
                                       "cuMemcpyDtoDAsync_v2"};
  const int is_known = kind >= 1 && kind <= 3;
  result (*copy)(void*, const void*, size_t, void*) =
      driver_function(copies[is_known ? kind - 1 : 0]);
  struct cuda_double_call call;

  if (!is_known || !copy) return copy ? 1 : 35;
  begin(&call, "cudaMemcpyAsync");
  return end(&call, copy(to, from, bytes, stream));
}

result cudaMemsetAsync(void* address, int value, size_t bytes, void* stream) {
  result (*set)(void*, unsigned char, size_t, void*) = driver_function("cuMemsetD8Async");
  struct cuda_double_call call;

  if (!address || !set) return set ? 1 : 35;
  begin(&call, "cudaMemsetAsync");
  return end(&call, set(address, (unsigned char)value, bytes, stream));
}

result cudaMalloc(void** address, size_t bytes) {
  result (*allocate)(void**, size_t) = driver_function("cuMemAlloc_v2");
  struct cuda_double_call call;

  if (!allocate) return 35;
  begin(&call, "cudaMalloc");
  return end(&call, allocate(address, bytes));
}

result cudaFree(void* address) {
  result (*release)(void*) = driver_function("cuMemFree_v2");
  struct cuda_double_call call;

  if (!release) return 35;
  begin(&call, "cudaFree");
  return end(&call, release(address));
}

result cudaStreamSynchronize(void* stream) {
  result (*wait)(void*) = driver_function("cuStreamSynchronize");
  struct cuda_double_call call;

  if (!wait) return 35;
  begin(&call, "cudaStreamSynchronize");
  return end(&call, wait(stream));
}

result cudaGetDevice(int* device) {
  result (*get)(int*) = driver_function("cuCtxGetDevice");

  return get ? get(device) : 35;
}

result cudaRuntimeGetVersion(int* version) {
  *version = 12090;
  return 0;
}
