// The parts of CUPTI that the agent uses: its functions, as pointers that are looked up in the
// job's library, and its numbers. They are declared here instead of by CUPTI's headers, so that no
// CUDA is needed to build them; tests/unit/agent/layouts_check.cc compares them with the headers
// where these are installed.
#pragma once

#include <stddef.h>
#include <stdint.h>

namespace proftrace::agent {

using CuptiResult = int32_t;
enum : CuptiResult {
  kCuptiSuccess = 0,
  kCuptiMaxLimitReached = 12,  // no more records; before 11.2 also: another subscriber has CUPTI
  kCuptiNotInitialized = 15,
  kCuptiInvalidKind = 21,  // also for a record that is incomplete
  kCuptiInsufficientPrivileges = 35,
  kCuptiMultipleSubscribers = 39,
  kCuptiVirtualizedInsufficientPrivileges = 40,
};

// CUpti_ActivityKind
enum : uint32_t {
  kActivityMemcpy = 1,
  kActivityMemset = 2,
  kActivityKernel = 3,
  kActivityDriver = 4,
  kActivityRuntime = 5,
  kActivityDevice = 8,
  kActivityContext = 9,
  kActivityConcurrentKernel = 10,
  kActivityMarker = 12,
  kActivityOverhead = 17,
  kActivityMemcpy2 = 22,  // peer to peer
  kActivityCudaEvent = 36,
  kActivitySynchronization = 38,
  kActivityExternalCorrelation = 39,
  kActivityMemory2 = 49,
  kActivityMemoryPool = 50,
  kActivityGraphTrace = 51,
};

// CUpti_CallbackDomain
enum : uint32_t { kDomainDriver = 1, kDomainRuntime = 2 };
constexpr uint32_t kFlushForced = 1;         // CUPTI_ACTIVITY_FLAG_FLUSH_FORCED
constexpr uint32_t kThreadIdTypeSystem = 1;  // CUPTI_ACTIVITY_THREAD_ID_TYPE_SYSTEM

using BufferRequested = void (*)(uint8_t** buffer, size_t* bytes, size_t* most_records);
using BufferCompleted = void (*)(void* context, uint32_t stream, uint8_t* buffer, size_t bytes,
                                 size_t valid_bytes);
using Timestamp = uint64_t (*)();
using SubscriberCallback = void (*)(void* data, uint32_t domain, uint32_t callback,
                                    const void* what);

// The functions of CUPTI, by CUPTI's names without "cupti". In some versions functions of the
// second group are nullptr.
struct Cupti {
  CuptiResult (*GetVersion)(uint32_t* version);
  CuptiResult (*Subscribe)(void** subscriber, SubscriberCallback callback, void* data);
  CuptiResult (*Unsubscribe)(void* subscriber);
  CuptiResult (*ActivityRegisterCallbacks)(BufferRequested requested, BufferCompleted completed);
  CuptiResult (*ActivityEnable)(uint32_t kind);
  CuptiResult (*ActivityDisable)(uint32_t kind);
  CuptiResult (*ActivityFlushAll)(uint32_t flag);
  CuptiResult (*ActivityGetNextRecord)(uint8_t* buffer, size_t valid_bytes, void** record);
  CuptiResult (*ActivityGetNumDroppedRecords)(void* context, uint32_t stream, size_t* dropped);
  CuptiResult (*GetTimestamp)(uint64_t* timestamp);
  CuptiResult (*GetResultString)(CuptiResult result, const char** text);
  CuptiResult (*GetCallbackName)(uint32_t domain, uint32_t callback, const char** name);

  CuptiResult (*ActivityEnableAndDump)(uint32_t kind);
  CuptiResult (*ActivityRegisterTimestampCallback)(Timestamp timestamp);
  CuptiResult (*SetThreadIdType)(uint32_t type);
  CuptiResult (*GetThreadIdType)(uint32_t* type);
  CuptiResult (*ActivityEnableDriverApi)(uint32_t callback, uint8_t enable);
  CuptiResult (*ActivityEnableRuntimeApi)(uint32_t callback, uint8_t enable);
  CuptiResult (*ActivityGetEnabledKinds)(void* subscriber, uint32_t* kinds, uint32_t* room,
                                         uint32_t* count);
  CuptiResult (*ActivityGetStructSize)(uint32_t kind, uint32_t version, size_t* bytes);
};

// Looks the functions up. Returns the name of the first missing function that every version should
// have; nullptr: none is missing.
const char* FindFunctions(void* library, Cupti* cupti);

// Versions as cuptiGetVersion gives them: a counter up to 28 (CUDA 12.9 Update 1), and from CUDA
// 13.0 on CUDA's major version * 10000 + its minor version * 100.
constexpr uint32_t kOldestVersion = 15;            // CUDA 11.2
constexpr uint32_t kNewestKnownVersion = 130500;   // CUDA 13.5
constexpr uint32_t kOldestThatTakesRefusals = 27;  // CUDA 12.9 (see BufferPool)
uint32_t CudaMajorOf(uint32_t cupti_version);

}  // namespace proftrace::agent
