// Records of GPU agents in a capture file: in blocks of their own, beside the others.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <fstream>
#include <iterator>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tests/support/gpu_record_maker.h"
#include "tests/support/pipeline_metadata.h"
#include "tests/support/record_maker.h"
#include "userspace/capture/records/capture_sink.h"
#include "userspace/pipeline/build_timeline.h"
#include "userspace/wire/capture_part.h"
#include "userspace/wire/capture_reader.h"
#include "userspace/wire/capture_writer.h"

namespace proftrace {
namespace {

constexpr int kBlocks = 4;

class TemporaryFile {
 public:
  TemporaryFile() : fd_(mkstemp(path_)) {}
  ~TemporaryFile() { unlink(path_); }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;

  std::unique_ptr<CaptureWriter> Writer() {
    absl::StatusOr<std::unique_ptr<CaptureWriter>> writer = CaptureWriter::Create(fd_, path_);
    EXPECT_TRUE(writer.ok()) << writer.status();
    return *std::move(writer);
  }
  std::vector<std::byte> Bytes() const {
    std::ifstream file(path_, std::ios::binary);
    const std::string text((std::istreambuf_iterator<char>(file)), {});
    std::vector<std::byte> bytes(text.size());
    std::memcpy(bytes.data(), text.data(), text.size());
    return bytes;
  }

 private:
  char path_[48] = "/tmp/proftrace-device-XXXXXX";
  int fd_;
};

struct Contents {
  std::vector<std::byte> records;
  int gaps = 0;
};

Contents ReadAll(RecordSource& source) {
  Contents contents;
  while (true) {
    const absl::StatusOr<RecordBatch> batch = source.Next();
    EXPECT_TRUE(batch.ok()) << batch.status();
    if (!batch.ok()) return contents;
    contents.gaps += batch->gap_before ? 1 : 0;
    contents.records.insert(contents.records.end(), batch->records.begin(), batch->records.end());
    if (batch->end) return contents;
  }
}

// A launch in each block, and a kernel in the one after it.
std::vector<std::byte> DeviceBlock(int index) {
  GpuRecordMaker maker;
  const auto id = static_cast<uint32_t>(index + 1);
  const int64_t now = 1000 * (index + 1);
  const uint64_t name = maker.Name("k");
  maker.Call(1, now + 100, now + 200, name, id);
  if (index > 0) maker.Kernel(now + 300, now + 400, name, id - 1);
  return maker.bytes();
}

std::vector<std::byte> CpuBlock(int index) {
  RecordMaker maker;
  maker.Begin(1, 1000 * (index + 1), 1, 0);
  maker.End(1, 1000 * (index + 1) + 500, 1, 0);
  return maker.bytes();
}

void WriteMetadata(MetadataWriter* metadata) {
  const CaptureMetadata tables = TestMetadata();
  metadata->AddPlan(1, tables.plans.at(1).sites);
  metadata->AddProcess(tables.processes[0]);
}

void WriteCapture(CaptureWriter* writer) {
  MetadataWriter metadata;
  WriteMetadata(&metadata);
  ASSERT_TRUE(writer->AppendMetadata(metadata.TakeJson()).ok());
  for (int i = 0; i < kBlocks; ++i) {
    ASSERT_TRUE(writer->AppendRecords(CpuBlock(i)).ok());
    ASSERT_TRUE(writer->AppendDeviceRecords(DeviceBlock(i)).ok());
  }
  Window window;
  window.duration_ns = 100'000;
  metadata.AddEnd(window, Cost{}, Ledger{});
  ASSERT_TRUE(writer->AppendMetadata(metadata.TakeJson()).ok());
  ASSERT_TRUE(writer->Finish().ok());
}

std::unique_ptr<Timeline> Build(CaptureReader& reader) {
  const std::unique_ptr<RecordSource> devices = reader.DeviceRecords();
  absl::StatusOr<std::unique_ptr<Timeline>> timeline =
      BuildTimeline(reader.metadata(), &reader, "", devices.get());
  EXPECT_TRUE(timeline.ok()) << timeline.status();
  return *std::move(timeline);
}

TEST(DeviceFileTest, DeviceRecordsAreASourceOfTheirOwn) {
  TemporaryFile file;
  WriteCapture(file.Writer().get());
  const std::vector<std::byte> bytes = file.Bytes();
  const auto reader = CaptureReader::FromBytes(bytes, {});
  ASSERT_TRUE(reader.ok()) << reader.status();
  std::vector<std::byte> expected;
  std::vector<std::byte> expected_cpu;
  for (int i = 0; i < kBlocks; ++i) {
    const std::vector<std::byte> block = DeviceBlock(i);
    expected.insert(expected.end(), block.begin(), block.end());
    const std::vector<std::byte> cpu_block = CpuBlock(i);
    expected_cpu.insert(expected_cpu.end(), cpu_block.begin(), cpu_block.end());
  }
  for (int twice = 0; twice < 2; ++twice) {  // from the beginning each time
    const Contents contents = ReadAll(*(*reader)->DeviceRecords());
    EXPECT_EQ(contents.records, expected);
    EXPECT_EQ(contents.gaps, 0);
  }
  EXPECT_EQ(ReadAll(**reader).records, expected_cpu);
}

TEST(DeviceFileTest, DamagedDeviceBlockIsAGap) {
  TemporaryFile file;
  WriteCapture(file.Writer().get());
  std::vector<std::byte> bytes = file.Bytes();
  // The third block of device records: the one with the kernel of the second launch.
  size_t offset = sizeof(CaptureFileHeader);
  for (int found = 0; offset < bytes.size();) {
    BlockHeader header;
    std::memcpy(&header, bytes.data() + offset, sizeof(header));
    const bool is_device = header.type == static_cast<uint16_t>(BlockType::kDeviceRecords);
    if (is_device && ++found == 3) {
      bytes[offset + sizeof(header)] ^= std::byte{0xff};
      break;
    }
    offset += sizeof(header) + header.stored_bytes;
  }
  EXPECT_FALSE(CaptureReader::FromBytes(bytes, {}).ok());
  const auto reader = CaptureReader::FromBytes(bytes, {.salvage = true});
  ASSERT_TRUE(reader.ok()) << reader.status();
  const std::unique_ptr<Timeline> timeline = Build(**reader);
  EXPECT_EQ(timeline->device_ledger().gaps, 1u);
  EXPECT_TRUE(timeline->any_loss());
  EXPECT_TRUE(timeline->device_ledger().ConservationHolds());
  EXPECT_EQ(timeline->device_activities().size(), 2u) << "kernels of the blocks that are whole";
}

TEST(DeviceFileTest, SinkKeepsDeviceRecordsApart) {
  TemporaryFile file;
  {
    CaptureSink sink(file.Writer());
    for (int i = 0; i < kBlocks; ++i) {
      sink.Append(CpuBlock(i));
      sink.AppendDevice(DeviceBlock(i));
    }
    sink.FlushDeviceBlock();
    sink.AppendDevice(DeviceBlock(kBlocks));
    ASSERT_TRUE(sink.Finish().ok());
  }
  const std::vector<std::byte> bytes = file.Bytes();
  const auto reader = CaptureReader::FromBytes(bytes, {});
  ASSERT_TRUE(reader.ok()) << reader.status();
  size_t device_bytes = 0;
  for (int i = 0; i <= kBlocks; ++i) device_bytes += DeviceBlock(i).size();
  EXPECT_EQ(ReadAll(*(*reader)->DeviceRecords()).records.size(), device_bytes);
  EXPECT_EQ(ReadAll(**reader).records.size(), kBlocks * CpuBlock(0).size());
}

std::vector<std::byte> PartFrom2000To3000(const TemporaryFile& file) {
  const std::vector<std::byte> bytes = file.Bytes();
  const auto whole = CaptureReader::FromBytes(bytes, {.keep_metadata_text = true});
  EXPECT_TRUE(whole.ok()) << whole.status();
  if (!whole.ok()) return {};
  TemporaryFile part_file;
  CapturePart part;
  part.start_ns = 2000;
  part.end_ns = 3000;
  const auto writer = part_file.Writer();
  CaptureWriter* const writers[] = {writer.get()};
  EXPECT_TRUE(CopyCaptureParts({&part, 1}, whole->get(), writers).ok());
  return part_file.Bytes();
}

TEST(DeviceFileTest, PartHoldsItsCallsAndTheirLateWork) {
  TemporaryFile file;
  WriteCapture(file.Writer().get());
  const std::vector<std::byte> part_bytes = PartFrom2000To3000(file);
  const auto reader = CaptureReader::FromBytes(part_bytes, {});
  ASSERT_TRUE(reader.ok()) << reader.status();
  const std::unique_ptr<Timeline> timeline = Build(**reader);
  EXPECT_EQ(timeline->span_count(), 2u) << "the operator and the call of the second block";
  // The kernel that ran in it, launched before, and the one that it launched, which ran after it.
  ASSERT_EQ(timeline->device_activities().size(), 2u);
  EXPECT_EQ(timeline->device_activities().at(0).call, kNoSpan);
  EXPECT_EQ(timeline->device_activities().at(1).call, SpanId{1});
  EXPECT_EQ(timeline->device_activities().at(1).start_ns, 3300);
  EXPECT_EQ(timeline->device_ledger().missing, 0u);
}

// A part has what was told once, before it: torch's number of a thread, Python's code and stacks.
TEST(DeviceFileTest, PartHoldsWhatWasToldOnce) {
  RecordMaker maker;
  maker.ThreadNumber(7, 1000, 1);
  maker.PythonCode(7, 1000, 1, 10, "train.py", "step");
  maker.PythonStack(7, 1000, 0, 1, {RecordMaker::PythonFrameWord(1, 0)});
  maker.Begin(7, 1100, 1, 1);
  maker.End(7, 1200, 1, 1);
  maker.Begin(7, 2100, 1, 1);
  maker.End(7, 2200, 1, 1);
  maker.Node(7, 2300, 7, 1, 0xa0, 0, "");
  maker.NodeForward(7, 2300, 1, 5, 1);
  maker.End(7, 2400, 7, 1);
  TemporaryFile file;
  {
    const auto writer = file.Writer();
    ASSERT_TRUE(writer->AppendRecords(maker.bytes()).ok());
    ASSERT_TRUE(writer->Finish().ok());
  }
  const std::vector<std::byte> part_bytes = PartFrom2000To3000(file);
  const auto reader = CaptureReader::FromBytes(part_bytes, {});
  ASSERT_TRUE(reader.ok()) << reader.status();
  const auto timeline = BuildTimeline(TestMetadata(), reader->get(), "");
  ASSERT_TRUE(timeline.ok()) << timeline.status();
  ASSERT_EQ((*timeline)->span_count(), 2u);
  const StackId stack = (*timeline)->stack_of(SpanId{0});
  ASSERT_NE(stack, kNoStack);
  EXPECT_EQ((*timeline)->python_codes()[(*timeline)->python_frame(stack).code].name, "step");
  EXPECT_EQ((*timeline)->columns().sequence.at(SpanId{1}).forward_tid, 7u);
}

TEST(DeviceFileTest, AgentsLastWordsCount) {
  GpuAgent agent;
  agent.pid = Pid{7};
  agent.state = "running";
  agent.cupti_version = 26;
  MetadataWriter writer;
  writer.AddGpuAgent(agent);
  agent.state = "failed";
  agent.failure = "taken";
  agent.message = "another tool has CUPTI: \xff";
  agent.driver_version = 12040;
  agent.runtime_version = 12010;
  agent.cupti_result = 39;
  agent.cupti_records = 1;
  agent.ring_records = 2;
  agent.ring_dropped = 3;
  agent.unread_records = 4;
  agent.cupti_dropped = 5;
  agent.buffers_refused = 6;
  writer.AddGpuAgent(agent);
  CaptureMetadata metadata;
  for (const std::string& text : writer.TakeJson()) ASSERT_TRUE(metadata.Merge(text).ok());
  ASSERT_EQ(metadata.info.gpu_agents.size(), 1u);
  const GpuAgent& read = metadata.info.gpu_agents[0];
  EXPECT_EQ(read.pid, agent.pid);
  EXPECT_EQ(read.state, "failed");
  EXPECT_EQ(read.failure, "taken");
  EXPECT_EQ(read.message, agent.message);
  EXPECT_EQ(read.cupti_version, 26u);
  EXPECT_EQ(read.driver_version, 12040u);
  EXPECT_EQ(read.runtime_version, 12010u);
  EXPECT_EQ(read.cupti_result, 39u);
  EXPECT_EQ(read.cupti_records, 1u);
  EXPECT_EQ(read.ring_records, 2u);
  EXPECT_EQ(read.ring_dropped, 3u);
  EXPECT_EQ(read.unread_records, 4u);
  EXPECT_EQ(read.cupti_dropped, 5u);
  EXPECT_EQ(read.buffers_refused, 6u);
}

}  // namespace
}  // namespace proftrace
