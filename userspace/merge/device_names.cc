#include "userspace/merge/device_names.h"

#include <algorithm>
#include <array>
#include <iterator>

#include "userspace/base/demangle.h"

namespace proftrace {
namespace {

// The first suffix with a version of CUDA was _v3020. Suffixes with fewer digits are generations of
// a function.
constexpr size_t kLeastVersionDigits = 4;

bool ConsumeEnd(std::string_view* text, std::string_view end) {
  if (!text->ends_with(end)) return false;
  text->remove_suffix(end.size());
  return true;
}

// Removes "_v2" and the like, and the suffixes of functions that use a default stream for each
// thread.
std::string_view WithoutGeneration(std::string_view name) {
  if (!ConsumeEnd(&name, "_ptsz")) ConsumeEnd(&name, "_ptds");
  const size_t size = name.size();
  if (size > 3 && name.substr(size - 3, 2) == "_v" && name[size - 1] >= '2' &&
      name[size - 1] <= '9') {
    name.remove_suffix(3);
  }
  return name;
}

template <typename Names>
bool Contains(const Names& names, std::string_view name) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

template <size_t kCount>
std::string_view At(const std::array<std::string_view, kCount>& names, uint32_t index,
                    std::string_view other) {
  return index < kCount ? names[index] : other;
}

// CUpti_ActivityMemcpyKind.
std::string_view CopyName(uint8_t kind) {
  static constexpr std::array<std::string_view, 11> kNames = {
      "<unknown>", "HtoD", "DtoH", "HtoA", "AtoH", "AtoA", "AtoD", "DtoA", "DtoD", "HtoH", "PtoP"};
  return At(kNames, kind, "<unknown>");
}

// CUpti_ActivityMemoryKind.
std::string_view MemoryName(uint8_t kind) {
  static constexpr std::array<std::string_view, 8> kNames = {
      "Unknown", "Pageable", "Pinned",        "Device",
      "Array",   "Managed",  "Device Static", "Managed Static"};
  return At(kNames, kind, "Unrecognized");
}

// CUpti_ActivitySynchronizationType.
std::string_view SyncName(uint32_t type) {
  static constexpr std::array<std::string_view, 5> kNames = {
      "Unknown Sync", "Event Sync", "Stream Wait Event", "Stream Sync", "Context Sync"};
  return At(kNames, type, "Unknown Sync");
}

// CUpti_ActivityOverheadKind: its numbers are far apart.
std::string_view OverheadName(uint32_t kind) {
  switch (kind) {
    case 0:
      return "Unknown";
    case 1:
      return "Driver Compiler";
    case 1u << 16:
      return "Buffer Flush";
    case 2u << 16:
      return "Instrumentation";
    case 3u << 16:
      return "Resource";
    case 4u << 16:
      return "Runtime Triggered Module Loading";
    case 5u << 16:
      return "Lazy Function Loading";
    case 6u << 16:
      return "Command Buffer Full";
    case 7u << 16:
      return "Activity Buffer Request";
    case 8u << 16:
      return "UVM Activity Init";
    default:
      return "Unrecognized";
  }
}

// CUpti_ActivityMemoryOperationType.
std::string_view MemoryOperationName(uint32_t operation) {
  static constexpr std::array<std::string_view, 3> kNames = {"Unknown", "Allocation", "Release"};
  return At(kNames, operation, "Unknown");
}

// CUpti_ActivityMemoryPoolOperationType.
std::string_view PoolOperationName(uint32_t operation) {
  static constexpr std::array<std::string_view, 4> kNames = {"Unknown", "Created", "Destroyed",
                                                             "Trimmed"};
  return At(kNames, operation, "Unknown");
}

}  // namespace

std::string_view CallName(std::string_view cupti_name) {
  const size_t v = cupti_name.find_last_not_of("0123456789");
  const bool has_version = v != std::string_view::npos && v >= 1 && cupti_name[v] == 'v' &&
                           cupti_name[v - 1] == '_' &&
                           cupti_name.size() - v - 1 >= kLeastVersionDigits;
  return has_version ? cupti_name.substr(0, v - 1) : cupti_name;
}

bool IsShownCall(std::string_view name, bool is_driver) {
  static constexpr std::string_view kHiddenRuntime[] = {"cudaGetDevice",
                                                        "cudaSetDevice",
                                                        "cudaGetLastError",
                                                        "cudaEventCreate",
                                                        "cudaEventCreateWithFlags",
                                                        "cudaEventDestroy"};
  static constexpr std::string_view kDriver[] = {"cuMemCreate",
                                                 "cuMemMap",
                                                 "cuMemUnmap",
                                                 "cuMemRelease",
                                                 "cuMemExportToShareableHandle",
                                                 "cuMemImportFromShareableHandle",
                                                 "cuCtxSynchronize",
                                                 "cuStreamSynchronize",
                                                 "cuEventSynchronize",
                                                 "cuStreamWaitEvent",
                                                 "cuStreamQuery",
                                                 "cuEventRecord",
                                                 "cuEventQuery",
                                                 "cuMemHostAlloc",
                                                 "cuMemHostRegister"};
  static constexpr std::string_view kDriverBeginnings[] = {
      "cuLaunch",      "cuGraphLaunch", "cuMemcpy", "cuMemset",
      "cuMemPrefetch", "cuMemAlloc",    "cuMemFree"};
  if (!is_driver) return !Contains(kHiddenRuntime, WithoutGeneration(name));
  return Contains(kDriver, WithoutGeneration(name)) ||
         std::any_of(std::begin(kDriverBeginnings), std::end(kDriverBeginnings),
                     [name](std::string_view beginning) { return name.starts_with(beginning); });
}

std::string DeviceActivityName(const DeviceActivity& activity, const std::string& text) {
  switch (activity.kind) {
    case DeviceActivityKind::kKernel:
      if (text.empty()) return "<unknown kernel>";
      return Demangle(text).value_or(text);
    case DeviceActivityKind::kMemcpy:
      return "Memcpy " + std::string(CopyName(activity.copy_kind)) + " (" +
             std::string(MemoryName(activity.source_kind)) + " -> " +
             std::string(MemoryName(activity.destination_kind)) + ")";
    case DeviceActivityKind::kMemset:
      return "Memset (" + std::string(MemoryName(activity.source_kind)) + ")";
    case DeviceActivityKind::kGraph:
      return "CUDA Graph";
    case DeviceActivityKind::kSync:
      return std::string(SyncName(activity.code));
    case DeviceActivityKind::kEvent:
      return "cudaEvent";
    case DeviceActivityKind::kOverhead:
      return std::string(OverheadName(activity.code));
    case DeviceActivityKind::kMemory:
      return "Memory " + std::string(MemoryOperationName(activity.code)) + " (" +
             std::string(MemoryName(activity.source_kind)) + ")";
    case DeviceActivityKind::kPool:
      return "Memory Pool " + std::string(PoolOperationName(activity.code));
    case DeviceActivityKind::kMarker:
      return text.empty() ? "<unknown marker>" : text;
  }
  return "unknown";
}

}  // namespace proftrace
