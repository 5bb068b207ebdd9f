#pragma once

#include <stddef.h>

namespace proftrace::agent {

constexpr size_t kPathBytes = 1024;

// Libraries that this process has mapped; an empty text where there is none.
struct MappedLibraries {
  char driver[kPathBytes];   // libcuda.so*
  char runtime[kPathBytes];  // libcudart*.so*
  char cupti[kPathBytes];    // libcupti.so*; rather not the copy that Triton brings
  char torch[kPathBytes];    // libtorch_cpu.so, or another of the folder
};

// Finds them in the text of /proc/PID/maps (`length` bytes).
void FindLibraries(const char* maps, size_t length, MappedLibraries* found);
// Finds those of this process. False when its map cannot be read.
bool FindLibraries(MappedLibraries* found);

}  // namespace proftrace::agent
