// The records of GPU agents as events, which are checked and own their data. Names are only
// references, because a name may come after the records that use it.
#pragma once

#include <cstdint>
#include <variant>

#include "userspace/model/device_activity.h"
#include "userspace/model/ids.h"

namespace proftrace {

// An index into DeviceDecoder's names; 0 = the record has none.
enum class DeviceNameRef : uint32_t {};
inline constexpr DeviceNameRef kNoDeviceName{0};
constexpr uint32_t Raw(DeviceNameRef ref) { return static_cast<uint32_t>(ref); }

// A call of the CUDA Runtime or Driver, from its begin to its end.
struct DeviceCall {
  int64_t start_ns = 0;
  int64_t end_ns = 0;
  Pid pid{};
  Tid tid{};
  DeviceNameRef name{};
  CudaCall facts;
  bool is_driver = false;
};

// A marker has its flags (CUpti_ActivityFlag) in `code` and its id in `event`.
struct DecodedActivity {
  DeviceActivity activity;
  DeviceNameRef name{};
  KernelFacts kernel;  // of a kernel
};

struct DecodedDevice {
  GpuDevice device;
  DeviceNameRef name{};
};

struct DeviceContext {
  Pid pid{};
  uint32_t context = kNowhere;
  uint32_t device = kNowhere;
};

// Tells that the program which called a function of CUDA gave the call a number of its own, `id`.
struct ExternalCorrelation {
  Pid pid{};
  uint32_t correlation = 0;
  uint32_t kind = 0;  // CUpti_ExternalCorrelationKind
  uint64_t id = 0;
};

// A reading of CUPTI's clock between two readings of CLOCK_MONOTONIC.
struct ClockLook {
  Pid pid{};
  int64_t before_ns = 0;
  int64_t cupti_ns = 0;
  int64_t after_ns = 0;
};

// Records that are missing: CUPTI dropped them, or the agent did not understand them.
struct DeviceLoss {
  Pid pid{};
  bool by_cupti = false;
  uint64_t count = 0;
};

using DeviceEvent = std::variant<DeviceCall, DecodedActivity, DecodedDevice, DeviceContext,
                                 ExternalCorrelation, ClockLook, DeviceLoss>;

}  // namespace proftrace
