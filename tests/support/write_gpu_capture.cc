// Writes a capture of a made-up training job on a GPU: for goldens and for checks that read our
// outputs with other programs. Its records have the layouts of bpf/abi; no GPU made them.
//   write_gpu_capture FILE.ptrec [ROUNDS]
//
// Two processes share one device. In each of the steps: a copy to the device, a network's kernels
// (two of which overlap, as programmatic dependent launch makes them), a CUDA graph, an all-reduce
// on a stream of its own that waits for an event, an optimizer's kernel and memset, and a copy back
// that the host waits for. Before the first: a kernel that was launched before the recording.
#include <fcntl.h>

#include <array>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/gpu_record_maker.h"
#include "tests/support/record_maker.h"
#include "userspace/wire/capture_writer.h"
#include "userspace/wire/metadata.h"

namespace proftrace {
namespace {

constexpr int64_t kStartNs = 5'000'000'000;
constexpr int64_t kStepNs = 2'000'000;
constexpr int64_t kSecondProcessNs = 37'000;  // that much later
constexpr uint32_t kComputeStream = 7;
constexpr uint32_t kCommunicationStream = 20;

// Indices into the plan.
enum Site : uint16_t {
  kCopy = 1,
  kLinear,
  kAddmm,
  kRelu,
  kReplay,
  kAllReduce,
  kRecordComms,
  kForeachAdd,
  kZero,
  kItem,
  kLocalScalar,
};

std::vector<Label> Sites() {
  std::vector<Label> sites;
  for (const char* name :
       {"", "aten::copy_", "aten::linear", "aten::addmm", "aten::relu", "aten::_graph_replay",
        "c10d::allreduce_", "record_param_comms", "aten::_foreach_add_", "aten::zero_",
        "aten::item", "aten::_local_scalar_dense"}) {
    sites.emplace_back().name = name;
  }
  return sites;
}

// What torch 2.8 has in record_param_comms: two tensors of floats, number and group, rank,
// collective, equal splits, the group's first rank, stride and size.
std::vector<uint64_t> CollectiveInputs(int64_t rank) {
  constexpr uint64_t kFloat = 6;
  const auto number = [](int64_t value) {
    return static_cast<uint64_t>(value) << 8 | abi::PT_VALUE_INT;
  };
  const auto vector = [](uint64_t elements) {
    const uint64_t flags = abi::PT_TENSOR_STRIDED | abi::PT_TENSOR_PACKED;
    return std::array<uint64_t, 2>{flags << 32 | kFloat << 16 | 1 << 8 | abi::PT_VALUE_TENSOR,
                                   elements | uint64_t{1} << 32};
  };
  const auto [first, first_size] = vector(1 << 20);
  const auto [second, second_size] = vector(1000);
  return {2 << 8 | abi::PT_VALUE_TENSORS,
          first,
          first_size,
          second,
          second_size,
          abi::PT_VALUE_OTHER,
          abi::PT_VALUE_OTHER,
          number(rank),
          abi::PT_VALUE_OTHER,
          abi::PT_VALUE_LIST,
          abi::PT_VALUE_LIST,
          number(0),
          number(1),
          number(2)};
}

// One process's part of the job.
class Job {
 public:
  Job(uint32_t pid, int64_t start_ns)
      : pid_(pid), start_ns_(start_ns), cpu_(pid), gpu_(pid), copies_(pid) {
    launch_ = gpu_.Name("cudaLaunchKernel_v7000");
    launch_ex_ = gpu_.Name("cudaLaunchKernelExC_v11060");
    memcpy_ = gpu_.Name("cudaMemcpyAsync_v3020");
    memset_ = gpu_.Name("cudaMemsetAsync_v3020");
    synchronize_ = gpu_.Name("cudaStreamSynchronize_v3020");
    graph_launch_ = gpu_.Name("cudaGraphLaunch_v10000");
    record_event_ = gpu_.Name("cudaEventRecord_v3020");
    wait_event_ = gpu_.Name("cudaStreamWaitEvent_v3020");
    get_device_ = gpu_.Name("cudaGetDevice_v3020");
    driver_launch_ = gpu_.Name("cuLaunchKernelEx");
    gemm_ = gpu_.Name("_Z17sgemm_128x64_tilePKfS0_Pfiii");
    relu_ = gpu_.Name("_ZN2at6native29vectorized_elementwise_kernelEiPfS1_");
    fused_ = gpu_.Name("triton_poi_fused_add_0");
    reduce_ = gpu_.Name("ncclDevKernel_AllReduce_Sum_f32_RING_LL(ncclDevKernelArgs)");
    optimizer_ = gpu_.Name("_ZN2at6native25multi_tensor_apply_kernelEiPf");
    gpu_.Device(0, gpu_.Name("NVIDIA A100-SXM4-40GB"));
    gpu_.Context(GpuRecordMaker::kContext, 0);
    gpu_.Clock(start_ns, start_ns + 30, start_ns + 90);
    gpu_.Kernel(start_ns + 5'000, start_ns + 40'000, gemm_, 1);  // launched before the recording
    correlation_ = 100;
  }

  void AddStep(int number) {
    now_ = start_ns_ + 60'000 + number * kStepNs;
    const uint64_t handle = 0x5000 + static_cast<uint64_t>(number);
    cpu_.AnnotationBegin(pid_, now_, "ProfilerStep#" + std::to_string(number));
    cpu_.AnnotationHandle(pid_, now_ + 200, handle);
    AddCopy();
    AddForward();
    AddGraph();
    AddAllReduce();
    AddOptimizer();
    AddItem();
    cpu_.AnnotationEnd(pid_, Later(5'000), handle);
  }

  const std::vector<std::byte>& cpu() { return cpu_.bytes(); }
  // Activities of copies come in a buffer of their own, later than the others.
  std::vector<std::byte> gpu() {
    std::vector<std::byte> bytes = gpu_.bytes();
    bytes.insert(bytes.end(), copies_.bytes().begin(), copies_.bytes().end());
    return bytes;
  }

 private:
  int64_t Later(int64_t ns) { return now_ += ns; }
  void Begin(Site site, uint32_t depth) { cpu_.Begin(pid_, Later(4'000), site, depth); }
  void End(Site site, uint32_t depth) { cpu_.End(pid_, Later(3'000), site, depth); }
  // A call of 6 us; returns its correlation id.
  uint32_t Call(uint64_t name, uint32_t callback) {
    const int64_t begin_ns = Later(2'000);
    gpu_.Call(pid_, begin_ns, Later(6'000), name, ++correlation_, abi::PT_GPU_RUNTIME, callback);
    return correlation_;
  }
  // Device work begins 9 us after its call, or after what is before it on its stream.
  int64_t DeviceStart(int64_t* free_ns) const { return std::max(now_ + 9'000, *free_ns); }

  void AddCopy() {
    Begin(kCopy, 0);
    const int64_t begin_ns = DeviceStart(&free_ns_);
    copies_.Memcpy(begin_ns, begin_ns + 25'000, Call(memcpy_, 41), 1 << 18, 1, 2, 3);
    free_ns_ = begin_ns + 26'000;
    End(kCopy, 0);
  }

  void AddForward() {
    cpu_.AnnotationBegin(pid_, Later(1'000), "forward");
    cpu_.AnnotationHandle(pid_, Later(100), 0x77);
    Begin(kLinear, 0);
    Begin(kAddmm, 1);
    gpu_.Call(pid_, now_ + 500, now_ + 900, get_device_, ++correlation_, abi::PT_GPU_RUNTIME, 9);
    const uint32_t gemm = Call(launch_, 211);
    int64_t begin_ns = DeviceStart(&free_ns_);
    gpu_.Kernel(begin_ns, begin_ns + 120'000, gemm_, gemm);
    End(kAddmm, 1);
    End(kLinear, 0);
    Begin(kRelu, 0);
    // The Runtime launches through the Driver.
    gpu_.Call(pid_, now_ + 3'000, now_ + 7'000, driver_launch_, correlation_ + 500'000,
              abi::PT_GPU_DRIVER, 652);
    const uint32_t relu = Call(launch_ex_, 430);
    begin_ns += 110'000;  // while the kernel before it still runs
    gpu_.Kernel(begin_ns, begin_ns + 40'000, relu_, relu);
    free_ns_ = begin_ns + 42'000;
    End(kRelu, 0);
    cpu_.AnnotationEnd(pid_, Later(500), 0x77);
  }

  void AddGraph() {
    Begin(kReplay, 0);
    const uint32_t launch = Call(graph_launch_, 311);
    int64_t begin_ns = DeviceStart(&free_ns_);
    for (uint64_t node = 0; node < 3; ++node) {
      abi::pt_gpu_kernel_record kernel =
          GpuRecordMaker::KernelRecord(begin_ns, begin_ns + 9'000, fused_, launch);
      kernel.graph = 3;
      kernel.graph_node = 0x300000000 + node;
      gpu_.Add(kernel);
      begin_ns += 9'500;
    }
    free_ns_ = begin_ns;
    End(kReplay, 0);
  }

  void AddAllReduce() {
    Begin(kAllReduce, 0);
    cpu_.Inputs(pid_, now_ + 4'000, kRecordComms, 1, 10, CollectiveInputs(pid_ == 4711 ? 0 : 1));
    Begin(kRecordComms, 1);
    const uint32_t event = Call(record_event_, 135);
    gpu_.Event(std::max(now_, free_ns_), event, 17, kComputeStream);
    const uint32_t wait = Call(wait_event_, 147);
    gpu_.Sync(now_ - 5'000, now_ - 4'000, 2, wait, kCommunicationStream, 17);
    const int64_t begin_ns = std::max(now_ + 9'000, free_ns_);
    gpu_.Kernel(begin_ns, begin_ns + 300'000, reduce_, Call(launch_ex_, 430), 0,
                kCommunicationStream);
    communication_free_ns_ = begin_ns + 300'000;
    End(kRecordComms, 1);
    End(kAllReduce, 0);
  }

  void AddOptimizer() {
    cpu_.AnnotationBegin(pid_, Later(1'000), "Optimizer.step#SGD.step");
    cpu_.AnnotationHandle(pid_, Later(100), 0x78);
    Begin(kForeachAdd, 0);
    free_ns_ = std::max(free_ns_, communication_free_ns_);
    int64_t begin_ns = DeviceStart(&free_ns_);
    gpu_.Kernel(begin_ns, begin_ns + 60'000, optimizer_, Call(launch_, 211));
    End(kForeachAdd, 0);
    Begin(kZero, 0);
    begin_ns += 61'000;
    copies_.Memset(begin_ns, begin_ns + 4'000, Call(memset_, 51), 1 << 16);
    free_ns_ = begin_ns + 5'000;
    End(kZero, 0);
    cpu_.AnnotationEnd(pid_, Later(500), 0x78);
  }

  void AddItem() {
    Begin(kItem, 0);
    Begin(kLocalScalar, 1);
    const uint32_t copy = Call(memcpy_, 41);
    const int64_t begin_ns = DeviceStart(&free_ns_);
    copies_.Memcpy(begin_ns, begin_ns + 2'000, copy, 4, 2, 3, 1);
    const int64_t wait_ns = Later(1'000);
    const int64_t end_ns = begin_ns + 3'000;
    gpu_.Call(pid_, wait_ns, end_ns + 500, synchronize_, ++correlation_, abi::PT_GPU_RUNTIME, 131);
    gpu_.Sync(wait_ns + 300, end_ns, 3, correlation_, kComputeStream);
    gpu_.Overhead(wait_ns - 900, wait_ns - 100, 6u << 16);
    now_ = end_ns + 1'000;
    free_ns_ = begin_ns + 2'000;
    End(kLocalScalar, 1);
    End(kItem, 0);
  }

  uint32_t pid_;
  int64_t start_ns_;
  int64_t now_ = 0;
  int64_t free_ns_ = 0;  // from when on the compute stream has nothing to do
  int64_t communication_free_ns_ = 0;
  uint32_t correlation_ = 0;
  RecordMaker cpu_;
  GpuRecordMaker gpu_;
  GpuRecordMaker copies_;
  uint64_t launch_, launch_ex_, memcpy_, memset_, synchronize_, graph_launch_, record_event_,
      wait_event_, get_device_, driver_launch_, gemm_, relu_, fused_, reduce_, optimizer_;
};

RecordingInfo Info() {
  RecordingInfo info;
  info.proftrace_version = "0.0.0";
  info.gpu = "agent";
  info.trace_name = "made-up GPU job";
  info.host = Host{"example", "Linux", 16};
  info.window.start_ns = kStartNs;
  info.window.monotonic_to_unix_ns = 1'700'000'000'000'000'000;
  return info;
}

absl::Status Write(const std::string& path, int rounds) {
  const int fd = open(path.c_str(), O_CREAT | O_WRONLY | O_TRUNC | O_CLOEXEC, 0644);
  absl::StatusOr<std::unique_ptr<CaptureWriter>> writer = CaptureWriter::Create(fd, path);
  if (!writer.ok()) return writer.status();
  MetadataWriter metadata;
  metadata.AddRecording(Info());
  metadata.AddPlan(1, Sites());
  absl::Status status;
  std::vector<std::unique_ptr<Job>> jobs;
  for (const uint32_t pid : {4711u, 4712u}) {
    const bool is_first = jobs.empty();
    ProcessEntry process;
    process.plan = process.image = 1;
    process.target.pid = Pid{pid};
    process.target.comm = is_first ? "trainer" : "worker";
    process.target.torch_version = "2.8.0+cu124";
    process.target.cuda_version = "12.4";
    process.target.inputs_recorded = true;
    process.target.rank = is_first ? 0 : 1;
    process.target.world_size = 2;
    process.target.threads = 1;
    process.target.probes_on_ns = kStartNs;
    metadata.AddProcess(process);
    metadata.AddProcessGroups(Pid{pid}, {{"0", "default_pg", "nccl", is_first ? 0 : 1, 2}});
    metadata.AddThread({Pid{pid}, Tid{pid}, process.target.comm});
    jobs.push_back(std::make_unique<Job>(pid, kStartNs + (is_first ? 0 : kSecondProcessNs)));
  }
  for (int round = 0; round < rounds; ++round) {
    for (const auto& job : jobs) job->AddStep(round);
  }
  uint64_t device_records = 0;
  for (const auto& job : jobs) {
    const std::vector<std::byte> records = job->gpu();
    for (size_t at = 0; at < records.size();
         at += static_cast<size_t>(records[at + offsetof(abi::pt_record, words)]) * 8) {
      ++device_records;
    }
  }
  GpuAgent agent;
  agent.pid = Pid{4711};
  agent.state = "stopped";
  agent.cupti_version = 22;
  agent.driver_version = 12040;
  agent.runtime_version = 12040;
  agent.cupti_records = agent.ring_records = device_records;
  metadata.AddGpuAgent(agent);
  status.Update((*writer)->AppendMetadata(metadata.TakeJson()));
  for (const auto& job : jobs) status.Update((*writer)->AppendRecords(job->cpu()));
  for (const auto& job : jobs) status.Update((*writer)->AppendDeviceRecords(job->gpu()));
  Window window = Info().window;
  window.duration_ns = 200'000 + rounds * kStepNs;
  metadata.AddEnd(window, Cost{}, Ledger{});
  status.Update((*writer)->AppendMetadata(metadata.TakeJson()));
  status.Update((*writer)->Finish());
  return status;
}

}  // namespace
}  // namespace proftrace

int main(int argc, char** argv) {
  if (argc < 2) {
    std::cerr << "usage: write_gpu_capture FILE.ptrec [ROUNDS]\n";
    return 2;
  }
  const absl::Status status = proftrace::Write(argv[1], argc > 2 ? std::atoi(argv[2]) : 3);
  if (!status.ok()) std::cerr << status.message() << "\n";
  return status.ok() ? 0 : 1;
}
