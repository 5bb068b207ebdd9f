#include "symbols/torch/cuda_functions.h"

#include "bpf/abi/records.h"

namespace proftrace {
namespace {

constexpr uint8_t kNoBytes = 0;
constexpr uint8_t kSecond = 1 + abi::PT_RSI;
constexpr uint8_t kThird = 1 + abi::PT_RDX;
constexpr uint8_t kFifth = 1 + abi::PT_R8;

struct KnownFunction {
  std::string_view name;  // without "cuda" or "cu", and without its version
  uint8_t bytes_argument;
};

// The functions of the CUDA Runtime API and the CUDA Driver API by the reference manuals 11.8 to
// 13.0, without those that Kineto leaves out too (which device, the last error, making and
// destroying events).
constexpr KnownFunction kRuntime[] = {
    {"LaunchKernel", kNoBytes},
    {"LaunchKernelExC", kNoBytes},
    {"LaunchCooperativeKernel", kNoBytes},
    {"LaunchCooperativeKernelMultiDevice", kNoBytes},
    {"LaunchHostFunc", kNoBytes},
    {"GraphLaunch", kNoBytes},
    {"GraphInstantiate", kNoBytes},
    {"GraphUpload", kNoBytes},
    {"StreamBeginCapture", kNoBytes},
    {"StreamEndCapture", kNoBytes},
    {"Memcpy", kThird},
    {"MemcpyAsync", kThird},
    {"MemcpyPeer", kFifth},
    {"MemcpyPeerAsync", kFifth},
    {"Memcpy2D", kNoBytes},
    {"Memcpy2DAsync", kNoBytes},
    {"Memcpy3D", kNoBytes},
    {"Memcpy3DAsync", kNoBytes},
    {"MemcpyToSymbol", kThird},
    {"MemcpyToSymbolAsync", kThird},
    {"MemcpyFromSymbol", kThird},
    {"MemcpyFromSymbolAsync", kThird},
    {"Memset", kThird},
    {"MemsetAsync", kThird},
    {"Memset2D", kNoBytes},
    {"Memset2DAsync", kNoBytes},
    {"MemPrefetchAsync", kSecond},
    {"DeviceSynchronize", kNoBytes},
    {"StreamSynchronize", kNoBytes},
    {"EventSynchronize", kNoBytes},
    {"StreamWaitEvent", kNoBytes},
    {"StreamQuery", kNoBytes},
    {"EventRecord", kNoBytes},
    {"EventRecordWithFlags", kNoBytes},
    {"EventQuery", kNoBytes},
    {"Malloc", kSecond},
    {"MallocAsync", kSecond},
    {"MallocFromPoolAsync", kSecond},
    {"MallocManaged", kSecond},
    {"MallocHost", kSecond},
    {"HostAlloc", kSecond},
    {"HostRegister", kSecond},
    {"HostUnregister", kNoBytes},
    {"Free", kNoBytes},
    {"FreeAsync", kNoBytes},
    {"FreeHost", kNoBytes},
};
constexpr KnownFunction kDriver[] = {
    {"LaunchKernel", kNoBytes},
    {"LaunchKernelEx", kNoBytes},
    {"LaunchCooperativeKernel", kNoBytes},
    {"LaunchHostFunc", kNoBytes},
    {"GraphLaunch", kNoBytes},
    {"Memcpy", kThird},
    {"MemcpyAsync", kThird},
    {"MemcpyPeer", kFifth},
    {"MemcpyPeerAsync", kFifth},
    {"MemcpyHtoD", kThird},
    {"MemcpyHtoDAsync", kThird},
    {"MemcpyDtoH", kThird},
    {"MemcpyDtoHAsync", kThird},
    {"MemcpyDtoD", kThird},
    {"MemcpyDtoDAsync", kThird},
    {"MemsetD8", kThird},
    {"MemsetD8Async", kThird},
    {"MemsetD16", kNoBytes},
    {"MemsetD16Async", kNoBytes},
    {"MemsetD32", kNoBytes},
    {"MemsetD32Async", kNoBytes},
    {"MemPrefetchAsync", kSecond},
    {"CtxSynchronize", kNoBytes},
    {"StreamSynchronize", kNoBytes},
    {"EventSynchronize", kNoBytes},
    {"StreamWaitEvent", kNoBytes},
    {"StreamQuery", kNoBytes},
    {"EventRecord", kNoBytes},
    {"EventQuery", kNoBytes},
    {"MemAlloc", kSecond},
    {"MemAllocAsync", kSecond},
    {"MemAllocFromPoolAsync", kSecond},
    {"MemAllocManaged", kSecond},
    {"MemAllocHost", kSecond},
    {"MemHostAlloc", kSecond},
    {"MemHostRegister", kSecond},
    {"MemCreate", kSecond},
    {"MemFree", kNoBytes},
    {"MemFreeAsync", kNoBytes},
    {"MemFreeHost", kNoBytes},
};

bool ConsumeEnd(std::string_view* text, std::string_view end) {
  if (!text->ends_with(end)) return false;
  text->remove_suffix(end.size());
  return true;
}

// Returns the name without "_v2" and similar suffixes, and without those of the forms for a default
// stream of each thread.
std::string_view WithoutVersion(std::string_view name) {
  if (!ConsumeEnd(&name, "_ptsz")) ConsumeEnd(&name, "_ptds");
  const size_t size = name.size();
  const bool has_version = size > 3 && name.substr(size - 3, 2) == "_v" && name[size - 1] >= '2' &&
                           name[size - 1] <= '9';
  if (has_version) name.remove_suffix(3);
  return name;
}

template <size_t kCount>
CudaFunction FindIn(const KnownFunction (&functions)[kCount], std::string_view name, CudaApi api) {
  for (const KnownFunction& function : functions) {
    if (function.name == name) return {api, function.bytes_argument};
  }
  return {};
}

}  // namespace

CudaFunction FindCudaFunction(std::string_view symbol) {
  if (!symbol.starts_with("cu")) return {};
  const bool is_runtime = symbol.starts_with("cuda");
  const std::string_view name = WithoutVersion(symbol.substr(is_runtime ? 4 : 2));
  return is_runtime ? FindIn(kRuntime, name, CudaApi::kRuntime)
                    : FindIn(kDriver, name, CudaApi::kDriver);
}

bool IsCudaLaunch(std::string_view symbol) {
  return symbol == "cudaLaunchKernel" || symbol == "cuLaunchKernel";
}

}  // namespace proftrace
