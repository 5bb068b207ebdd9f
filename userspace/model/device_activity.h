// What a GPU did, as CUPTI told it: kernels, copies and the rest, each linked to the CUDA call that
// asked for it and to the operator around that call.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "userspace/model/chunk_store.h"
#include "userspace/model/ids.h"

namespace proftrace {

enum class DeviceActivityKind : uint8_t {
  kKernel = 0,
  kMemcpy = 1,
  kMemset = 2,
  kGraph = 3,     // a CUDA graph that was traced as a whole
  kSync = 4,      // the host waits for a stream, an event or a context; or a stream for an event
  kEvent = 5,     // the device reached a cudaEventRecord; its duration is not told
  kOverhead = 6,  // time that CUPTI or the driver took for itself
  kMemory = 7,    // cudaMalloc, cudaFree and their like; an instant
  kPool = 8,      // a memory pool was made, trimmed or destroyed; an instant
  kMarker = 9,    // NVTX: a range, or an instant
};
inline constexpr size_t kDeviceActivityKinds = 10;

// Returns whether an activity counts as work of the device: torch's tables sum up only such
// activities as device time.
constexpr bool IsDeviceWork(DeviceActivityKind kind) { return kind <= DeviceActivityKind::kGraph; }

// Returns Kineto's category of the row. Kinds that Kineto has no category for have a name that only
// proftrace uses.
std::string_view DeviceCategoryName(DeviceActivityKind kind);

// Stands for "no device, context, stream, graph or event", also where CUPTI did not tell it
// (PT_GPU_NOWHERE).
inline constexpr uint32_t kNowhere = 0xffffffffu;

// An index into Timeline::device_names().
enum class DeviceNameId : uint32_t {};
constexpr uint32_t Raw(DeviceNameId id) { return static_cast<uint32_t>(id); }

struct DeviceActivity {
  int64_t start_ns = 0;         // CLOCK_MONOTONIC
  int64_t duration_ns = 0;      // >= 0
  uint64_t bytes = 0;           // copied, set, allocated or freed; for a pool: its size
  uint64_t address = 0;         // where the memory or the pool begins
  uint64_t graph_node = 0;      // 0 = the work belongs to no graph
  SpanId call = kNoSpan;        // the CUDA call that asked for it; kNoSpan: it was not recorded
  SpanId op = kNoSpan;          // the innermost operator or autograd row around that call
  SpanId annotation = kNoSpan;  // the innermost annotation around that call
  DeviceNameId name{};
  uint32_t kernel = 0;  // kernels: an index into Timeline::kernels()
  Pid pid{};
  Tid tid{};  // the thread of its call; overhead and markers: their own thread; 0 = not known
  uint32_t correlation = 0;  // CUPTI's number in this process; may be used again; 0 = none
  uint32_t device = kNowhere;
  uint32_t context = kNowhere;
  uint32_t stream = kNowhere;
  uint32_t graph = kNowhere;
  uint32_t event = kNowhere;           // sync, event: the CUDA event's id
  uint32_t code = 0;                   // sync: type; overhead: kind; memory, pool: operation
  uint32_t status = 0;                 // sync: of the call, 0 = success; memset: the value
  uint32_t from_device = kNowhere;     // peer copies
  uint32_t to_device = kNowhere;       // peer copies
  uint32_t awaited_stream = kNowhere;  // sync: where the event that is waited for was recorded …
  uint32_t awaited_correlation = kNowhere;  // … and by which call
  DeviceActivityKind kind = DeviceActivityKind::kKernel;
  uint8_t copy_kind = 0;    // CUpti_ActivityMemcpyKind
  uint8_t source_kind = 0;  // CUpti_ActivityMemoryKind; for memset and memory: of the only place
  uint8_t destination_kind = 0;
  bool is_first_of_call = false;  // the first work of its call, the one that Kineto's arrow ends at
  bool is_linked = false;         // its call (even if no row) or its operator was recorded
  uint8_t reserved[2] = {};

  int64_t end_ns() const { return start_ns + duration_ns; }
};
static_assert(sizeof(DeviceActivity) == 128);
using DeviceActivityStore = ChunkStore<DeviceActivity>;

// How a kernel was launched.
struct KernelFacts {
  int64_t queued_ns = 0;  // CLOCK_MONOTONIC; 0 = not recorded
  int64_t submitted_ns = 0;
  int32_t grid[3] = {};
  int32_t block[3] = {};
  int32_t cluster[3] = {};  // zeros = none
  int32_t static_shared_bytes = 0;
  int32_t dynamic_shared_bytes = 0;
  uint32_t registers = 0;    // for each thread
  uint32_t local_bytes = 0;  // for each thread
  int32_t priority = 0;      // of the stream
  uint32_t channel = 0;
  uint32_t shared_executed_bytes = 0;  // what the driver set aside for a block; 0 = not told
};
using KernelStore = ChunkStore<KernelFacts>;

// A device as one process sees it. 0 = CUPTI did not tell the value.
struct GpuDevice {
  Pid pid{};
  uint32_t device = 0;
  std::string name;
  uint64_t memory_bytes = 0;
  uint32_t compute_major = 0;
  uint32_t compute_minor = 0;
  uint32_t multiprocessors = 0;
  uint32_t warp_size = 0;
  uint32_t max_threads_a_block = 0;
  uint32_t max_warps_a_multiprocessor = 0;
  uint32_t max_blocks_a_multiprocessor = 0;
  uint32_t max_registers_a_block = 0;
  uint32_t max_registers_a_multiprocessor = 0;
  uint32_t max_shared_bytes_a_block = 0;
  uint32_t max_shared_bytes_a_multiprocessor = 0;
  uint32_t max_shared_bytes_optin = 0;
  std::array<uint8_t, 16> uuid{};  // identifies the GPU, whatever its number in a process is
};

// The time from the first to the last work on one stream that an annotation asked for: Kineto's
// gpu_user_annotation.
struct DeviceAnnotation {
  SpanId annotation = kNoSpan;
  // Used instead of `annotation` where the annotation is a row of StepRows, which is no span.
  uint32_t step = kNowhere;
  Pid pid{};
  uint32_t device = kNowhere;
  uint32_t stream = kNowhere;
  int64_t start_ns = 0;
  int64_t end_ns = 0;
};

// Returns whether `a` comes before `b`. Where both start together, the longer one, which encloses
// the other, comes first.
inline bool ComesBefore(const DeviceAnnotation& a, const DeviceAnnotation& b) {
  return a.start_ns != b.start_ns ? a.start_ns < b.start_ns : a.end_ns > b.end_ns;
}

// The bounds of how far CUPTI's clock is ahead of CLOCK_MONOTONIC in a process. Each time when both
// clocks were read narrows the bounds.
struct DeviceClock {
  Pid pid{};
  int64_t least_ns = 0;
  int64_t most_ns = 0;
  uint64_t looks = 0;
};

// The facts of a CUDA call, which the GPU agent recorded. Spans that are no CUDA calls have zeros.
struct CudaCall {
  uint32_t correlation = 0;
  uint32_t callback = 0;  // CUpti_CallbackId
  uint32_t result = 0;    // 0 = success

  bool operator==(const CudaCall&) const = default;
};

}  // namespace proftrace
