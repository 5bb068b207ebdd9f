// CUPTI's activity records, with the fields that the agent reads.
//
// From CUDA 11.2 on, every newer version of a record keeps the older fields at their places and
// adds fields at the end or in padding. This was compared field by field in the headers of 11.8,
// 12.1, 12.9, 13.0 and 13.5, whose deprecated structures also tell the fields of the versions in
// between (tests/unit/agent/layouts_check.cc repeats the comparison against the headers that are
// installed). So one structure for each record is enough, and CUPTI's version tells how much of it
// there is. The names of fields are our own.
#pragma once

#include <stddef.h>
#include <stdint.h>

#include "userspace/agent/cupti.h"

namespace proftrace::agent {

struct KernelActivity {  // CUpti_ActivityKernel6 to 13
  uint32_t kind;
  uint8_t cache_config;
  uint8_t shared_memory_config;
  uint16_t registers;
  uint32_t partitioned_requested;
  uint32_t partitioned_executed;
  uint64_t start;
  uint64_t end;
  uint64_t completed;
  uint32_t device;
  uint32_t context;
  uint32_t stream;
  int32_t grid[3];
  int32_t block[3];
  int32_t static_shared;
  int32_t dynamic_shared;
  uint32_t local_per_thread;
  uint32_t local_total;
  uint32_t correlation;
  int64_t grid_id;
  const char* name;
  void* reserved;
  uint64_t queued;
  uint64_t submitted;
  uint8_t launch_type;
  uint8_t carveout_requested[2];
  uint8_t padding;
  uint32_t shared_executed;
  uint64_t graph_node;
  uint32_t shared_limit_config;
  uint32_t graph;
  void* access_policy;  // the record is 168 bytes long up to here: 11.2
  uint32_t channel;
  uint32_t channel_type;  // 176: 11.6
  uint32_t cluster[3];
  uint32_t cluster_policy;
  uint64_t local_total_v2;  // 200: 11.8
  uint32_t potential_cluster_size;
  uint32_t active_clusters;
  uint8_t is_device_launched;
  uint8_t padding2[7];
  int32_t priority;
  uint32_t padding3;  // length 224
};
static_assert(offsetof(KernelActivity, channel) == 168);
static_assert(offsetof(KernelActivity, cluster) == 176);
static_assert(offsetof(KernelActivity, priority) == 216);

struct MemcpyActivity {  // CUpti_ActivityMemcpy4 to 7
  uint32_t kind;
  uint8_t copy_kind;
  uint8_t source_kind;
  uint8_t destination_kind;
  uint8_t flags;  // bit 0: asynchronous
  uint64_t bytes;
  uint64_t start;
  uint64_t end;
  uint32_t device;
  uint32_t context;
  uint32_t stream;
  uint32_t correlation;
  uint32_t runtime_correlation;
  uint32_t padding;
  void* reserved;
  uint64_t graph_node;
  uint32_t graph;
  uint32_t padding2;
};
static_assert(sizeof(MemcpyActivity) == 80);

struct PeerCopyActivity {  // CUpti_ActivityMemcpyPtoP3 and 4
  uint32_t kind;
  uint8_t copy_kind;
  uint8_t source_kind;
  uint8_t destination_kind;
  uint8_t flags;
  uint64_t bytes;
  uint64_t start;
  uint64_t end;
  uint32_t device;
  uint32_t context;
  uint32_t stream;
  uint32_t source_device;
  uint32_t source_context;
  uint32_t destination_device;
  uint32_t destination_context;
  uint32_t correlation;
  void* reserved;
  uint64_t graph_node;
  uint32_t graph;
  uint32_t padding;
};
static_assert(sizeof(PeerCopyActivity) == 88);

struct MemsetActivity {  // CUpti_ActivityMemset3 to 5
  uint32_t kind;
  uint32_t value;
  uint64_t bytes;
  uint64_t start;
  uint64_t end;
  uint32_t device;
  uint32_t context;
  uint32_t stream;
  uint32_t correlation;
  uint16_t flags;  // bit 0: asynchronous
  uint16_t memory_kind;
  uint32_t padding;
  void* reserved;
  uint64_t graph_node;
  uint32_t graph;
  uint32_t padding2;
};
static_assert(sizeof(MemsetActivity) == 80);

struct SynchronizationActivity {  // CUpti_ActivitySynchronization, 2
  uint32_t kind;
  uint32_t type;
  uint64_t start;
  uint64_t end;
  uint32_t correlation;
  uint32_t context;
  uint32_t stream;
  uint32_t event;  // 40 bytes up to here
  uint64_t event_sync;
  uint32_t result;
  uint32_t padding;  // 56: 12.8
};
static_assert(offsetof(SynchronizationActivity, result) == 48);

struct CallActivity {  // CUpti_ActivityAPI
  uint32_t kind;
  uint32_t callback;
  uint64_t start;
  uint64_t end;
  uint32_t process;
  uint32_t thread;
  uint32_t correlation;
  uint32_t result;
};
static_assert(sizeof(CallActivity) == 40);

struct ExternalActivity {  // CUpti_ActivityExternalCorrelation
  uint32_t kind;
  uint32_t external_kind;
  uint64_t external_id;
  uint32_t correlation;
  uint32_t padding;
};
static_assert(sizeof(ExternalActivity) == 24);

// CUpti_ActivityObjectKindId. The record's CUpti_ActivityObjectKind tells which of the three
// numbers is meant.
struct ActivityObject {
  uint32_t process_or_device;
  uint32_t thread_or_context;
  uint32_t stream;
};
constexpr uint32_t kObjectThread = 2;

struct MarkerActivity {  // CUpti_ActivityMarker2
  uint32_t kind;
  uint32_t flags;
  uint64_t timestamp;
  uint32_t id;
  uint32_t object_kind;
  ActivityObject object;
  uint32_t padding;
  const char* name;
  const char* domain;
};
static_assert(sizeof(MarkerActivity) == 56);

struct OverheadActivity {  // CUpti_ActivityOverhead to 3
  uint32_t kind;
  uint32_t overhead_kind;
  uint32_t object_kind;
  ActivityObject object;
  uint64_t start;
  uint64_t end;  // 40 bytes up to here
  uint32_t correlation;
  uint32_t padding;  // 48: 12.2
};
static_assert(offsetof(OverheadActivity, correlation) == 40);

struct MemoryActivity {  // CUpti_ActivityMemory2 to 4
  uint32_t kind;
  uint32_t operation;
  uint32_t memory_kind;
  uint32_t correlation;
  uint64_t address;
  uint64_t bytes;
  uint64_t timestamp;
  uint64_t program_counter;
  uint32_t process;
  uint32_t device;
  uint32_t context;
  uint32_t stream;
  const char* name;
  uint32_t is_async;
  uint32_t padding;
  uint32_t pool_type;
  uint32_t padding2;
  uint64_t pool;
  uint64_t release_threshold;
  uint64_t pool_bytes_or_process;
};
static_assert(sizeof(MemoryActivity) == 112);

struct MemoryPoolActivity {  // CUpti_ActivityMemoryPool to 3
  uint32_t kind;
  uint32_t operation;
  uint32_t pool_type;
  uint32_t correlation;
  uint32_t process;
  uint32_t device;
  uint64_t bytes_to_keep;
  uint64_t pool;
  uint64_t bytes;
  uint64_t release_threshold;
  uint64_t timestamp;   // 64 bytes up to here
  uint64_t used_bytes;  // 72: 11.8
};
static_assert(offsetof(MemoryPoolActivity, used_bytes) == 64);

struct DeviceActivity {  // CUpti_ActivityDevice2 to 6
  uint32_t kind;
  uint32_t flags;
  uint64_t memory_bandwidth;
  uint64_t memory_bytes;
  uint32_t constant_bytes;
  uint32_t l2_bytes;
  uint32_t warp_size;
  uint32_t clock_rate;
  uint32_t copy_engines;
  uint32_t multiprocessors;
  uint32_t most_ipc;
  uint32_t warps_a_multiprocessor;
  uint32_t blocks_a_multiprocessor;
  uint32_t shared_a_multiprocessor;
  uint32_t registers_a_multiprocessor;
  uint32_t registers_a_block;
  uint32_t shared_a_block;
  uint32_t threads_a_block;
  uint32_t block_limits[3];
  uint32_t grid_limits[3];
  uint32_t compute_major;
  uint32_t compute_minor;
  uint32_t id;
  uint32_t ecc;
  uint8_t uuid[16];
  const char* name;
};
static_assert(sizeof(DeviceActivity) == 144);

struct ContextActivity {  // CUpti_ActivityContext to 4
  uint32_t kind;
  uint32_t context;
  uint32_t device;
  uint16_t api;
  uint16_t null_stream;
};
static_assert(sizeof(ContextActivity) == 16);

struct GraphTraceActivity {  // CUpti_ActivityGraphTrace, 2
  uint32_t kind;
  uint32_t correlation;
  uint64_t start;
  uint64_t end;
  uint32_t device;
  uint32_t graph;
  uint32_t context;
  uint32_t stream;
  void* reserved;
};
static_assert(sizeof(GraphTraceActivity) == 48);

struct CudaEventActivity {  // CUpti_ActivityCudaEvent to 3
  uint32_t kind;
  uint32_t correlation;
  uint32_t context;
  uint32_t stream;
  uint32_t event;
  uint32_t padding;  // 24 bytes up to here
  uint32_t device;
  uint32_t padding2;
  uint64_t reserved;
  uint64_t timestamp;
  uint64_t event_sync;  // 56: 12.8
};
static_assert(offsetof(CudaEventActivity, timestamp) == 40);

constexpr uint32_t kActivityKinds = 52;  // one more than the highest kind whose records can be read

// The least size of a record in bytes, by its kind. 0: the kind's layout is not known, and its
// records are not read.
struct ActivitySizes {
  uint16_t bytes[kActivityKinds];
};

// Finds the sizes of the records of CUPTI's `version`. Takes into account the sizes that the
// library itself tells, if it does. Returns false if the version is too old, or is so new that its
// records may differ from those above and the library does not tell their sizes.
bool SizesOf(const Cupti& cupti, uint32_t version, ActivitySizes* sizes);

}  // namespace proftrace::agent
