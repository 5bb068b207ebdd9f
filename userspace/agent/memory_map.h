#pragma once

#include <stddef.h>

namespace proftrace::agent {

constexpr size_t kPathBytes = 1024;

// Paths of the libraries that this process has mapped; an empty text stands for none.
struct MappedLibraries {
  char driver[kPathBytes];   // libcuda.so*
  char runtime[kPathBytes];  // libcudart*.so*
  char cupti[kPathBytes];    // libcupti.so*; Triton's own copy only if there is no other
  char torch[kPathBytes];    // libtorch_cpu.so, or another library of its folder
};

// Finds the libraries in the text of /proc/PID/maps (`length` bytes).
void FindLibraries(const char* maps, size_t length, MappedLibraries* found);
// Finds the libraries of this process. Returns false if its map cannot be read.
bool FindLibraries(MappedLibraries* found);

}  // namespace proftrace::agent
