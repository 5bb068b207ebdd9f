#include "userspace/agent/activity_records.h"

namespace proftrace::agent {
namespace {

struct Row {
  uint32_t kind;
  uint32_t version;  // CUPTI's first version with this size
  uint16_t bytes;
};

// The sizes of each kind's record by CUPTI's version, ascending. cupti.h tells which version is
// which.
constexpr Row kRows[] = {
    {kActivityConcurrentKernel, 15, 168},
    {kActivityConcurrentKernel, 17, 176},                   // 11.6: channel
    {kActivityConcurrentKernel, 18, 200},                   // 11.8: cluster
    {kActivityConcurrentKernel, kNewestKnownVersion, 224},  // priority; 13.1 to 13.4 tell theirs
    {kActivityMemcpy, 15, 80},
    {kActivityMemcpy2, 15, 88},
    {kActivityMemset, 15, 80},
    {kActivitySynchronization, 15, 40},
    {kActivitySynchronization, 26, 56},  // 12.8: result
    {kActivityDriver, 15, 40},
    {kActivityRuntime, 15, 40},
    {kActivityExternalCorrelation, 15, 24},
    {kActivityMarker, 15, 56},
    {kActivityOverhead, 15, 40},
    {kActivityOverhead, 20, 48},  // 12.2: correlation
    {kActivityMemory2, 15, 112},
    {kActivityMemoryPool, 15, 64},
    {kActivityMemoryPool, 18, 72},  // 11.8: used bytes
    {kActivityDevice, 15, 144},
    {kActivityContext, 15, 16},
    {kActivityGraphTrace, 15, 48},
    {kActivityCudaEvent, 15, 24},
    {kActivityCudaEvent, 26, 56},  // 12.8: device, times
};

}  // namespace

bool SizesOf(const Cupti& cupti, uint32_t version, ActivitySizes* sizes) {
  *sizes = ActivitySizes{};
  if (version < kOldestVersion) return false;
  if (version > kNewestKnownVersion && cupti.ActivityGetStructSize == nullptr) return false;
  for (const Row& row : kRows) {
    if (version >= row.version) sizes->bytes[row.kind] = row.bytes;
  }
  if (cupti.ActivityGetStructSize != nullptr) {
    for (uint32_t kind = 0; kind < kActivityKinds; ++kind) {
      size_t told = 0;
      if (sizes->bytes[kind] == 0 || cupti.ActivityGetStructSize(kind, 0, &told) != kCuptiSuccess) {
        continue;
      }
      if (told < sizes->bytes[kind]) {
        // This is not the known layout, so such records are counted as not read.
        sizes->bytes[kind] = 0;
      } else if (told > sizes->bytes[kind] && kind == kActivityConcurrentKernel) {
        sizes->bytes[kind] =
            told < sizeof(KernelActivity) ? static_cast<uint16_t>(told) : sizeof(KernelActivity);
      }
    }
  }
  sizes->bytes[kActivityKernel] = sizes->bytes[kActivityConcurrentKernel];
  return true;
}

}  // namespace proftrace::agent
