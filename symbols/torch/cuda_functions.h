// Knows the functions of the CUDA Runtime (libcudart) and the CUDA Driver (libcuda) that give work
// to a device, wait for it, or allocate its memory: the rows that Kineto calls cuda_runtime and
// cuda_driver, seen from outside.
#pragma once

#include <cstdint>
#include <string_view>

namespace proftrace {

enum class CudaApi : uint8_t { kNone, kRuntime, kDriver };

struct CudaFunction {
  CudaApi api = CudaApi::kNone;
  // 1 + enum pt_register of the argument that says how many bytes are copied, set or allocated; 0 =
  // no argument does.
  uint8_t bytes_argument = 0;
};

// Classifies an exported symbol: "cudaMemcpyAsync", "cuMemcpyHtoDAsync_v2",
// "cudaLaunchKernel_ptsz".
CudaFunction FindCudaFunction(std::string_view symbol);

// Whether the symbol is the launch of a kernel. A file that defines it gets rows for all functions
// that FindCudaFunction() knows.
bool IsCudaLaunch(std::string_view symbol);

}  // namespace proftrace
