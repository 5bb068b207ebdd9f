// What a GPU did in the table, the CSV files and the trace.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "exporters/args/args_text.h"
#include "exporters/formats.h"
#include "exporters/tables/csv.h"
#include "exporters/text/summary_json.h"
#include "exporters/text/system_views.h"
#include "exporters/traces/chrome_trace.h"
#include "tests/support/gpu_record_maker.h"
#include "tests/support/system_record_maker.h"
#include "tests/unit/pipeline/timeline.h"
#include "userspace/aggregate/occupancy.h"
#include "userspace/aggregate/python_text.h"

namespace proftrace {
namespace {

using Json = nlohmann::ordered_json;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

constexpr uint32_t kThread = 1;

class DeviceOutputTest : public testing::Test {
 protected:
  DeviceOutputTest() {
    launch_ = gpu_.Name("cudaLaunchKernel_v7000");
    kernel_ = gpu_.Name("_Z6kernelv");
  }

  const Timeline& Build() {
    VectorSource source;
    source.Add(cpu_.bytes());
    VectorSource devices;
    devices.Add(gpu_.bytes());
    for (GpuRecordMaker* more : more_) devices.Add(more->bytes());
    timeline_ = *BuildTimeline(metadata_, &source, "", &devices);
    return *timeline_;
  }
  // A kernel of an operator in another, one of a call alone, one without a call.
  void WorkInOperatorsAndOutside() {
    cpu_.Begin(kThread, 500, 3, 0);
    Operator(1000, 1, 1, 1, 2000);
    cpu_.End(kThread, 9000, 3, 0);
    gpu_.Call(kThread, 20'100, 20'200, launch_, 2);  // in no operator
    gpu_.Kernel(30'000, 33'000, kernel_, 2);
    gpu_.Kernel(40'000, 44'000, kernel_, 3);
  }
  // An operator that launches a kernel of `device_ns`, 10 us after `start_ns`.
  void Operator(int64_t start_ns, uint16_t site, uint32_t depth, uint32_t correlation,
                int64_t device_ns) {
    cpu_.Begin(kThread, start_ns, site, depth);
    cpu_.End(kThread, start_ns + 1000, site, depth);
    gpu_.Call(kThread, start_ns + 100, start_ns + 200, launch_, correlation);
    gpu_.Kernel(start_ns + 10'000, start_ns + 10'000 + device_ns, kernel_, correlation);
  }
  KeyAverages Averages() { return BuildKeyAverages(Build(), {}); }
  static const KeyAverage* Find(const KeyAverages& averages, const std::string& name,
                                bool is_device = false) {
    for (const KeyAverage& row : averages.rows) {
      if (row.name == name && row.is_device == is_device) return &row;
    }
    return nullptr;
  }
  Json Trace() {
    StringSink sink;
    EXPECT_TRUE(ExportChromeTrace(Build(), sink, {}, {}, {}, {}, /*cuda_sync_rows=*/true).ok());
    return Json::parse(sink.text());
  }
  static std::vector<Json> WithCategory(const Json& trace, const std::string& category) {
    std::vector<Json> events;
    for (const Json& event : trace["traceEvents"]) {
      if (event.value("cat", "") == category) events.push_back(event);
    }
    return events;
  }
  std::string Text(absl::Status (*write)(const ExportInput&, ByteSink&)) {
    const Aggregates aggregates = Aggregate(Build(), {});
    const TableOptions table;
    StringSink sink;
    EXPECT_TRUE(write({*timeline_, aggregates, table}, sink).ok());
    return sink.text();
  }

  CaptureMetadata metadata_ = TestMetadata();
  SystemRecordMaker cpu_;
  GpuRecordMaker gpu_;
  std::vector<GpuRecordMaker*> more_;
  uint64_t launch_ = 0;
  uint64_t kernel_ = 0;
  std::unique_ptr<Timeline> timeline_;
};

TEST_F(DeviceOutputTest, OperatorHasTheDeviceTimeOfItsChildren) {
  cpu_.Begin(kThread, 1000, 1, 0);
  gpu_.Call(kThread, 1100, 1200, launch_, 1);
  gpu_.Kernel(50'000, 50'300, kernel_, 1);
  Operator(2000, 2, 1, 2, 500);
  cpu_.End(kThread, 9000, 1, 0);
  Operator(20'000, 2, 0, 3, 700);
  const KeyAverages averages = Averages();
  const KeyAverage* outer = Find(averages, "aten::a");
  const KeyAverage* inner = Find(averages, "aten::b");
  const KeyAverage* kernel = Find(averages, "kernel()", true);
  ASSERT_NE(kernel, nullptr);
  EXPECT_EQ(outer->self_device_time_total_ns, 300);
  EXPECT_EQ(outer->device_time_total_ns, 800);
  EXPECT_EQ(inner->self_device_time_total_ns, 1200);
  EXPECT_DOUBLE_EQ(inner->device_time_us(), 0.6);
  EXPECT_EQ(kernel->count, 3u);
  EXPECT_EQ(kernel->self_device_time_total_ns, 1500);
  EXPECT_EQ(kernel->cpu_time_total_ns, 0);
  EXPECT_EQ(averages.self_device_time_total_ns, 1500);
  EXPECT_EQ(Find(averages, "cudaLaunchKernel")->device_time_total_ns, 0) << "as in torch";
}

TEST_F(DeviceOutputTest, FoldedChildLiftsItsKernels) {
  cpu_.Begin(kThread, 1000, 1, 0);
  Operator(2000, 1, 1, 1, 500);
  cpu_.End(kThread, 9000, 1, 0);
  const KeyAverages averages = Averages();
  const KeyAverage* row = Find(averages, "aten::a");
  EXPECT_EQ(row->count, 1u);
  EXPECT_EQ(row->self_device_time_total_ns, 500);
  EXPECT_EQ(row->device_time_total_ns, 500);
}

TEST_F(DeviceOutputTest, AnnotationsOnADeviceAreRowsOutsideOfTheSum) {
  cpu_.AnnotationBegin(kThread, 500, "ProfilerStep#4");
  cpu_.AnnotationHandle(kThread, 510, 0x51);
  Operator(1000, 1, 0, 1, 500);
  Operator(3000, 1, 0, 2, 500);
  cpu_.AnnotationEnd(kThread, 9000, 0x51);
  const KeyAverages averages = Averages();
  const KeyAverage* on_device = Find(averages, "ProfilerStep*", true);
  ASSERT_NE(on_device, nullptr);
  EXPECT_TRUE(on_device->is_user_annotation);
  EXPECT_EQ(on_device->device_time_total_ns, 2500) << "from the first to the last";
  EXPECT_EQ(Find(averages, "ProfilerStep*")->device_time_total_ns, 1000);
  EXPECT_EQ(Find(averages, "ProfilerStep*")->self_device_time_total_ns, 0);
  EXPECT_EQ(averages.self_device_time_total_ns, 1000);
}

TEST_F(DeviceOutputTest, WaitsAreNoDeviceTimeAndOverheadIsTheCpus) {
  Operator(1000, 1, 0, 1, 500);
  gpu_.Sync(2000, 9000, 3, 9, 7);
  gpu_.Overhead(3000, 3400, 4u << 16);
  const KeyAverages averages = Averages();
  EXPECT_EQ(averages.self_device_time_total_ns, 500);
  EXPECT_EQ(Find(averages, "Stream Sync", true), nullptr);
  const KeyAverage* overhead = Find(averages, "Runtime Triggered Module Loading");
  ASSERT_NE(overhead, nullptr);
  EXPECT_EQ(overhead->self_cpu_time_total_ns, 400);
}

TEST_F(DeviceOutputTest, TableHasTorchsColumns) {
  Operator(1000, 1, 0, 1, 2000);
  gpu_.Memset(40'000, 42'000, 9, 64);
  const std::string text = Text((*FindFormat("table"))->write);
  EXPECT_THAT(text, HasSubstr("CPU time avg     Self CUDA   Self CUDA %    CUDA total  "
                              "CUDA time avg    # of Calls"));
  EXPECT_THAT(text, HasSubstr("2.000us        50.00%       2.000us       2.000us             1"));
  EXPECT_THAT(text, HasSubstr("Self CUDA time total: 4.000us\n"));
  EXPECT_THAT(text, HasSubstr("GPU ledger: records 5, merged 4, unlinked 1\n"));
}

TEST_F(DeviceOutputTest, TableSortsByDeviceTime) {
  Operator(1000, 1, 0, 1, 100);
  Operator(3000, 2, 0, 2, 900);
  const KeyAverages averages = Averages();
  for (const char* key : {"cuda_time_total", "self_cuda_time_total", "self_device_time_total"}) {
    TableOptions options;
    options.sort_by = key;
    ASSERT_TRUE(CheckTableOptions(options).ok()) << key;
    const std::vector<const KeyAverage*> rows = ShownRows(averages, options);
    EXPECT_EQ(rows[0]->name, "kernel()") << key;
    EXPECT_EQ(rows[1]->name, "aten::b") << key;
  }
}

TEST_F(DeviceOutputTest, KeyAveragesCsvHasTheDevice) {
  Operator(1000, 1, 0, 1, 2000);
  const std::string text = Text((*FindFormat("csv"))->write);
  EXPECT_THAT(text, HasSubstr("aten::a,,1,0.900,1.000,1.000,90.0000,100.0000,2.000,2.000,2.000,"
                              "100.0000,,,,,,,,CPU,,0,,,,\n"));
  EXPECT_THAT(text, HasSubstr("kernel(),,1,0.000,0.000,0.000,0.0000,0.0000,2.000,2.000,2.000,"
                              "100.0000,,,,,,,,CUDA,,0,,,,\n"));
}

TEST_F(DeviceOutputTest, RecordingWithoutAgentHasNoDeviceColumns) {
  cpu_.Begin(kThread, 1000, 1, 0);
  cpu_.End(kThread, 2000, 1, 0);
  gpu_.bytes().clear();
  const std::string table = Text((*FindFormat("table"))->write);
  EXPECT_THAT(table, Not(HasSubstr("CUDA")));
  EXPECT_THAT(table, Not(HasSubstr("GPU ledger")));
  EXPECT_THAT(Text((*FindFormat("csv"))->write), HasSubstr("100.0000,100.0000,,,,,"));
  EXPECT_FALSE(Json::parse(Text((*FindFormat("summary"))->write))["events"].contains("kernels"));
}

TEST_F(DeviceOutputTest, TraceHasKinetosRows) {
  gpu_.Device(0, gpu_.Name("A100"));
  Operator(1000, 1, 0, 42, 2000);
  gpu_.Memcpy(20'000, 20'500, 9, 4096, 1, 2, 3);
  const Json trace = Trace();
  EXPECT_EQ(trace["deviceProperties"][0]["numSms"], 108);
  EXPECT_EQ(trace["deviceProperties"][0]["maxThreadsPerMultiprocessor"], 2048);
  const std::vector<Json> kernels = WithCategory(trace, "kernel");
  ASSERT_EQ(kernels.size(), 1u);
  EXPECT_EQ(kernels[0]["name"], "kernel()");
  EXPECT_EQ(kernels[0]["ph"], "X");
  EXPECT_EQ(kernels[0]["pid"], 0);
  EXPECT_EQ(kernels[0]["tid"], 7);
  EXPECT_EQ(kernels[0]["dur"], 2.0);
  const Json& args = kernels[0]["args"];
  EXPECT_EQ(args["External id"], 1);
  EXPECT_EQ(args["correlation"], 42);
  EXPECT_EQ(args["shared memory"], 1536);
  EXPECT_EQ(args["grid"], Json::parse("[64, 2, 1]"));
  EXPECT_EQ(args["est. achieved occupancy %"], 7);
  const std::vector<Json> copies = WithCategory(trace, "gpu_memcpy");
  ASSERT_EQ(copies.size(), 1u);
  EXPECT_EQ(copies[0]["name"], "Memcpy HtoD (Pinned -> Device)");
  EXPECT_EQ(copies[0]["args"]["bytes"], 4096);
  EXPECT_NEAR(copies[0]["args"]["memory bandwidth (GB/s)"].get<double>(), 8.192, 1e-6);
  EXPECT_FALSE(copies[0]["args"].contains("External id")) << "no operator, no id";
  const std::vector<Json> calls = WithCategory(trace, "cuda_runtime");
  ASSERT_EQ(calls.size(), 1u);
  EXPECT_EQ(calls[0]["args"]["cbid"], 211);
  EXPECT_EQ(calls[0]["args"]["correlation"], 42);
  const std::vector<Json> arrows = WithCategory(trace, "ac2g");
  ASSERT_EQ(arrows.size(), 2u) << "none for work without a call";
  EXPECT_EQ(arrows[0]["ph"], "s");
  EXPECT_EQ(arrows[0]["ts"], calls[0]["ts"]);
  EXPECT_EQ(arrows[0]["tid"], calls[0]["tid"]);
  EXPECT_EQ(arrows[1]["ph"], "f");
  EXPECT_EQ(arrows[1]["bp"], "e");
  EXPECT_EQ(arrows[1]["ts"], kernels[0]["ts"]);
  EXPECT_EQ(arrows[0]["id"], 42);
  EXPECT_EQ(arrows[1]["id"], 42);
}

TEST_F(DeviceOutputTest, CallAndItsWorkHaveTheExternalIdOfTheOperatorAround) {
  cpu_.Begin(kThread, 1000, 1, 0);
  cpu_.AnnotationBegin(kThread, 1100, "in it");
  cpu_.AnnotationHandle(kThread, 1110, 0x51);
  gpu_.Call(kThread, 1200, 1300, launch_, 3);
  cpu_.AnnotationEnd(kThread, 1400, 0x51);
  cpu_.End(kThread, 2000, 1, 0);
  gpu_.Kernel(5000, 6000, kernel_, 3);
  const Json trace = Trace();
  EXPECT_EQ(WithCategory(trace, "cuda_runtime")[0]["args"]["External id"], 1);
  EXPECT_EQ(WithCategory(trace, "kernel")[0]["args"]["External id"], 1);
  const std::vector<Json> annotations = WithCategory(trace, "gpu_user_annotation");
  ASSERT_EQ(annotations.size(), 1u);
  EXPECT_EQ(annotations[0]["name"], "in it");
  EXPECT_NEAR(annotations[0]["ts"].get<double>(), 4.999, 1e-6) << "around all that it encloses";
  EXPECT_NEAR(annotations[0]["dur"].get<double>(), 1.002, 1e-6);
}

TEST_F(DeviceOutputTest, RowsOfATrackAlwaysNest) {
  for (uint32_t i = 0; i < 6; ++i) {  // each begins while the two before it run
    gpu_.Kernel(1000 + i * 100, 1250 + i * 100, kernel_, i + 1);
  }
  gpu_.Kernel(1500, 1600, kernel_, 9);
  gpu_.Sync(1000, 2000, 3, 20, 7);  // on the host's time, while the stream works
  const Json trace = Trace();
  std::map<std::pair<int, int>, std::vector<std::pair<double, double>>> tracks;
  size_t kernels = 0;
  for (const Json& event : trace["traceEvents"]) {
    const std::string category = event.value("cat", "");
    if (event["ph"] != "X" || (category != "kernel" && category != "cuda_sync")) continue;
    kernels += category == "kernel" ? 1 : 0;
    EXPECT_EQ(event["args"]["stream"], 7) << "readers go by this";
    tracks[{event["pid"], event["tid"]}].emplace_back(event["ts"], event["dur"]);
  }
  EXPECT_EQ(kernels, 7u);
  EXPECT_EQ(tracks.size(), 4u) << "three at once, and the wait";
  for (const auto& [track, rows] : tracks) {
    for (size_t i = 1; i < rows.size(); ++i) {
      const double end = rows[i - 1].first + rows[i - 1].second;
      const bool nests = rows[i].first + rows[i].second <= end + 1e-4;
      EXPECT_TRUE(rows[i].first >= end - 1e-4 || nests) << track.second;
    }
  }
}

TEST_F(DeviceOutputTest, EveryArrowOfAGraphHasAnIdOfItsOwn) {
  cpu_.Begin(kThread, 1000, 1, 0);
  cpu_.End(kThread, 2000, 1, 0);
  gpu_.Call(kThread, 1100, 1200, gpu_.Name("cudaGraphLaunch_v10000"), 5);
  for (int i = 0; i < 3; ++i) gpu_.Kernel(3000 + i * 100, 3050 + i * 100, kernel_, 5);
  const Json trace = Trace();
  std::multiset<uint64_t> starts;
  std::multiset<uint64_t> ends;
  for (const Json& event : WithCategory(trace, "ac2g")) {
    (event["ph"] == "s" ? starts : ends).insert(event["id"].get<uint64_t>());
  }
  EXPECT_EQ(starts, ends);
  EXPECT_EQ(starts.size(), 3u);
  EXPECT_EQ(std::set<uint64_t>(starts.begin(), starts.end()).size(), 3u);
  EXPECT_TRUE(starts.contains(5)) << "the first has the launch's correlation id";
}

TEST_F(DeviceOutputTest, ProcessesThatShareADeviceHaveTheirOwnTracksAndIds) {
  ProcessEntry second = metadata_.processes[0];
  second.target.pid = Pid{200};
  metadata_.processes.push_back(second);
  GpuRecordMaker other(200);
  Operator(1000, 1, 0, 5, 2000);
  other.Call(9, 1500, 1600, other.Name("cudaLaunchKernel_v7000"), 5);
  other.Kernel(11'500, 13'500, other.Name("_Z6kernelv"), 5);
  more_.push_back(&other);
  const Json trace = Trace();
  const std::vector<Json> kernels = WithCategory(trace, "kernel");
  ASSERT_EQ(kernels.size(), 2u);
  EXPECT_EQ(kernels[0]["pid"], kernels[1]["pid"]);
  EXPECT_NE(kernels[0]["tid"], kernels[1]["tid"]);
  EXPECT_NE(kernels[0]["args"]["correlation"], kernels[1]["args"]["correlation"]);
  std::vector<uint64_t> ids;
  for (const Json& event : WithCategory(trace, "ac2g")) ids.push_back(event["id"]);
  ASSERT_EQ(ids.size(), 4u);
  EXPECT_EQ(ids[0], ids[1]);
  EXPECT_EQ(ids[2], ids[3]);
  EXPECT_NE(ids[0], ids[2]);
}

TEST_F(DeviceOutputTest, DeviceIsNoTrackOfAProcessWithItsNumber) {
  metadata_.processes[0].target.pid = Pid{1};  // in a container, perhaps
  GpuRecordMaker gpu(1);
  gpu.Kernel(1000, 2000, gpu.Name("k"), 1, 1);
  gpu_.bytes() = gpu.bytes();
  const std::vector<Json> kernels = WithCategory(Trace(), "kernel");
  ASSERT_EQ(kernels.size(), 1u);
  EXPECT_NE(kernels[0]["pid"], 1);
}

TEST_F(DeviceOutputTest, FoldedStacksHaveTheTimeOfDevices) {
  WorkInOperatorsAndOutside();
  EXPECT_EQ(Text((*FindFormat("folded-cuda"))->write),
            "[no CUDA call recorded] 4\naten::c;aten::a 2\ncudaLaunchKernel 3\n");
}

TEST_F(DeviceOutputTest, KernelsAreLeavesBelowWhatAskedForThem) {
  WorkInOperatorsAndOutside();
  const Json json = Json::parse(Text((*FindFormat("speedscope"))->write));
  const Json& frames = json["shared"]["frames"];
  std::map<std::string, std::map<std::string, int64_t>> profiles;
  for (const Json& profile : json["profiles"]) {
    for (size_t i = 0; i < profile["samples"].size(); ++i) {
      std::string path;
      for (const size_t frame : profile["samples"][i]) {
        path += (path.empty() ? "" : ";") + std::string(frames[frame]["name"]);
      }
      profiles[profile["name"]][path] = profile["weights"][i];
    }
  }
  const std::string kernel = "kernel()";
  EXPECT_EQ(profiles["GPU time"],
            (std::map<std::string, int64_t>{{"[no CUDA call recorded];" + kernel, 4000},
                                            {"aten::c;aten::a;" + kernel, 2000},
                                            {"cudaLaunchKernel;" + kernel, 3000}}));
  for (const auto& [path, value] : profiles["CPU time"]) {
    EXPECT_EQ(path.find(kernel), std::string::npos) << path;
  }
  EXPECT_EQ(profiles["Count"].count("aten::c;aten::a;" + kernel), 0u) << "counts are of spans";
}

TEST_F(DeviceOutputTest, GapsAreChargedToWhatTheLaunchingThreadDid) {
  const uint64_t synchronize = gpu_.Name("cudaStreamSynchronize_v3020");
  gpu_.Kernel(1000, 2000, kernel_, 100);
  gpu_.Kernel(1500, 2500, kernel_, 101, 0, 9);  // another stream works on: no gap at 2000
  // In order: a wait, Python, the DataLoader, an operator with its launch.
  gpu_.Call(kThread, 2100, 4500, synchronize, 1);
  cpu_.AnnotationBegin(kThread, 6000,
                       "enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__");
  cpu_.AnnotationHandle(kThread, 6010, 0x51);
  cpu_.Begin(kThread, 6500, 2, 0);
  cpu_.End(kThread, 6600, 2, 0);
  cpu_.AnnotationEnd(kThread, 7500, 0x51);
  cpu_.Begin(kThread, 8000, 1, 0);
  gpu_.Call(kThread, 8300, 8500, launch_, 2);
  cpu_.End(kThread, 9000, 1, 0);
  gpu_.Kernel(9500, 10'000, kernel_, 2);
  gpu_.Kernel(10'400, 10'500, kernel_, 3);  // without a call
  const std::vector<DeviceIdle> devices = FindDeviceIdle(Build(), PythonRows());
  ASSERT_EQ(devices.size(), 3u);
  ASSERT_EQ(devices[0].gaps.size(), 2u);
  // Alone, the streams were idle longer: one from 2000 on, the other has done nothing after 2500.
  EXPECT_EQ(devices[1].stream, std::optional<uint32_t>(7));
  ASSERT_EQ(devices[1].gaps.size(), 2u);
  EXPECT_EQ(devices[1].gaps[0].start_ns, 2000);
  EXPECT_EQ(devices[1].gaps[0].end_ns, 9500);
  EXPECT_EQ(devices[1].busy_ns, 1000 + 500 + 100);
  EXPECT_EQ(devices[2].stream, std::optional<uint32_t>(9));
  EXPECT_EQ(devices[2].gaps.size(), 0u);
  const auto cause = [&](size_t gap, IdleCause what) {
    return devices[0].gaps[gap].by_cause_ns[static_cast<size_t>(what)];
  };
  EXPECT_EQ(cause(0, IdleCause::kSynchronizing), 2000);
  EXPECT_EQ(cause(0, IdleCause::kOtherCode), 2000);
  EXPECT_EQ(cause(0, IdleCause::kDataLoader), 1400);
  EXPECT_EQ(cause(0, IdleCause::kOperator), 400);
  EXPECT_EQ(cause(0, IdleCause::kCudaCall), 200);
  EXPECT_EQ(cause(0, IdleCause::kLaunched), 1000);
  EXPECT_EQ(cause(1, IdleCause::kUnknown), 400);
  EXPECT_EQ(devices[0].idle_ns, 7400);
  EXPECT_EQ(devices[0].busy_ns, 1500 + 500 + 100);
  EXPECT_EQ(devices[0].end_ns - devices[0].start_ns, devices[0].idle_ns + devices[0].busy_ns);
  EXPECT_THAT(Text((*FindFormat("table"))->write),
              HasSubstr("GPU 0 of PID 100: idle 0.007 of 0.009 ms (77.9 %); synchronizing call "
                        "27.0 %, outside of operators 27.0 %, DataLoader 18.9 %"));
  EXPECT_THAT(
      Text((*FindFormat("gpu-idle"))->write),
      AllOf(HasSubstr("\n100,0,2500,7000,synchronizing call,400,2000,200,1400,2000,1000,0,1,"
                      "7,kernel(),aten::a,0,0,0,0,0,,\n"),
            HasSubstr("\n100,0,2000,7500,synchronizing call,400,2400,200,1400,2100,1000,0,1,"
                      "7,kernel(),aten::a,0,0,0,0,0,,7\n")));
  EXPECT_THAT(Text((*FindFormat("table"))->write), HasSubstr("GPU 0 of PID 100, stream 7: idle "));
}

// A cause's name with a comma in it is one field.
TEST_F(DeviceOutputTest, GapAfterALaunchIsOneRowOfCsv) {
  gpu_.Kernel(1000, 2000, kernel_, 100);
  gpu_.Call(kThread, 1500, 1600, launch_, 1);
  gpu_.Kernel(2042, 3000, kernel_, 1);
  Build();
  EXPECT_THAT(Text((*FindFormat("gpu-idle"))->write),
              HasSubstr(",42,\"launched, not begun\",0,0,0,0,0,42,0,1,7,kernel(),,0,0,0,0,0,,\n"));
}

// With the kernel's activities: what the operator or Python waited for, but not what a wait for the
// GPU or for data is made of.
TEST_F(DeviceOutputTest, GapsAreChargedToWhatTheKernelDid) {
  constexpr uint16_t kWrite = 1;
  constexpr int32_t kFutex = 202;
  metadata_.info.system = SystemActivities::FromText("cpu,syscalls,sched,faults");
  const uint64_t synchronize = gpu_.Name("cudaStreamSynchronize_v3020");
  gpu_.Kernel(1000, 2000, kernel_, 100);
  gpu_.Call(kThread, 2100, 3000, synchronize, 1);
  cpu_.OffCpu(kThread, 2200, 2900, 100);
  // Python: a file is written, with a wait for a CPU in the middle.
  cpu_.SystemCall(kThread, 3200, 3700, kWrite, 10);
  cpu_.OffCpu(kThread, 3300, 3400, 100);
  // An operator waits for a lock, and meets a page fault.
  cpu_.Begin(kThread, 4000, 1, 0);
  cpu_.SystemCall(kThread, 4100, 5000, kFutex, 0);
  cpu_.OffCpu(kThread, 4200, 4900, 50, kFutex);
  cpu_.Fault(kThread, 5200, 5300);
  gpu_.Call(kThread, 5500, 5600, launch_, 2);
  cpu_.End(kThread, 6000, 1, 0);
  gpu_.Kernel(6000, 7000, kernel_, 2);
  const std::vector<DeviceIdle> devices = FindDeviceIdle(Build(), PythonRows());
  ASSERT_EQ(devices.size(), 1u);
  ASSERT_EQ(devices[0].gaps.size(), 1u);
  const auto cause = [&](IdleCause what) {
    return devices[0].gaps[0].by_cause_ns[static_cast<size_t>(what)];
  };
  EXPECT_EQ(cause(IdleCause::kSynchronizing), 900);
  EXPECT_EQ(cause(IdleCause::kIo), 400);
  EXPECT_EQ(cause(IdleCause::kRunQueue), 100 + 50);
  EXPECT_EQ(cause(IdleCause::kLock), 650);
  EXPECT_EQ(cause(IdleCause::kSystem), 200 + 100);  // the futex call's own time, the fault
  EXPECT_EQ(cause(IdleCause::kOtherCode), 100 + 500);
  EXPECT_EQ(cause(IdleCause::kOperator), 1500 - 900 - 100);
  EXPECT_EQ(cause(IdleCause::kCudaCall), 100);
  EXPECT_EQ(cause(IdleCause::kLaunched), 400);
  EXPECT_EQ(devices[0].idle_ns, 4000);
  EXPECT_THAT(Text((*FindFormat("gpu-idle"))->write),
              HasSubstr("synchronizing call,500,900,100,0,600,400,0,1,7,kernel(),aten::a,400,650,"
                        "150,300,0,,\n"));
}

// With stacks: outside of operators it is Python's functions, by name; a wait in one of them is a
// wait, and the function's.
TEST_F(DeviceOutputTest, GapsAreChargedToPythonByName) {
  constexpr int32_t kPoll = 7;
  metadata_.processes[0].target.python_version = "3.11.2";
  metadata_.processes[0].target.stacks_recorded = true;
  metadata_.info.system = SystemActivities::FromText("cpu,sched");
  cpu_.PythonCode(kThread, 900, 1, 10, "train.py", "main");
  cpu_.PythonCode(kThread, 900, 2, 20, "data.py", "slow");
  const auto in = [&](int64_t ns, std::vector<uint32_t> codes, uint32_t correlation) {
    std::vector<uint64_t> words;
    for (const uint32_t code : codes) words.push_back(RecordMaker::PythonFrameWord(code, 0));
    cpu_.PythonStack(kThread, ns, 0, static_cast<uint16_t>(codes.size()), words);
    cpu_.Begin(kThread, ns, 1, 0);
    cpu_.End(kThread, ns + 200, 1, 0);
    if (correlation != 0) gpu_.Call(kThread, ns + 100, ns + 200, launch_, correlation);
  };
  in(1000, {1}, 1);
  gpu_.Kernel(1200, 2000, kernel_, 1);
  in(3000, {1, 2}, 0);  // from here to 8200 the thread is in slow()
  cpu_.OffCpu(kThread, 4000, 7000, 0, kPoll);
  in(8000, {1, 2}, 0);
  in(9000, {1}, 2);
  gpu_.Kernel(9200, 9900, kernel_, 2);
  const Timeline& timeline = Build();
  const PythonRows python(timeline, StepRows(), "");
  const std::vector<DeviceIdle> devices = FindDeviceIdle(timeline, python);
  ASSERT_EQ(devices.size(), 1u);
  ASSERT_EQ(devices[0].gaps.size(), 1u);
  const IdleGap& gap = devices[0].gaps[0];
  const auto cause = [&](IdleCause what) { return gap.by_cause_ns[static_cast<size_t>(what)]; };
  EXPECT_EQ(cause(IdleCause::kPython), 1000 + (800 + 1000) + 800);
  EXPECT_EQ(cause(IdleCause::kSystem), 3000);
  EXPECT_EQ(cause(IdleCause::kOtherCode), 0);
  EXPECT_EQ(cause(IdleCause::kOperator), 2 * 200 + 100);
  EXPECT_EQ(cause(IdleCause::kCudaCall), 100);
  EXPECT_EQ(PythonFrameText(timeline, gap.python), "data.py(20): slow");
  EXPECT_THAT(Text((*FindFormat("gpu-idle"))->write),
              HasSubstr(",0,0,0,3000,3600,data.py(20): slow,\n"));
  StringSink sink;
  ASSERT_TRUE(ExportSystemView(*timeline_, {SystemView::kGpuIdle, 100, true}, sink).ok());
  const Json rows = Json::parse(sink.text())["rows"];
  ASSERT_EQ(rows.size(), 4u);
  EXPECT_EQ(rows[0]["cause"], "Python");
  EXPECT_EQ(rows[0]["ns"], 3600);
  EXPECT_EQ(rows[0]["stream"], "all");
  EXPECT_EQ(rows[1]["cause"], "other system calls and waits");
  EXPECT_EQ(rows[1]["python_function"], "data.py(20): slow");
}

TEST_F(DeviceOutputTest, EventsCsvHasARowForEachActivity) {
  Operator(1000, 1, 0, 42, 2000);
  gpu_.Memory(5000, 1, 0x7f00, 1 << 20);
  const std::string text = Text((*FindFormat("events-csv"))->write);
  EXPECT_THAT(text, HasSubstr("\n2,,0,Memory Allocation (Device),Memory Allocation (Device),,"
                              "gpu_memory,FUNCTION,100,,,5000,,,CUDA,0,7,,,,,0,"));
  EXPECT_THAT(text, HasSubstr("{\"\"addr\"\": 32512, \"\"bytes\"\": 1048576}\",return\n"));
  EXPECT_THAT(text, HasSubstr("\n3,1,2,\"aten::a/cudaLaunchKernel/kernel()\",kernel(),,kernel,"
                              "FUNCTION,100,1,,11000,2000,2000,CUDA,0,7,42,1,,,0,"));
  const Json summary = Json::parse(Text((*FindFormat("summary"))->write));
  EXPECT_EQ(summary["events"]["kernels"], 1);
  EXPECT_EQ(summary["events"]["gpu_memory"], 1);
  EXPECT_EQ(summary["gpu"]["ledger"]["records"], 5);
}

// A damaged record may have what is no number, for which JSON has no word.
TEST(ArgsTextTest, RealsAreAlwaysNumbers) {
  ArgsText args;
  args.Real("float", 0.1);
  args.Real("double", -1e300);
  args.Real("inf", std::numeric_limits<double>::infinity());
  args.Real("nan", std::numeric_limits<double>::quiet_NaN());
  EXPECT_EQ(args.Take(), R"("float": 0.1, "double": -1e+300, "inf": 0, "nan": 0)");
}

// Figures of NVIDIA's own calculator (cuda_occupancy.h, CUDA 13.0) for an A100.
TEST(OccupancyTest, IsThatOfNvidiasCalculator) {
  GpuDevice device;
  device.compute_major = 8;
  device.multiprocessors = 108;
  device.max_threads_a_block = 1024;
  device.max_warps_a_multiprocessor = 64;
  device.max_blocks_a_multiprocessor = 32;
  device.max_registers_a_block = device.max_registers_a_multiprocessor = 65536;
  device.max_shared_bytes_a_multiprocessor = 167936;
  struct Case {
    int32_t grid;
    int32_t block;
    uint32_t registers;
    int32_t shared;
    std::optional<int> percent;
  };
  for (const Case& one : {Case{10'000, 128, 32, 1536, 100}, Case{128, 128, 32, 1536, 7},
                          Case{10'000, 128, 255, 0, 13}, Case{10'000, 256, 64, 48 << 10, 38},
                          Case{10'000, 32, 16, 0, 50}, Case{10'000, 2048, 16, 0, std::nullopt}}) {
    KernelFacts kernel;
    kernel.grid[0] = one.grid;
    kernel.block[0] = one.block;
    kernel.grid[1] = kernel.grid[2] = kernel.block[1] = kernel.block[2] = 1;
    kernel.registers = one.registers;
    kernel.static_shared_bytes = one.shared;
    const std::optional<KernelLoad> load = LoadOf(kernel, device);
    ASSERT_TRUE(load.has_value());
    EXPECT_EQ(load->occupancy_percent, one.percent) << one.block << " threads";
  }
  EXPECT_FALSE(LoadOf(KernelFacts(), GpuDevice()).has_value());
}

}  // namespace
}  // namespace proftrace
