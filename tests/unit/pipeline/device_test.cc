// What GPU agents hand over becomes rows: calls among the operators, device activities linked to
// them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "tests/support/gpu_record_maker.h"
#include "tests/unit/pipeline/timeline.h"

namespace proftrace {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr uint32_t kThread = 1;

class DeviceTest : public testing::Test {
 protected:
  // Puts together what was made, and checks both ledgers.
  const Timeline& Build() {
    VectorSource source;
    source.Add(cpu_.bytes());
    VectorSource devices;
    devices.Add(gpu_.bytes());
    for (GpuRecordMaker* more : more_) devices.Add(more->bytes());
    absl::StatusOr<std::unique_ptr<Timeline>> timeline =
        BuildTimeline(metadata_, &source, "", &devices);
    EXPECT_TRUE(timeline.ok()) << timeline.status();
    timeline_ = *std::move(timeline);
    EXPECT_TRUE(timeline_->ledger().ConservationHolds());
    EXPECT_TRUE(timeline_->device_ledger().ConservationHolds());
    return *timeline_;
  }
  const DeviceActivity& At(uint32_t index) const {
    return timeline_->device_activities().at(index);
  }
  std::string NameAt(uint32_t index) const { return timeline_->device_name(At(index).name); }
  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    for (uint32_t i = 0; i < timeline_->device_activities().size(); ++i) names.push_back(NameAt(i));
    return names;
  }
  std::string CallOf(uint32_t index) const {
    return At(index).call == kNoSpan ? "" : PathOf(*timeline_, Raw(At(index).call));
  }
  std::string OperatorOf(uint32_t index) const {
    return At(index).op == kNoSpan ? "" : NameOf(*timeline_, Raw(At(index).op));
  }

  CaptureMetadata metadata_ = TestMetadata();
  RecordMaker cpu_;
  GpuRecordMaker gpu_;
  std::vector<GpuRecordMaker*> more_;
  std::unique_ptr<Timeline> timeline_;
};

TEST_F(DeviceTest, KernelIsLinkedToItsCallAndOperator) {
  cpu_.Begin(kThread, 1000, 1, 0);
  cpu_.Begin(kThread, 1100, 2, 1);
  cpu_.End(kThread, 1900, 2, 1);
  cpu_.End(kThread, 2000, 1, 0);
  const uint64_t launch = gpu_.Name("cudaLaunchKernel_v7000");
  const uint64_t kernel = gpu_.Name("_Z9my_kernelPfi");
  gpu_.Kernel(1500, 2500, kernel, 42);  // CUPTI gives what devices do before or after the calls
  gpu_.Call(kThread, 1200, 1400, launch, 42);
  const Timeline& timeline = Build();
  EXPECT_THAT(Paths(timeline),
              ElementsAre("aten::a", "aten::a>aten::b", "aten::a>aten::b>cudaLaunchKernel"));
  const Span& call = timeline.span(SpanId{2});
  EXPECT_EQ(call.start_ns, 1200);
  EXPECT_EQ(call.duration_ns, 200);
  EXPECT_EQ(timeline.label(call.label).category, Category::kCudaRuntime);
  EXPECT_EQ(timeline.columns().cuda_call.at(SpanId{2}).correlation, 42u);
  EXPECT_EQ(timeline.columns().cuda_call.at(SpanId{2}).callback, 211u);
  EXPECT_EQ(timeline.span(SpanId{1}).self_ns, 600) << "a call takes from its operator's self time";
  ASSERT_THAT(Names(), ElementsAre("my_kernel(float*, int)"));
  EXPECT_EQ(At(0).start_ns, 1500);
  EXPECT_EQ(At(0).duration_ns, 1000);
  EXPECT_EQ(CallOf(0), "aten::a>aten::b>cudaLaunchKernel");
  EXPECT_EQ(OperatorOf(0), "aten::b");
  EXPECT_TRUE(At(0).is_first_of_call);
  EXPECT_EQ(timeline.columns().device_ns.at(SpanId{1}), 1000);
  EXPECT_EQ(timeline.columns().device_ns.at(SpanId{0}), 0) << "children are not its own";
  EXPECT_EQ(timeline.device_ledger().records, 4u);
  EXPECT_EQ(timeline.device_ledger().merged, 4u);
}

TEST_F(DeviceTest, EveryKindHasItsNameAndValues) {
  gpu_.Device(0, gpu_.Name("NVIDIA A100"));
  gpu_.Context(GpuRecordMaker::kContext, 0);
  gpu_.Memcpy(100, 200, 1, 4096, 1, 1, 3);
  gpu_.Memcpy(200, 300, 2, 64, 99, 77, 3);
  gpu_.Memset(300, 310, 3, 512);
  gpu_.Graph(400, 500, 4, 9);
  gpu_.Sync(600, 700, 3, 5, 7);
  gpu_.Event(800, 6, 33);
  gpu_.Sync(810, 820, 2, 7, 8, 33);
  gpu_.Overhead(900, 910, 5u << 16);
  gpu_.Memory(1000, 1, 0x7f00, 1 << 20);
  gpu_.Pool(1100, 1, 0x8000, 0);
  gpu_.Marker(kThread, 1200, gpu_.Name("load"), 5, 2);
  gpu_.Marker(kThread, 1300, 0, 5, 4);
  const Timeline& timeline = Build();
  EXPECT_THAT(Names(), ElementsAre("Memcpy HtoD (Pageable -> Device)",
                                   "Memcpy <unknown> (Unrecognized -> Device)", "Memset (Device)",
                                   "CUDA Graph", "Stream Sync", "cudaEvent", "Stream Wait Event",
                                   "Lazy Function Loading", "Memory Allocation (Device)",
                                   "Memory Pool Created", "load"));
  EXPECT_EQ(At(0).bytes, 4096u);
  EXPECT_EQ(At(3).graph, 9u);
  EXPECT_EQ(At(4).device, 0u) << "by its context";
  EXPECT_EQ(At(6).awaited_stream, GpuRecordMaker::kStream);
  EXPECT_EQ(At(6).awaited_correlation, 6u);
  EXPECT_EQ(At(8).address, 0x7f00u);
  EXPECT_EQ(At(10).duration_ns, 100);
  ASSERT_EQ(timeline.devices().size(), 1u);
  EXPECT_EQ(timeline.devices()[0].name, "NVIDIA A100");
  EXPECT_EQ(timeline.devices()[0].multiprocessors, 108u);
  EXPECT_EQ(timeline.device_ledger().unlinked, 4u) << "work without calls";
}

TEST_F(DeviceTest, WorkThatHasNotEndedIsNoRowAndNoLoss) {
  const uint64_t name = gpu_.Name("k");
  gpu_.Kernel(0, 0, name, 1);
  gpu_.Kernel(100, 0, name, 2);
  gpu_.Memcpy(0, 0, 3, 4096, 1, 1, 3);
  gpu_.Memset(0, 0, 4, 512);
  gpu_.Graph(0, 0, 5, 9);
  gpu_.Sync(100, 0, 3, 6, 7);
  gpu_.Kernel(100, 200, name, 7);
  const Timeline& timeline = Build();
  EXPECT_EQ(timeline.device_activities().size(), 1u);
  EXPECT_EQ(timeline.device_ledger().unfinished, 6u);
  EXPECT_EQ(timeline.device_ledger().malformed, 0u);
  EXPECT_FALSE(timeline.device_ledger().AnyLoss());
}

TEST_F(DeviceTest, RangesArePairedByTimeWhicheverRecordComesFirst) {
  constexpr uint32_t kOther = kThread + 1;
  gpu_.Marker(kOther, 1300, 0, 5, 4);  // the buffer of the thread that ends it comes first
  gpu_.Marker(kThread, 1200, gpu_.Name("across"), 5, 2);
  gpu_.Marker(kOther, 1600, gpu_.Name("again"), 5, 2);  // the id is used once more
  gpu_.Marker(kOther, 1700, 0, 5, 4);
  gpu_.Marker(kThread, 1150, 0, 5, 4);  // of one that began before
  gpu_.Marker(kThread, 1900, gpu_.Name("open"), 5, 2);
  Build();
  ASSERT_THAT(Names(), ElementsAre("across", "again"));
  EXPECT_EQ(At(0).start_ns, 1200);
  EXPECT_EQ(At(0).duration_ns, 100);
  EXPECT_EQ(At(1).duration_ns, 100);
  EXPECT_EQ(timeline_->device_ledger().outside_window, 2u);
}

TEST_F(DeviceTest, DevicesOfOlderCapturesHaveNoUuid) {
  gpu_.OldDevice(0, gpu_.Name("NVIDIA A100"));
  gpu_.Device(1, gpu_.Name("NVIDIA A100"), 7);
  const Timeline& timeline = Build();
  ASSERT_EQ(timeline.devices().size(), 2u);
  EXPECT_EQ(timeline.devices()[0].name, "NVIDIA A100");
  EXPECT_EQ(timeline.devices()[0].max_shared_bytes_optin, 166912u);
  EXPECT_EQ(timeline.devices()[0].uuid[15], 0);
  EXPECT_EQ(timeline.devices()[1].uuid[15], 7);
  EXPECT_EQ(timeline.device_ledger().malformed, 0u);
}

TEST_F(DeviceTest, DriverCallInsideOfARuntimeCallIsNoRow) {
  cpu_.Begin(kThread, 1000, 1, 0);
  cpu_.End(kThread, 2000, 1, 0);
  const uint64_t runtime = gpu_.Name("cudaLaunchKernelExC_v11060");
  const uint64_t driver = gpu_.Name("cuLaunchKernelEx");
  gpu_.Call(kThread, 1120, 1180, driver, 8, abi::PT_GPU_DRIVER);
  gpu_.Call(kThread, 1100, 1200, runtime, 7);
  gpu_.Call(kThread, 1300, 1400, driver, 9, abi::PT_GPU_DRIVER);
  gpu_.Kernel(1500, 1600, gpu_.Name("k"), 8);
  const Timeline& timeline = Build();
  EXPECT_THAT(Paths(timeline),
              ElementsAre("aten::a", "aten::a>cudaLaunchKernelExC", "aten::a>cuLaunchKernelEx"));
  EXPECT_EQ(CallOf(0), "aten::a>cudaLaunchKernelExC") << "the row that the hidden call is part of";
  EXPECT_EQ(timeline.span(SpanId{0}).self_ns, 800);
}

TEST_F(DeviceTest, CallsThatKinetoLeavesOutAreNoRows) {
  cpu_.Begin(kThread, 1000, 1, 0);
  cpu_.End(kThread, 2000, 1, 0);
  gpu_.Call(kThread, 1100, 1110, gpu_.Name("cudaGetDevice_v3020"), 1);
  gpu_.Call(kThread, 1120, 1130, gpu_.Name("cuGetProcAddress_v2"), 2, abi::PT_GPU_DRIVER);
  gpu_.Call(kThread, 1140, 1150, gpu_.Name("cuMemcpyHtoDAsync_v2"), 3, abi::PT_GPU_DRIVER);
  EXPECT_THAT(Paths(Build()), ElementsAre("aten::a", "aten::a>cuMemcpyHtoDAsync_v2"));
  EXPECT_EQ(timeline_->device_ledger().merged, 6u);
}

TEST_F(DeviceTest, CallOutsideOfAnyOperatorOrKnownProcessIsARowOfItsOwn) {
  GpuRecordMaker other(777);
  other.Call(778, 500, 600, other.Name("cudaFree_v3020"), 3);
  more_.push_back(&other);
  gpu_.Call(55, 100, 200, gpu_.Name("cudaMalloc_v3020"), 3);
  EXPECT_THAT(Paths(Build()), ElementsAre("cudaMalloc", "cudaFree"));
  EXPECT_EQ(timeline_->thread(timeline_->span(SpanId{1}).thread).pid, Pid{777});
}

TEST_F(DeviceTest, CallThatOutlivesItsOperatorOverlaps) {
  cpu_.Begin(kThread, 1000, 1, 0);
  cpu_.End(kThread, 1500, 1, 0);
  cpu_.Begin(kThread, 1550, 2, 0);
  cpu_.End(kThread, 1800, 2, 0);
  gpu_.Call(kThread, 1400, 1510, gpu_.Name("cudaFree_v3020"), 3);
  const Timeline& timeline = Build();
  EXPECT_THAT(Paths(timeline), ElementsAre("aten::a", "cudaFree", "aten::b"));
  EXPECT_TRUE(timeline.span(SpanId{1}).overlaps);
  EXPECT_EQ(timeline.span(SpanId{0}).self_ns, 500) << "as in torch";
  EXPECT_EQ(timeline.columns().shared_ns.at(SpanId{0}), 100);
  EXPECT_EQ(timeline.ledger().partial_overlap, 1u);
}

TEST_F(DeviceTest, WorkBelongsToTheLastCallWithItsIdBeforeIt) {
  const uint64_t launch = gpu_.Name("cudaLaunchKernel_v7000");
  const uint64_t kernel = gpu_.Name("k");
  cpu_.Begin(kThread, 1000, 1, 0);
  cpu_.End(kThread, 2000, 1, 0);
  cpu_.Begin(kThread, 3000, 2, 0);
  cpu_.End(kThread, 4000, 2, 0);
  gpu_.Call(kThread, 1100, 1200, launch, 5);
  gpu_.Call(kThread, 3100, 3200, launch, 5);  // the ids began anew
  gpu_.Kernel(2500, 2600, kernel, 5);
  gpu_.Kernel(3500, 3600, kernel, 5);
  gpu_.Kernel(1090, 1095, kernel, 5);  // by the device's clock a little before its call
  gpu_.Kernel(900, 950, kernel, 6);    // launched before the recording
  Build();
  EXPECT_EQ(OperatorOf(0), "");
  EXPECT_EQ(OperatorOf(1), "aten::a");
  EXPECT_EQ(OperatorOf(2), "aten::a");
  EXPECT_EQ(OperatorOf(3), "aten::b");
  EXPECT_EQ(timeline_->device_ledger().unlinked, 1u);
}

TEST_F(DeviceTest, AClockThatIsFarBehindUnlinksNothingWhereOneCallHasTheId) {
  constexpr int64_t kBehindNs = 1'500'000;
  const uint64_t launch = gpu_.Name("cudaLaunchKernel_v7000");
  const uint64_t kernel = gpu_.Name("k");
  cpu_.Begin(kThread, 2'000'000, 1, 0);
  cpu_.End(kThread, 2'001'000, 1, 0);
  cpu_.Begin(kThread, 3'000'000, 2, 0);
  cpu_.End(kThread, 3'001'000, 2, 0);
  gpu_.Call(kThread, 2'000'100, 2'000'200, launch, 5);
  gpu_.Call(kThread, 3'000'100, 3'000'200, launch, 6);
  gpu_.Call(kThread, 3'000'300, 3'000'400, launch, 6);
  gpu_.Kernel(2'000'150 - kBehindNs, 2'000'160 - kBehindNs, kernel, 5);
  gpu_.Kernel(3'000'150 - kBehindNs, 3'000'160 - kBehindNs, kernel, 6);  // it may be of any
  Build();
  EXPECT_EQ(OperatorOf(0), "aten::a");
  EXPECT_EQ(OperatorOf(1), "");
  EXPECT_EQ(timeline_->device_ledger().unlinked, 1u);
}

TEST_F(DeviceTest, AllWorkOfAGraphIsChargedToItsLaunch) {
  cpu_.Begin(kThread, 1000, 1, 0);
  cpu_.End(kThread, 2000, 1, 0);
  gpu_.Call(kThread, 1100, 1200, gpu_.Name("cudaGraphLaunch_v10000"), 5);
  const uint64_t kernel = gpu_.Name("k");
  for (int i = 0; i < 3; ++i) {
    abi::pt_gpu_kernel_record record =
        GpuRecordMaker::KernelRecord(2000 + i * 100, 2050 + i * 100, kernel, 5);
    record.graph = 4;
    record.graph_node = uint64_t{100} + static_cast<uint64_t>(i);
    gpu_.Add(record);
  }
  const Timeline& timeline = Build();
  ASSERT_EQ(timeline.device_activities().size(), 3u);
  for (uint32_t i = 0; i < 3; ++i) {
    EXPECT_EQ(CallOf(i), "aten::a>cudaGraphLaunch");
    EXPECT_EQ(At(i).graph_node, 100u + i);
    EXPECT_EQ(At(i).is_first_of_call, i == 0);
  }
  EXPECT_EQ(timeline.columns().device_ns.at(SpanId{0}), 150);
}

TEST_F(DeviceTest, ProcessesAndDevicesAreApart) {
  ProcessEntry second = metadata_.processes[0];
  second.target.pid = Pid{200};
  metadata_.processes.push_back(second);
  RecordMaker other_cpu(200);
  other_cpu.Begin(9, 1000, 2, 0);
  other_cpu.End(9, 2000, 2, 0);
  cpu_.Begin(kThread, 1000, 1, 0);
  cpu_.End(kThread, 2000, 1, 0);
  cpu_.bytes().insert(cpu_.bytes().end(), other_cpu.bytes().begin(), other_cpu.bytes().end());
  GpuRecordMaker other(200);
  // The same ids of names and calls in both.
  gpu_.Call(kThread, 1100, 1200, gpu_.Name("cudaLaunchKernel_v7000"), 5);
  other.Call(9, 1150, 1250, other.Name("cudaLaunchKernelExC_v11060"), 5);
  gpu_.Kernel(1300, 1400, gpu_.Name("first"), 5, 0);
  other.Kernel(1350, 1450, other.Name("second"), 5, 1);
  more_.push_back(&other);
  Build();
  ASSERT_THAT(Names(), ElementsAre("first", "second"));
  EXPECT_EQ(CallOf(0), "aten::a>cudaLaunchKernel");
  EXPECT_EQ(CallOf(1), "aten::b>cudaLaunchKernelExC");
  EXPECT_EQ(At(1).device, 1u);
  EXPECT_EQ(At(1).pid, Pid{200});
}

TEST_F(DeviceTest, AnnotationSpansItsWorkOnEachStream) {
  cpu_.AnnotationBegin(kThread, 1000, "outer");
  cpu_.AnnotationHandle(kThread, 1001, 0x51);
  cpu_.AnnotationBegin(kThread, 1100, "step");
  cpu_.AnnotationHandle(kThread, 1101, 0x52);
  cpu_.Begin(kThread, 1200, 1, 0);
  cpu_.End(kThread, 1900, 1, 0);
  cpu_.AnnotationEnd(kThread, 2000, 0x52);
  cpu_.AnnotationEnd(kThread, 2100, 0x51);
  const uint64_t launch = gpu_.Name("cudaLaunchKernel_v7000");
  const uint64_t kernel = gpu_.Name("k");
  for (uint32_t i = 0; i < 3; ++i)
    gpu_.Call(kThread, 1300 + i * 100, 1310 + i * 100, launch, 1 + i);
  gpu_.Kernel(3000, 3100, kernel, 1);
  gpu_.Kernel(3200, 3500, kernel, 2);
  gpu_.Kernel(3300, 3400, kernel, 3, 0, 20);
  const Timeline& timeline = Build();
  ASSERT_EQ(timeline.device_annotations().size(), 2u);
  const DeviceAnnotation& first = timeline.device_annotations()[0];
  EXPECT_EQ(NameOf(timeline, Raw(first.annotation)), "step") << "the innermost one, as in Kineto";
  EXPECT_EQ(first.stream, GpuRecordMaker::kStream);
  EXPECT_EQ(first.start_ns, 3000);
  EXPECT_EQ(first.end_ns, 3500);
  EXPECT_EQ(timeline.device_annotations()[1].stream, 20u);
}

TEST_F(DeviceTest, ExternalIdsGiveAnOperatorToWorkWithoutACall) {
  cpu_.Begin(kThread, 1000, 1, 0);
  cpu_.End(kThread, 2000, 1, 0);
  gpu_.Call(kThread, 1100, 1200, gpu_.Name("cudaLaunchKernel_v7000"), 5);
  gpu_.External(5, 900);
  gpu_.External(6, 900);
  gpu_.External(7, 900, 4);  // of another kind: not an operator's
  gpu_.Kernel(1300, 1400, gpu_.Name("k"), 6);
  gpu_.Kernel(1500, 1600, gpu_.Name("k"), 7);
  Build();
  EXPECT_EQ(OperatorOf(0), "aten::a");
  EXPECT_EQ(CallOf(0), "");
  EXPECT_EQ(OperatorOf(1), "");
  EXPECT_EQ(timeline_->device_ledger().unlinked, 1u);
}

TEST_F(DeviceTest, NamesComeInPartsAndMissingOnesAreCounted) {
  const std::string long_name(5000, 'n');
  const uint64_t name = gpu_.Name(long_name);
  gpu_.Kernel(100, 200, name, 1);
  gpu_.Kernel(300, 400, 4711, 2);  // its name never came
  gpu_.AddNamePart(90, long_name, 0, 5000);
  gpu_.AddNamePart(90, long_name, 2 * PT_GPU_TEXT_BYTES, 5000);  // the second part is missing
  gpu_.Kernel(500, 600, 90, 3);
  gpu_.Kernel(700, 800, 0, 4);
  Build();
  EXPECT_EQ(NameAt(0), std::string(4096, 'n') + "…");
  for (uint32_t i = 1; i < 4; ++i) EXPECT_EQ(NameAt(i), "<unknown kernel>");
  EXPECT_EQ(timeline_->device_ledger().unnamed, 3u);
  EXPECT_EQ(timeline_->device_ledger().names_cut, 1u);
  EXPECT_TRUE(timeline_->any_loss());
}

TEST_F(DeviceTest, RecordsWithImpossibleContentsAreCountedAndNotShown) {
  const uint64_t name = gpu_.Name("k");
  gpu_.Kernel(200, 100, name, 1);            // ends before it begins
  gpu_.Kernel(0, 100, name, 1);              // no begin
  gpu_.Kernel(100, INT64_MAX, name, 1);      // no machine runs that long
  gpu_.Kernel(100, 200, name, 1, 70000);     // no such device
  gpu_.Call(kThread, 100, 200, name, 1, 9);  // neither Runtime nor Driver
  gpu_.AddNamePart(5, "text", 0, PT_GPU_NAME_LIMIT + 1);
  gpu_.AddNamePart(5, "text", 900, 4);
  gpu_.AddNamePart(5, "text", 0, 100);  // shorter than it says
  gpu_.Clock(200, 100, 100);
  gpu_.Add(GpuRecordMaker::Head(abi::PT_GPU_KERNEL, 0, 100));  // cut off
  gpu_.Add(GpuRecordMaker::Head(200, 0, 100));                 // of a kind that is not known yet
  gpu_.bytes().resize(gpu_.bytes().size() + 8);                // not even a head
  const Timeline& timeline = Build();
  EXPECT_EQ(timeline.device_ledger().records, 13u);
  EXPECT_EQ(timeline.device_ledger().malformed, 11u);
  EXPECT_EQ(timeline.device_ledger().unknown, 1u);
  EXPECT_EQ(timeline.device_activities().size(), 0u);
}

TEST_F(DeviceTest, WindowHoldsWhatItsCallsAskedFor) {
  metadata_.has_end = true;
  metadata_.info.window.start_ns = 1000;
  metadata_.info.window.duration_ns = 1000;
  cpu_.Begin(kThread, 1100, 1, 0);
  cpu_.End(kThread, 1900, 1, 0);
  const uint64_t launch = gpu_.Name("cudaLaunchKernel_v7000");
  const uint64_t kernel = gpu_.Name("k");
  gpu_.Call(kThread, 900, 950, launch, 1);
  gpu_.Call(kThread, 1200, 1300, launch, 2);
  gpu_.Call(kThread, 2100, 2200, launch, 3);
  gpu_.Kernel(950, 960, kernel, 1);
  gpu_.Kernel(1050, 1060, kernel, 1);  // in the window, its call before it
  gpu_.Kernel(2500, 2600, kernel, 2);  // late work of a call in the window
  gpu_.Kernel(2700, 2800, kernel, 3);
  Build();
  ASSERT_EQ(timeline_->device_activities().size(), 2u);
  EXPECT_EQ(At(0).start_ns, 1050);
  EXPECT_EQ(At(0).call, kNoSpan);
  EXPECT_EQ(OperatorOf(1), "aten::a");
  EXPECT_EQ(timeline_->device_ledger().outside_window, 4u);
  EXPECT_EQ(timeline_->device_ledger().unlinked, 1u);
  EXPECT_THAT(Paths(*timeline_), ElementsAre("aten::a", "aten::a>cudaLaunchKernel"));
}

TEST_F(DeviceTest, BuffersMayComeInAnyOrder) {
  for (int i = 0; i < 20; ++i) {
    cpu_.Begin(kThread, 1000 + i * 100, 1, 0);
    cpu_.End(kThread, 1090 + i * 100, 1, 0);
  }
  const uint64_t launch = gpu_.Name("cudaLaunchKernel_v7000");
  const uint64_t kernel = gpu_.Name("k");
  GpuRecordMaker late;
  for (int i = 19; i >= 0; --i) {
    const auto correlation = static_cast<uint32_t>(i + 1);
    (i % 2 == 0 ? gpu_ : late).Kernel(5000 + i * 10, 5005 + i * 10, kernel, correlation);
    (i % 3 == 0 ? gpu_ : late).Call(kThread, 1020 + i * 100, 1030 + i * 100, launch, correlation);
  }
  more_.push_back(&late);
  const Timeline& timeline = Build();
  ASSERT_EQ(timeline.span_count(), 40u);
  ASSERT_EQ(timeline.device_activities().size(), 20u);
  for (uint32_t i = 0; i < 20; ++i) {
    EXPECT_EQ(At(i).start_ns, 5000 + i * 10);
    EXPECT_EQ(timeline.span(At(i).op).start_ns, 1000 + i * 100);
  }
}

TEST_F(DeviceTest, LossesOfAgentsAreCounted) {
  GpuAgent agent;
  agent.pid = Pid{RecordMaker::kPid};
  agent.ring_records = 5;
  agent.ring_dropped = 3;
  agent.cupti_dropped = 2;
  metadata_.info.gpu_agents.push_back(agent);
  metadata_.has_end = true;
  metadata_.info.window.duration_ns = 10'000;
  gpu_.Count(abi::PT_GPU_DROPPED, 7);  // more than its last words told
  gpu_.Count(abi::PT_GPU_UNKNOWN, 4);
  gpu_.Clock(100, 1100, 150);
  gpu_.Clock(200, 1230, 220);
  const Timeline& timeline = Build();
  const DeviceLedger& ledger = timeline.device_ledger();
  EXPECT_EQ(ledger.ring_dropped, 3u);
  EXPECT_EQ(ledger.cupti_dropped, 7u);
  EXPECT_EQ(ledger.unread, 4u);
  EXPECT_EQ(ledger.missing, 1u) << "five were handed over, four came";
  ASSERT_EQ(timeline.device_clocks().size(), 1u);
  EXPECT_EQ(timeline.device_clocks()[0].least_ns, 1010);
  EXPECT_EQ(timeline.device_clocks()[0].most_ns, 1000) << "looks that do not agree are shown so";
}

TEST_F(DeviceTest, RecordingWithoutAgentHasNoDeviceLedger) {
  cpu_.Begin(kThread, 1000, 1, 0);
  cpu_.End(kThread, 2000, 1, 0);
  const Timeline& timeline = Build();
  EXPECT_FALSE(timeline.has_device_records());
  EXPECT_THAT(timeline.device_names(), IsEmpty());
}

}  // namespace
}  // namespace proftrace
