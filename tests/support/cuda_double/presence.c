/*
 * What torch asks before it lets its profiler record CUDA, preloaded in the place of the Runtime's
 * own functions: there is one device. torch then records what is done with the stand-ins for CUDA
 * and CUPTI, on a machine without a GPU.
 */
#include <string.h>

#define PROPERTIES_BYTES 640 /* as far as torch looks: any version's cudaDeviceProp is longer */

int cudaGetDeviceCount(int* count) {
  *count = 1;
  return 0;
}

int cudaGetDeviceProperties(char* properties, int device) {
  (void)device;
  memset(properties, 0, PROPERTIES_BYTES);
  strcpy(properties, "Double");
  return 0;
}

int cudaDeviceSynchronize(void) { return 0; }
