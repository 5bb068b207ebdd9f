#include "exporters/args/device_args.h"

#include <optional>
#include <string_view>

#include "exporters/args/args_text.h"
#include "exporters/args/collective_args.h"
#include "userspace/aggregate/collectives.h"
#include "userspace/aggregate/occupancy.h"

namespace proftrace {
namespace {

// CUpti_ActivitySynchronizationType.
constexpr uint32_t kEventSync = 1;
constexpr uint32_t kStreamWaitEvent = 2;

int64_t OrMinusOne(uint32_t value) { return value == kNowhere ? -1 : int64_t{value}; }

class DeviceArgsText : public ArgsText {
 public:
  DeviceArgsText(const TraceNumbers& numbers, Pid pid) : numbers_(numbers), pid_(pid) {}

  void Device(std::string_view key, uint32_t device) {
    if (numbers_.devices != nullptr) device = numbers_.devices->Of(pid_, device);
    Number(key, OrMinusOne(device));
  }

  void Correlation(std::string_view key, uint32_t correlation) {
    if (correlation == kNowhere) return Number(key, -1);
    Unsigned(key, numbers_.first_correlation + correlation);
  }

 private:
  TraceNumbers numbers_;
  Pid pid_;
};

void AddPlace(const DeviceActivity& activity, DeviceArgsText* args) {
  args->Device("device", activity.device);
  args->Number("context", OrMinusOne(activity.context));
  args->Number("stream", OrMinusOne(activity.stream));
  args->Correlation("correlation", activity.correlation);
}

void AddGraph(const DeviceActivity& activity, DeviceArgsText* args) {
  if (activity.graph == kNowhere || activity.graph == 0) return;
  args->Number("graph id", activity.graph);
  args->Unsigned("graph node id", activity.graph_node);
}

void AddCollective(const Timeline& timeline, const DeviceActivity& activity, DeviceArgsText* args) {
  const std::optional<Collective> collective =
      CollectiveOf(timeline, activity.op, timeline.device_name(activity.name));
  if (collective.has_value()) AddCollectiveArgs(*collective, args);
}

void AddKernel(const Timeline& timeline, const DeviceActivity& activity, DeviceArgsText* args) {
  const KernelFacts& kernel = timeline.kernels().at(activity.kernel);
  args->Number("queued", kernel.queued_ns);
  AddPlace(activity, args);
  args->Number("registers per thread", kernel.registers);
  args->Number("shared memory",
               int64_t{kernel.static_shared_bytes} + int64_t{kernel.dynamic_shared_bytes});
  const GpuDevice* device = timeline.FindDevice(activity.pid, activity.device);
  std::optional<KernelLoad> load;
  if (device != nullptr) load = LoadOf(kernel, *device);
  if (load.has_value()) {
    args->Real("blocks per SM", load->blocks_a_multiprocessor);
    args->Real("warps per SM", load->warps_a_multiprocessor);
  }
  args->Triple("grid", kernel.grid);
  args->Triple("block", kernel.block);
  if (load.has_value() && load->occupancy_percent.has_value()) {
    args->Number("est. achieved occupancy %", *load->occupancy_percent);
  }
  AddGraph(activity, args);
  args->Number("priority", kernel.priority);
  AddCollective(timeline, activity, args);
}

void AddCopy(const DeviceActivity& activity, DeviceArgsText* args) {
  if (activity.from_device != kNowhere || activity.to_device != kNowhere) {
    args->Device("fromDevice", activity.from_device);
    args->Device("inDevice", activity.device);
    args->Device("toDevice", activity.to_device);
  }
  AddPlace(activity, args);
  args->Unsigned("bytes", activity.bytes);
  if (activity.duration_ns > 0) {
    args->Real("memory bandwidth (GB/s)",
               static_cast<double>(activity.bytes) / static_cast<double>(activity.duration_ns));
  }
  AddGraph(activity, args);
}

void AddSync(const Timeline& timeline, const DeviceActivity& activity, DeviceArgsText* args) {
  args->Text("cuda_sync_kind", timeline.device_name(activity.name));
  if (activity.code == kEventSync || activity.code == kStreamWaitEvent) {
    args->Number("wait_on_stream", OrMinusOne(activity.awaited_stream));
    args->Correlation("wait_on_cuda_event_record_corr_id", activity.awaited_correlation);
    args->Number("wait_on_cuda_event_id", OrMinusOne(activity.event));
  }
  args->Number("stream", OrMinusOne(activity.stream));
  args->Correlation("correlation", activity.correlation);
  args->Device("device", activity.device);
  args->Number("context", OrMinusOne(activity.context));
}

}  // namespace

std::string DeviceArgs(const Timeline& timeline, const DeviceActivity& activity,
                       const TraceNumbers& numbers) {
  DeviceArgsText args(numbers, activity.pid);
  switch (activity.kind) {
    case DeviceActivityKind::kKernel:
      AddKernel(timeline, activity, &args);
      break;
    case DeviceActivityKind::kMemcpy:
    case DeviceActivityKind::kMemset:
      AddCopy(activity, &args);
      break;
    case DeviceActivityKind::kGraph:
      AddPlace(activity, &args);
      AddGraph(activity, &args);
      break;
    case DeviceActivityKind::kSync:
      AddSync(timeline, activity, &args);
      break;
    case DeviceActivityKind::kEvent:
      args.Number("event_id", OrMinusOne(activity.event));
      AddPlace(activity, &args);
      break;
    case DeviceActivityKind::kMemory:
    case DeviceActivityKind::kPool:
      args.Unsigned("addr", activity.address);
      args.Unsigned("bytes", activity.bytes);
      break;
    case DeviceActivityKind::kOverhead:
    case DeviceActivityKind::kMarker:
      break;
  }
  return args.Take();
}

}  // namespace proftrace
