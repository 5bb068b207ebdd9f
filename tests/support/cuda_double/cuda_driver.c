/*
 * A stand-in for the CUDA Driver (libcuda.so.1): memory is the host's, copies are made at once,
 * kernels do nothing. The functions have the driver's own names and arguments, as far as tests call
 * them.
 */
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef int
    result; /* CUresult; 0 = CUDA_SUCCESS, 1 = CUDA_ERROR_INVALID_VALUE, 2 = out of memory */

result cuLaunchKernel(void* function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                      unsigned block_x, unsigned block_y, unsigned block_z, unsigned shared_bytes,
                      void* stream, void** parameters, void** extra) {
  (void)grid_y, (void)grid_z, (void)block_y, (void)block_z, (void)shared_bytes, (void)stream,
      (void)parameters, (void)extra;
  return function && grid_x && block_x ? 0 : 1;
}

result cuMemcpyHtoDAsync_v2(void* to, const void* from, size_t bytes, void* stream) {
  (void)stream;
  if (!to || !from) return 1;
  memcpy(to, from, bytes);
  return 0;
}

result cuMemAlloc_v2(void** address, size_t bytes) {
  *address = malloc(bytes);
  return *address ? 0 : 2;
}

result cuMemFree_v2(void* address) {
  free(address);
  return 0;
}

/* What a test waits for. */
result cuStreamSynchronize(void* stream) {
  (void)stream;
  return usleep(2000) ? 1 : 0;
}

result cuCtxGetDevice(int* device) {
  *device = 0;
  return 0;
}
