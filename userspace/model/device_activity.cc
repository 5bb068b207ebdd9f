#include "userspace/model/device_activity.h"

namespace proftrace {

std::string_view DeviceCategoryName(DeviceActivityKind kind) {
  switch (kind) {
    case DeviceActivityKind::kKernel:
    case DeviceActivityKind::kGraph:  // shown as one piece of work, without its parts
      return "kernel";
    case DeviceActivityKind::kMemcpy:
      return "gpu_memcpy";
    case DeviceActivityKind::kMemset:
      return "gpu_memset";
    case DeviceActivityKind::kSync:
      return "cuda_sync";
    case DeviceActivityKind::kEvent:
      return "cuda_event";
    case DeviceActivityKind::kOverhead:
      return "overhead";
    case DeviceActivityKind::kMemory:
      return "gpu_memory";
    case DeviceActivityKind::kPool:
      return "gpu_memory_pool";
    case DeviceActivityKind::kMarker:
      return "nvtx";
  }
  return "unknown";
}

}  // namespace proftrace
