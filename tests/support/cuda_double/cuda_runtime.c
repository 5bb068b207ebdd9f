/*
 * A stand-in for the CUDA Runtime (libcudart): like the real one it loads the driver when it is
 * first needed, and does everything through it.
 */
#include <dlfcn.h>
#include <stddef.h>
#include <string.h>

typedef int result; /* cudaError_t; 0 = cudaSuccess, 1 = cudaErrorInvalidValue, 35 = no driver */

struct dim3 {
  unsigned x, y, z;
};

static void* driver_function(const char* name) {
  static void* driver;

  if (!driver) driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_GLOBAL);
  return driver ? dlsym(driver, name) : NULL;
}

result cudaLaunchKernel(const void* function, struct dim3 grid, struct dim3 block, void** arguments,
                        size_t shared_bytes, void* stream) {
  result (*launch)(const void*, unsigned, unsigned, unsigned, unsigned, unsigned, unsigned,
                   unsigned, void*, void**, void**) = driver_function("cuLaunchKernel");

  if (!launch) return 35;
  return launch(function, grid.x, grid.y, grid.z, block.x, block.y, block.z, (unsigned)shared_bytes,
                stream, arguments, NULL);
}

result cudaMemcpyAsync(void* to, const void* from, size_t bytes, int kind, void* stream) {
  result (*copy)(void*, const void*, size_t, void*) = driver_function("cuMemcpyHtoDAsync_v2");

  if (kind != 1 || !copy) return copy ? 1 : 35;
  return copy(to, from, bytes, stream);
}

result cudaMemsetAsync(void* address, int value, size_t bytes, void* stream) {
  (void)stream;
  if (!address) return 1;
  memset(address, value, bytes);
  return 0;
}

result cudaMalloc(void** address, size_t bytes) {
  result (*allocate)(void**, size_t) = driver_function("cuMemAlloc_v2");

  return allocate ? allocate(address, bytes) : 35;
}

result cudaFree(void* address) {
  result (*release)(void*) = driver_function("cuMemFree_v2");

  return release ? release(address) : 35;
}

result cudaStreamSynchronize(void* stream) {
  result (*wait)(void*) = driver_function("cuStreamSynchronize");

  return wait ? wait(stream) : 35;
}

result cudaGetDevice(int* device) {
  result (*get)(int*) = driver_function("cuCtxGetDevice");

  return get ? get(device) : 35;
}
