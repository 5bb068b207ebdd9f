// Processes with GPUs of their own, each of which is number 0 there (CUDA_VISIBLE_DEVICES).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "exporters/args/device_numbers.h"
#include "exporters/traces/chrome_trace.h"
#include "tests/support/gpu_record_maker.h"
#include "tests/unit/pipeline/timeline.h"
#include "userspace/aggregate/device_idle.h"

namespace proftrace {
namespace {

using Json = nlohmann::ordered_json;
using testing::ElementsAre;

class DeviceNumbersTest : public testing::Test {
 protected:
  // Two kernels of 1 us on the process's device 0; `uuid` 0: of an agent that told none.
  void Process(uint32_t pid, uint8_t uuid, int64_t start_ns) {
    GpuRecordMaker gpu(pid);
    if (uuid == 0) {
      gpu.OldDevice(0, gpu.Name("A100"));
    } else {
      gpu.Device(0, gpu.Name("A100"), uuid);
    }
    for (uint32_t i = 0; i < 2; ++i) {
      const int64_t begin_ns = start_ns + i * int64_t{5000};
      gpu.Kernel(begin_ns, begin_ns + 1000, gpu.Name("_Z6kernelv"), i + 1);
    }
    devices_.Add(gpu.bytes());
  }
  const Timeline& Build() {
    VectorSource none;
    timeline_ = *BuildTimeline(TestMetadata(), &none, "", &devices_);
    return *timeline_;
  }
  Json Trace() {
    StringSink sink;
    EXPECT_TRUE(ExportChromeTrace(Build(), sink).ok());
    return Json::parse(sink.text());
  }

  VectorSource devices_;
  std::unique_ptr<Timeline> timeline_;
};

TEST_F(DeviceNumbersTest, EachGpuHasANumberOfItsOwn) {
  Process(4711, 1, 1000);
  Process(4712, 2, 1500);  // another one, at the same time
  Process(4713, 1, 2500);  // the first one's
  const Json trace = Trace();
  std::map<int, std::set<int>> by_process;
  std::map<int, std::string> labels;
  for (const Json& event : trace["traceEvents"]) {
    if (event.value("cat", "") == "kernel") {
      EXPECT_EQ(event["args"]["device"], event["pid"]);
      by_process[event["pid"]].insert(event["tid"].get<int>());
    }
    if (event["name"] == "process_labels") labels[event["pid"]] = event["args"]["labels"];
  }
  ASSERT_EQ(by_process.size(), 2u);
  EXPECT_EQ(by_process[0].size(), 2u) << "two processes share it";
  EXPECT_EQ(by_process[1].size(), 1u);
  EXPECT_EQ(labels[0], "GPU 0");
  EXPECT_EQ(labels[1], "GPU 0 of PID 4712");
  ASSERT_EQ(trace["deviceProperties"].size(), 2u);
  EXPECT_EQ(trace["deviceProperties"][1]["id"], 1);
  // Idle times are told by process, as it numbers its devices.
  const PythonRows python;
  std::set<uint32_t> pids;
  for (const DeviceIdle& idle : FindDeviceIdle(*timeline_, python)) {
    EXPECT_EQ(idle.device, 0u);
    EXPECT_EQ(idle.busy_ns, 2000);
    pids.insert(Raw(idle.pid));
  }
  EXPECT_THAT(pids, ElementsAre(4711u, 4712u, 4713u));
}

TEST_F(DeviceNumbersTest, ANumberOfAProcessIsNotTakenFromIt) {
  Process(4711, 1, 1000);
  Process(4712, 2, 1000);
  GpuRecordMaker gpu(4713);
  gpu.Device(1, gpu.Name("A100"), 3);
  devices_.Add(gpu.bytes());
  const DeviceNumbers numbers(Build());
  EXPECT_EQ(numbers.Of(Pid{4711}, 0), 0u);
  EXPECT_EQ(numbers.Of(Pid{4712}, 0), 2u);
  EXPECT_EQ(numbers.Of(Pid{4713}, 1), 1u);
  EXPECT_EQ(numbers.Of(Pid{4713}, kNowhere), kNowhere);
  EXPECT_EQ(numbers.Label(2), "GPU 0 of PID 4712");
  EXPECT_EQ(numbers.Label(1), "GPU 1");
}

TEST_F(DeviceNumbersTest, DevicesOfOlderCapturesAreTheSameWhereTheirNumbersAre) {
  Process(4711, 0, 1000);
  Process(4712, 0, 1500);
  const DeviceNumbers numbers(Build());
  EXPECT_EQ(numbers.Of(Pid{4712}, 0), 0u);
}

}  // namespace
}  // namespace proftrace
