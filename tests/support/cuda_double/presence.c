/*
 * What torch asks before it lets its profiler record CUDA, preloaded in the place of the Runtime's
 * own functions: there is one device. torch then records what is done with the stand-ins for CUDA
 * and CUPTI, on a machine without a GPU.
 */
#include <string.h>

#define PROPERTIES_BYTES 640 /* as far as torch looks: any version's cudaDeviceProp is longer */
/* multiProcessorCount, from CUDA 13 on and before, and how many the stand-in for CUPTI has. */
#define MULTIPROCESSORS_AT 384
#define OLD_MULTIPROCESSORS_AT 388
#define MULTIPROCESSORS 132

int cudaGetDeviceCount(int* count) {
  *count = 1;
  return 0;
}

int cudaGetDeviceProperties(char* properties, int device) {
  const int multiprocessors = MULTIPROCESSORS;

  (void)device;
  memset(properties, 0, PROPERTIES_BYTES);
  strcpy(properties, "Double");
  memcpy(properties + MULTIPROCESSORS_AT, &multiprocessors, sizeof(multiprocessors));
  memcpy(properties + OLD_MULTIPROCESSORS_AT, &multiprocessors, sizeof(multiprocessors));
  return 0;
}

int cudaDeviceSynchronize(void) { return 0; }
