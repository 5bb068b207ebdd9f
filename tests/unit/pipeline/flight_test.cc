// What a flight recorder keeps is what a recording of the whole has of the same seconds.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "bpf/abi/sample_records.h"
#include "tests/support/gpu_record_maker.h"
#include "tests/support/memory_capture.h"
#include "tests/unit/pipeline/timeline.h"
#include "userspace/wire/flight_keeper.h"

namespace proftrace {
namespace {

using testing::Contains;
using testing::IsEmpty;
using testing::Not;

constexpr int64_t kSecond = 1'000'000'000;
constexpr size_t kRoom = 64u << 20;

// A keeper with a clock of its own, which is set by what comes.
class Flight {
 public:
  explicit Flight(int64_t window_ns, size_t most_bytes = kRoom)
      : window_ns_(window_ns),
        keeper_(FlightLimits{window_ns, most_bytes}, [this] { return now_ns_; }) {}

  void Add(const std::vector<std::byte>& records, int64_t now_ns) {
    now_ns_ = now_ns;
    EXPECT_TRUE(keeper_.AppendRecords(records).ok());
  }
  void AddDevice(const std::vector<std::byte>& records, int64_t now_ns) {
    now_ns_ = now_ns;
    EXPECT_TRUE(keeper_.AppendDeviceRecords(records).ok());
  }
  void Describe(MetadataWriter* metadata, int64_t now_ns) {
    now_ns_ = now_ns;
    EXPECT_TRUE(keeper_.AppendMetadata(metadata->TakeJson()).ok());
  }
  // From when on a dump taken now is whole.
  int64_t start_ns() const {
    return std::max(now_ns_ - window_ns_, keeper_.Take().complete_from_ns);
  }
  std::unique_ptr<CaptureReader> Dump() {
    file_ = std::make_unique<MemoryCapture>();
    EXPECT_TRUE(keeper_.Take().WriteTo({}, file_->Writer().get()).ok());
    return file_->Reader();
  }
  // Its rows, with the tables of `metadata`, from start_ns() on.
  std::unique_ptr<Timeline> Rows(CaptureMetadata metadata = TestMetadata()) {
    metadata.info.window.start_ns = start_ns();
    const std::unique_ptr<CaptureReader> reader = Dump();
    const std::unique_ptr<RecordSource> devices = reader->DeviceRecords();
    auto timeline = BuildTimeline(metadata, reader.get(), "", devices.get());
    EXPECT_TRUE(timeline.ok()) << timeline.status();
    EXPECT_TRUE((*timeline)->ledger().ConservationHolds());
    return *std::move(timeline);
  }
  const FlightKeeper& keeper() const { return keeper_; }

 private:
  int64_t window_ns_;
  int64_t now_ns_ = 0;
  FlightKeeper keeper_;
  std::unique_ptr<MemoryCapture> file_;
};

std::vector<std::byte> Operator(int64_t ns, uint16_t site = 1, uint32_t pid = RecordMaker::kPid) {
  RecordMaker maker(pid);
  maker.Begin(kTid, ns, site, 1);
  maker.End(kTid, ns + 10, site, 1);
  return maker.bytes();
}

TEST(FlightKeeperTest, KeepsTheLastSecondsAlone) {
  Flight flight(10 * kSecond);
  for (int64_t second = 1; second <= 100; ++second) {
    flight.Add(Operator(second * kSecond), second * kSecond);
  }
  EXPECT_EQ(flight.start_ns(), 90 * kSecond);
  const auto rows = flight.Rows();
  ASSERT_EQ(rows->span_count(), 11u);
  EXPECT_EQ(rows->span(SpanId{0}).start_ns, 90 * kSecond);
  EXPECT_FALSE(rows->any_loss());
}

TEST(FlightKeeperTest, AnIdleJobsLastRecordsGetOldToo) {
  Flight flight(10 * kSecond);
  flight.Add(Operator(kSecond), kSecond);
  flight.Add({}, 20 * kSecond);
  EXPECT_THAT(flight.keeper().Take().blocks, IsEmpty());
}

TEST(FlightKeeperTest, TooLittleRoomMakesTheWindowShorter) {
  constexpr size_t kBytes = 100'000;
  Flight flight(1000 * kSecond, kBytes);
  std::mt19937_64 random(1);
  for (int64_t second = 1; second <= 300; ++second) {
    RecordMaker maker;
    for (int i = 0; i < 100; ++i) {
      maker.Allocation(kTid, second * kSecond + i, random() >> 16, random());
    }
    flight.Add(maker.bytes(), second * kSecond + 1000);
    ASSERT_LE(flight.keeper().bytes(), kBytes);
  }
  EXPECT_GT(flight.start_ns(), 200 * kSecond);
  EXPECT_LT(flight.start_ns(), 300 * kSecond);
  EXPECT_THAT(flight.keeper().Take().blocks, Not(IsEmpty()));
}

TEST(FlightKeeperTest, WhatLiesInTheFutureGetsOld) {
  Flight flight(10 * kSecond);
  GpuRecordMaker device;
  (void)device.Name("kernel");
  std::vector<std::byte> records = device.bytes();
  const int64_t never = INT64_MAX;
  std::memcpy(records.data(), &never, sizeof(never));
  flight.AddDevice(records, kSecond);
  flight.AddDevice({}, 30 * kSecond);
  const FlightSnapshot snapshot = flight.keeper().Take();
  EXPECT_THAT(snapshot.device_blocks, IsEmpty());
  EXPECT_EQ(snapshot.device_definitions.size(), 1u);
}

TEST(FlightKeeperTest, DamagedRecordsDoNoHarm) {
  std::mt19937 random(1);
  Flight flight(kSecond);
  for (int64_t round = 1; round <= 300; ++round) {
    RecordMaker maker;
    maker.PythonCode(kTid, round * kSecond, 1, 10, "file.py", "function");
    maker.PythonStack(kTid, round * kSecond, 0, 1, {RecordMaker::PythonFrameWord(1, 1)});
    maker.PythonModule(kTid, round * kSecond, 0x10, 0x20, "Linear");
    maker.ThreadExit(kTid, round * kSecond, true);
    std::vector<std::byte> records = maker.bytes();
    for (int i = 0; i < 4; ++i) {
      records[random() % records.size()] = static_cast<std::byte>(random());
    }
    records.resize(records.size() - random() % 64);
    flight.Add(records, round * kSecond);
    flight.AddDevice(records, round * kSecond);
    if (round % 50 == 0) (void)flight.Rows();
  }
}

TEST(FlightKeeperTest, StacksAndNamesOutliveTheirBlocks) {
  Flight flight(10 * kSecond);
  RecordMaker maker;
  maker.PythonCode(kTid, kSecond, 1, 10, "job.py", "main");
  maker.PythonCode(kTid, kSecond, 2, 20, "job.py", std::string(5000, 'n'));
  maker.PythonModule(kTid, kSecond, 0x10, 0x20, "Linear");
  maker.PythonStack(
      kTid, kSecond, 0, 2,
      {RecordMaker::PythonFrameWord(1, 1), RecordMaker::PythonFrameWord(2, 2, true), 0x10});
  flight.Add(maker.bytes(), kSecond);
  flight.Add(Operator(50 * kSecond), 50 * kSecond);
  const auto rows = flight.Rows();
  ASSERT_EQ(rows->span_count(), 1u);
  const StackId inner = rows->stack_of(SpanId{0});
  ASSERT_NE(inner, kNoStack);
  const PythonFrame& frame = rows->python_frame(inner);
  EXPECT_EQ(rows->python_codes()[frame.code].name.substr(0, 4000), std::string(4000, 'n'));
  ASSERT_NE(frame.module, 0u);
  EXPECT_EQ(rows->python_modules()[frame.module - 1].class_name, "Linear");
  EXPECT_EQ(rows->python_codes()[rows->python_frame(frame.parent).code].name, "main");
}

TEST(FlightKeeperTest, AStackThatTakesSeveralRecordsIsWhole) {
  Flight flight(10 * kSecond);
  RecordMaker maker;
  uint16_t depth = 0;
  for (uint32_t code = 1; code <= 128; ++code) {
    maker.PythonCode(kTid, kSecond, code, 1, "job.py", "f" + std::to_string(code));
    maker.PythonStack(kTid, kSecond, depth++, 1,
                      {RecordMaker::PythonFrameWord(code, 1, true), 0x1000 + code});
  }
  flight.Add(maker.bytes(), kSecond);
  flight.Add(Operator(50 * kSecond), 50 * kSecond);
  const auto rows = flight.Rows();
  StackId id = rows->stack_of(SpanId{0});
  for (uint32_t code = 128; code >= 1; --code) {
    ASSERT_NE(id, kNoStack);
    EXPECT_EQ(rows->python_codes()[rows->python_frame(id).code].name, "f" + std::to_string(code));
    id = rows->python_frame(id).parent;
  }
}

TEST(FlightKeeperTest, ATitleOfWorkWaitsForItsWork) {
  Flight flight(10 * kSecond);
  RecordMaker maker;
  maker.Guard(abi::PT_WORK_TITLE, kTid, kSecond, 1, 0x77, 0, 0, "gloo:all_reduce");
  flight.Add(maker.bytes(), kSecond);
  RecordMaker later;
  abi::pt_pointer_record begin{};
  begin.head = RecordMaker::Head(abi::PT_WORK_BEGIN, kTid, 50 * kSecond, 0, RecordMaker::Sp(1));
  begin.value = 0x77;
  later.Add(begin);
  flight.Add(later.bytes(), 50 * kSecond);
  const auto rows = flight.Rows();
  ASSERT_EQ(rows->span_count(), 1u);
  EXPECT_EQ(NameOf(*rows, 0), "gloo:all_reduce");
  flight.Add({}, 100 * kSecond);
  EXPECT_THAT(flight.keeper().Take().definitions, IsEmpty());
}

std::vector<std::byte> SampleFrame(int64_t ns, uint32_t id, uint32_t parent, uint32_t function) {
  RecordMaker maker;
  abi::pt_sample_frame_record frame{};
  frame.head = RecordMaker::Head(abi::PT_SAMPLE_FRAME, kTid, ns, 0, 0);
  frame.id = id;
  frame.parent = parent;
  frame.function = function;
  maker.Add(frame);
  return maker.bytes();
}

std::vector<std::byte> SampleFunction(int64_t ns, uint32_t id, const std::string& name) {
  RecordMaker maker;
  abi::pt_sample_function_record function{};
  function.head = RecordMaker::Head(abi::PT_SAMPLE_FUNCTION, kTid, ns, 0, 0);
  function.id = id;
  function.name_bytes = static_cast<uint16_t>(name.size());
  std::memcpy(function.text, name.data(), name.size());
  maker.AddBytes(&function, PT_SAMPLE_FUNCTION_HEAD_BYTES + (name.size() + 7) / 8 * 8);
  return maker.bytes();
}

std::vector<std::byte> SampleAt(int64_t ns, uint32_t frame) {
  RecordMaker maker;
  abi::pt_sample_record sample{};
  sample.head = RecordMaker::Head(abi::PT_SAMPLE, kTid, ns, 0, 0);
  sample.period_ns = 1'000'000;
  sample.count = 1;
  sample.frame = frame;
  maker.Add(sample);
  return maker.bytes();
}

// A job whose stacks and code are always new ones: what nothing refers to any more is let go, what
// the last seconds refer to is not.
TEST(FlightKeeperTest, DefinitionsWithoutUseAreLetGo) {
  constexpr size_t kBytes = 4u << 20;
  Flight flight(10 * kSecond, kBytes);
  RecordMaker first;
  first.PythonCode(kTid, kSecond, 1, 1, "job.py", "main");
  first.PythonStack(kTid, kSecond, 0, 1, {RecordMaker::PythonFrameWord(1, 1)});
  flight.Add(first.bytes(), kSecond);
  flight.Add(SampleFunction(kSecond, 1, "sleeper"), kSecond);
  flight.Add(SampleFrame(kSecond, 1, 0, 1), kSecond);
  flight.Add(SampleFrame(kSecond, 2, 1, 1), kSecond);
  uint32_t next = 3;
  constexpr int64_t kEnd = 400;
  for (int64_t second = 1; second <= kEnd; ++second) {
    RecordMaker maker;
    for (int i = 0; i < 60; ++i, ++next) {
      const int64_t ns = second * kSecond + i;
      maker.PythonCode(kTid, ns, next, 1, "<made>", "made" + std::to_string(next));
      maker.PythonStack(kTid, ns, 1, 1, {RecordMaker::PythonFrameWord(next, 1)});
      maker.PythonStack(kTid, ns, 1, 0, {});
    }
    flight.Add(maker.bytes(), second * kSecond + 100);
    flight.Add(SampleAt(second * kSecond, 2), second * kSecond + 100);
    ASSERT_LE(flight.keeper().bytes(), kBytes) << second;
  }
  flight.Add(Operator(kEnd * kSecond + 200), kEnd * kSecond + 300);
  EXPECT_LE(flight.start_ns(), (kEnd - 9) * kSecond);  // nothing of the window had to go
  const auto rows = flight.Rows();
  ASSERT_EQ(rows->span_count(), 1u);
  const StackId stack = rows->stack_of(SpanId{0});
  ASSERT_NE(stack, kNoStack);
  EXPECT_EQ(rows->python_codes()[rows->python_frame(stack).code].name, "main");
  ASSERT_FALSE(rows->samples().empty());
  EXPECT_NE(rows->samples().back().frame, 0u);
}

MetadataWriter Worker(uint32_t pid, uint32_t image, int64_t ns, bool has_operators) {
  MetadataWriter metadata;
  if (has_operators) {
    std::vector<OperatorEntry> operators;
    for (uint64_t i = 0; i < 500; ++i) {
      operators.push_back({0x1000 + i, "aten::operator" + std::to_string(i), "out", ""});
    }
    metadata.AddOperators(image, operators);
  }
  ProcessEntry process;
  process.plan = 1;
  process.image = image;
  process.target.pid = Pid{pid};
  process.target.probes_on_ns = ns;
  metadata.AddProcess(process);
  metadata.AddThread({Pid{pid}, Tid{pid + 1}, "worker"});
  metadata.AddModulePath({Pid{pid}, 0x10, 0x20}, ns, "encoder.layers.0");
  return metadata;
}

// Workers of every epoch, each with an address space, threads and stacks of its own.
TEST(FlightKeeperTest, EndedProcessesAreForgotten) {
  Flight flight(10 * kSecond);
  size_t bytes_then = 0;
  for (uint32_t epoch = 0; epoch < 1000; ++epoch) {
    const int64_t ns = (epoch + 1) * kSecond;
    const uint32_t pid = 1000 + epoch;
    MetadataWriter metadata = Worker(pid, epoch + 1, ns, /*has_operators=*/true);
    flight.Describe(&metadata, ns);
    RecordMaker maker(pid);
    maker.PythonCode(pid, ns, epoch + 1, 1, "job.py", "work");
    maker.PythonStack(pid, ns, 0, 1, {RecordMaker::PythonFrameWord(epoch + 1, 1)});
    maker.Begin(pid, ns, 1, 1);
    maker.End(pid, ns + 10, 1, 1);
    maker.ThreadNumber(pid, ns, 1);
    maker.ThreadExit(pid, ns + kSecond / 2, /*group_dead=*/true);
    flight.Add(maker.bytes(), ns + kSecond / 2);
    if (epoch == 100) bytes_then = flight.keeper().bytes();
  }
  EXPECT_LT(flight.keeper().bytes(), bytes_then * 11 / 10);
  const std::unique_ptr<CaptureReader> reader = flight.Dump();
  const CaptureMetadata& metadata = reader->metadata();
  EXPECT_LT(metadata.processes.size(), 40u);
  EXPECT_GE(metadata.processes.size(), 11u);
  EXPECT_EQ(metadata.images.size(), metadata.processes.size());
  EXPECT_EQ(metadata.threads.size(), metadata.processes.size());
  EXPECT_EQ(metadata.module_paths.size(), metadata.processes.size());
  for (const ProcessEntry& process : metadata.processes) {
    EXPECT_EQ(metadata.images.at(process.image).operators.size(), 500u);
  }
}

TEST(FlightKeeperTest, AnAddressSpaceIsForgottenWithItsLastProcess) {
  Flight flight(10 * kSecond);
  MetadataWriter parent = Worker(1000, 1, kSecond, /*has_operators=*/true);
  flight.Describe(&parent, kSecond);
  const auto end = [&flight](uint32_t pid, int64_t ns) {
    RecordMaker maker(pid);
    maker.ThreadExit(pid, ns, /*group_dead=*/true);
    flight.Add(maker.bytes(), ns);
    flight.Add(Operator(ns + 100 * kSecond), ns + 100 * kSecond);
    flight.Add(Operator(ns + 200 * kSecond), ns + 200 * kSecond);
  };
  MetadataWriter child = Worker(1001, 1, 2 * kSecond, /*has_operators=*/false);
  flight.Describe(&child, 2 * kSecond);
  end(1000, 10 * kSecond);
  {
    const auto reader = flight.Dump();
    EXPECT_EQ(reader->metadata().processes.size(), 1u);
    EXPECT_EQ(reader->metadata().images.size(), 1u);
  }
  end(1001, 1000 * kSecond);
  const auto reader = flight.Dump();
  EXPECT_TRUE(reader->metadata().processes.empty());
  EXPECT_TRUE(reader->metadata().images.empty());
}

TEST(FlightKeeperTest, AThreadsEndForgetsItsName) {
  Flight flight(10 * kSecond);
  for (uint32_t tid = 1; tid <= 200; ++tid) {
    const int64_t ns = tid * kSecond;
    MetadataWriter metadata;
    metadata.AddThread({Pid{RecordMaker::kPid}, Tid{tid}, "pool"});
    RecordMaker maker;
    maker.ThreadNumber(tid, ns, tid);
    maker.ThreadExit(tid, ns, /*group_dead=*/false);
    flight.Describe(&metadata, ns);
    flight.Add(maker.bytes(), ns);
  }
  EXPECT_LT(flight.Dump()->metadata().threads.size(), 40u);
}

TEST(FlightKeeperTest, TheSameNoteIsKeptOnce) {
  Flight flight(10 * kSecond);
  for (int i = 0; i < 5000; ++i) {
    MetadataWriter metadata;
    metadata.AddUnsupported({"probes", "3 places were refused"});
    metadata.AddUnsupported({"process " + std::to_string(i), "refused"});
    flight.Describe(&metadata, kSecond);
  }
  EXPECT_LE(flight.Dump()->metadata().info.unsupported.size(), 1000u);
}

TEST(FlightKeeperTest, NamesOfDevicesWorkOutliveTheirBlocks) {
  Flight flight(10 * kSecond);
  GpuRecordMaker device;
  const std::string name(3000, 'k');  // of two records
  const uint64_t kernel = device.Name(name);
  const uint64_t call = device.Name("cudaLaunchKernel_v7000");
  device.Call(kTid, kSecond, kSecond + 10, call, 1);
  device.Kernel(kSecond + 20, kSecond + 30, kernel, 1);
  flight.AddDevice(device.bytes(), kSecond);
  device.bytes().clear();
  device.Call(kTid, 50 * kSecond, 50 * kSecond + 10, call, 2);
  device.Kernel(50 * kSecond + 20, 50 * kSecond + 30, kernel, 2);
  flight.AddDevice(device.bytes(), 51 * kSecond);
  const auto rows = flight.Rows();
  EXPECT_EQ(rows->device_ledger().outside_window, 0u);
  EXPECT_EQ(rows->device_ledger().unlinked, 0u);
  EXPECT_FALSE(rows->any_loss());
  EXPECT_THAT(rows->device_names(), Contains(name));
  EXPECT_THAT(Paths(*rows), Contains("cudaLaunchKernel"));
}

// Threads that call operators in Python functions, are unwound, and lose records.
class RandomJob {
 public:
  explicit RandomJob(uint32_t seed) : random_(seed) {}

  // A step of a thread, as records.
  std::vector<std::byte> Step() {
    RecordMaker maker;
    Thread& thread = threads_[Pick(3)];
    const int choice = Pick(100);
    now_ns_ += 100 + Pick(1000);
    if (choice < 50 && thread.open.size() < 8) {
      if (Pick(3) == 0) MoveStack(&thread, &maker);
      const uint32_t depth = (thread.open.empty() ? 0 : thread.open.back().depth) + 1 + Below(4);
      const auto site = static_cast<uint16_t>(1 + Pick(4));
      maker.Begin(thread.tid, now_ns_, site, depth);
      thread.open.push_back({site, depth});
    } else if (choice < 92 && !thread.open.empty()) {
      maker.End(thread.tid, now_ns_, thread.open.back().site, thread.open.back().depth);
      thread.open.pop_back();
    } else if (choice < 96 && !thread.open.empty()) {
      const size_t left = thread.open.size() - 1 - Below(static_cast<int>(thread.open.size()));
      maker.Catch(thread.tid, now_ns_, RecordMaker::Sp(thread.open[left].depth));
      thread.open.resize(left);
    } else if (choice == 99) {
      maker.Loss(thread.tid, now_ns_, 3);
      thread.stack.clear();
    }
    return maker.bytes();
  }
  int64_t now_ns() const { return now_ns_; }
  int Pick(int below) { return static_cast<int>(random_() % static_cast<uint32_t>(below)); }
  uint32_t Below(int below) { return static_cast<uint32_t>(Pick(below)); }

 private:
  struct Open {
    uint16_t site;
    uint32_t depth;
  };
  struct Thread {
    uint32_t tid;
    std::vector<Open> open;
    std::vector<uint32_t> stack;  // codes
  };

  void MoveStack(Thread* thread, RecordMaker* maker) {
    const auto common = static_cast<uint16_t>(Pick(static_cast<int>(thread->stack.size()) + 1));
    thread->stack.resize(common);
    std::vector<uint64_t> words;
    const int count = Pick(4);
    for (int i = 0; i < count; ++i) {
      const uint32_t code = 1 + Below(20);
      if (told_.insert(code).second) {
        maker->PythonCode(thread->tid, now_ns_, code, 1, "job.py", "f" + std::to_string(code));
      }
      const bool has_module = Pick(4) == 0;
      const uint64_t module = 0x1000 + Below(3);
      if (has_module && told_modules_.insert(module).second) {
        maker->PythonModule(thread->tid, now_ns_, module, 0x20, "M" + std::to_string(module));
      }
      words.push_back(RecordMaker::PythonFrameWord(code, Below(10), has_module));
      if (has_module) words.push_back(module);
      thread->stack.push_back(code);
    }
    maker->PythonStack(thread->tid, now_ns_, common, static_cast<uint16_t>(count), words);
  }

  std::mt19937 random_;
  int64_t now_ns_ = kSecond;
  Thread threads_[3] = {{7, {}, {}}, {8, {}, {}}, {9, {}, {}}};
  std::set<uint32_t> told_;
  std::set<uint64_t> told_modules_;
};

// Every row with its times, its parents, how it ended and its Python stack.
std::vector<std::string> Describe(const Timeline& timeline) {
  std::vector<std::string> rows;
  for (uint32_t i = 0; i < timeline.span_count(); ++i) {
    const Span& span = timeline.span(SpanId{i});
    std::string text = std::to_string(Raw(timeline.thread(span.thread).tid)) + " " +
                       std::to_string(span.start_ns) + " " + std::to_string(span.duration_ns) +
                       " " + std::to_string(span.self_ns) + " " + PathOf(timeline, i) + " " +
                       std::to_string(static_cast<int>(span.end));
    for (StackId id = timeline.stack_of(SpanId{i}); id != kNoStack;
         id = timeline.python_frame(id).parent) {
      const PythonFrame& frame = timeline.python_frame(id);
      text +=
          " " + timeline.python_codes()[frame.code].name + "@" + std::to_string(frame.instruction);
      if (frame.module != 0) text += timeline.python_modules()[frame.module - 1].class_name;
    }
    rows.push_back(std::move(text));
  }
  std::sort(rows.begin(), rows.end());
  return rows;
}

TEST(FlightPropertyTest, HasTheRowsOfAWholeRecordingInItsWindow) {
  size_t rows = 0;
  for (uint32_t seed = 1; seed <= 200; ++seed) {
    RandomJob job(seed);
    std::mt19937 random(seed);
    Flight flight(200'000 + static_cast<int64_t>(random() % 300'000));
    VectorSource whole;
    std::vector<std::byte> block;
    for (int step = 0; step < 3000; ++step) {
      const std::vector<std::byte> records = job.Step();
      block.insert(block.end(), records.begin(), records.end());
      if (random() % 50 != 0 && step != 2999) continue;
      flight.Add(block, job.now_ns());
      whole.Add(std::exchange(block, {}));
    }
    CaptureMetadata metadata = TestMetadata();
    metadata.processes[0].target.stacks_recorded = true;
    const auto kept = flight.Rows(metadata);
    metadata.info.window.start_ns = flight.start_ns();
    const auto all = Build(metadata, std::move(whole));
    ASSERT_EQ(Describe(*kept), Describe(*all)) << "seed " << seed;
    ASSERT_LT(kept->ledger().records, all->ledger().records);
    rows += kept->span_count();
  }
  EXPECT_GT(rows, 10'000u);
}

}  // namespace
}  // namespace proftrace
