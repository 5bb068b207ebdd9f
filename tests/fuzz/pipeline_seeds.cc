// The first inputs of the pipeline's fuzz targets: small and sound, each reaching another part.
//   pipeline_seeds DIRECTORY     writes DIRECTORY/TARGET/NAME
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "bpf/abi/gpu_records.h"
#include "bpf/abi/system_records.h"
#include "symbols/plan/plan_cache.h"
#include "symbols/plan/window_cache.h"
#include "tests/fuzz/memory_seeds.h"
#include "tests/fuzz/record_seeds.h"
#include "tests/support/gpu_record_maker.h"
#include "tests/support/pipeline_metadata.h"
#include "tests/support/record_maker.h"
#include "userspace/wire/capture_writer.h"
#include "userspace/wire/metadata.h"

namespace proftrace {
namespace {

void WriteSeed(const std::filesystem::path& root, const std::string& target,
               const std::string& name, char first, std::string_view bytes) {
  std::filesystem::create_directories(root / target);
  std::ofstream out(root / target / name, std::ios::binary);
  out << first << bytes;
}

std::vector<std::byte> EveryDeviceKind() {
  GpuRecordMaker maker;
  const uint64_t launch = maker.Name("cudaLaunchKernel_v7000");
  const uint64_t kernel = maker.Name("_Z6kernelv");
  const uint64_t long_name = maker.Name(std::string(5000, 'n'));
  maker.Device(0, maker.Name("A100"), 0x5a);
  maker.OldDevice(1, maker.Name("A100"));
  maker.Context(GpuRecordMaker::kContext, 0);
  maker.Clock(10, 20, 30);
  maker.Call(0, 150, 180, launch, 1);
  maker.Call(0, 160, 170, launch, 2, abi::PT_GPU_DRIVER);
  maker.Kernel(300, 400, kernel, 1);
  maker.Kernel(350, 450, long_name, 1, 1, 9);
  maker.Kernel(0, 0, kernel, 1);  // has not ended
  maker.Memcpy(500, 510, 3, 4096, 1, 1, 3);
  maker.Memset(520, 530, 4, 64);
  maker.Graph(540, 600, 5, 2);
  maker.Event(610, 6, 33);
  maker.Sync(620, 700, 2, 7, 8, 33);
  maker.Sync(620, 700, 3, 8, 7);
  maker.External(9, 77);
  maker.Marker(1, 800, kernel, 5, 2);
  maker.Marker(1, 900, 0, 5, 4);
  maker.Overhead(910, 920, 5u << 16);
  maker.Memory(930, 1, 0x7f00, 4096);
  maker.Pool(940, 1, 0x8000, 0);
  maker.Count(abi::PT_GPU_DROPPED, 3);
  maker.Count(abi::PT_GPU_UNKNOWN, 4);
  return maker.bytes();
}

std::string_view Text(const std::vector<std::byte>& bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::vector<std::byte> EveryKind() {
  RecordMaker maker;
  maker.AnnotationBegin(1, 1000, "outer");
  maker.AnnotationHandle(1, 1010, 0x51);
  maker.Begin(1, 1020, 1, 0);
  maker.Boxed(1, 1030, 5, 1, 0x1000);
  maker.Node(1, 1040, 6, 2, 0xb0, 0x77, "");
  maker.Node(1, 1041, 6, 3, 0xb0, 0x77, "MyType");
  maker.Begin(1, 1045, 2, 4);
  maker.Catch(1, 1050, RecordMaker::Sp(2));
  maker.End(1, 1060, 5, 1);
  maker.End(1, 1070, 1, 0);
  maker.AnnotationEnd(1, 1080, 0x51);
  maker.AnnotationBegin(2, 1100, std::string(3000, 'n'));
  maker.Begin(2, 1110, 3, 0);
  maker.AnnotationEnd(3, 1120, 0);
  maker.Loss(2, 1130, 5);
  maker.Begin(2, 1140, 4, 0);
  maker.ThreadExit(2, 1150, false);
  maker.Begin(4, 1160, 4, 0);
  maker.Exec(4, 1170);
  maker.Begin(4, 1180, 4, 0);
  maker.ThreadExit(4, 1190, true);
  maker.Inputs(1, 1191, 1, 0, 1, {abi::PT_VALUE_OTHER});
  maker.Begin(1, 1192, 1, 0);
  maker.Call(1, 1193, 2, 1, 2, {5 << 8 | abi::PT_VALUE_INT, abi::PT_VALUE_OTHER}, 7);
  maker.End(1, 1194, 2, 1);
  abi::pt_fork_record fork{};
  fork.head = RecordMaker::Head(abi::PT_FORK, 1, 1200, 0, 0);
  maker.Add(fork);
  return maker.bytes();
}

// Numbers of system calls on x86-64.
constexpr uint16_t kReadCall = 0;
constexpr uint16_t kConnectCall = 42;
constexpr uint16_t kRecvmsgCall = 47;
constexpr uint16_t kSymlinkCall = 88;
constexpr uint16_t kFutexCall = 202;
constexpr uint16_t kRenameatCall = 264;
constexpr uint16_t kOpenat2Call = 437;

// A call whose tail is put together piece by piece, in the order of the ABI.
class CallRecord {
 public:
  CallRecord(uint32_t tid, int64_t start_ns, int64_t end_ns, uint16_t number, int64_t result,
             const std::vector<uint64_t>& arguments) {
    record_.head = RecordMaker::Head(abi::PT_SYSTEM_CALL, tid, start_ns, number, 1);
    record_.duration_ns = static_cast<uint64_t>(end_ns - start_ns);
    record_.result = result;
    record_.arguments = static_cast<uint8_t>(arguments.size());
    Append(arguments.data(), arguments.size() * sizeof(uint64_t));
  }
  CallRecord& Time(uint64_t seconds, uint64_t nanoseconds) {
    const uint64_t words[] = {seconds, nanoseconds};
    record_.flags |= abi::PT_SYSTEM_HAS_TIME;
    return Append(words, sizeof(words));
  }
  // 127.0.0.1:80.
  CallRecord& Address() {
    constexpr uint8_t kAddress[16] = {2, 0, 0, 80, 127, 0, 0, 1};
    record_.address_bytes = sizeof(kAddress);
    return Append(kAddress, sizeof(kAddress));
  }
  // `text`: each with its NUL.
  CallRecord& Paths(std::string_view text, uint8_t flags) {
    const uint32_t directories[] = {2, 2};
    Append(directories, sizeof(directories));
    record_.path_bytes = static_cast<uint16_t>(text.size());
    record_.flags |= flags;
    return Append(text.data(), text.size());
  }
  CallRecord& Structure(const std::vector<uint64_t>& fields) {
    bytes_ = (bytes_ + 7) / 8 * 8;
    record_.flags |= abi::PT_SYSTEM_HAS_STRUCTURE;
    return Append(fields.data(), fields.size() * sizeof(uint64_t));
  }
  CallRecord& Lost(uint16_t records) {
    record_.lost = records;
    return *this;
  }
  CallRecord& Flags(uint8_t flags) {
    record_.flags |= flags;
    return *this;
  }
  void AddTo(RecordMaker* maker) const {
    maker->AddBytes(&record_, PT_SYSTEM_CALL_HEAD_BYTES + (bytes_ + 7) / 8 * 8);
  }

 private:
  CallRecord& Append(const void* data, size_t size) {
    if (size > 0) std::memcpy(record_.tail + bytes_, data, size);
    bytes_ += size;
    return *this;
  }

  abi::pt_system_call_record record_{};
  size_t bytes_ = 0;  // of the tail
};

void AddFile(uint32_t id, abi::pt_system_file_kind kind, std::string_view text, RecordMaker* maker,
             uint8_t flags = 0) {
  abi::pt_system_file_record file{};
  file.head = RecordMaker::Head(abi::PT_SYSTEM_FILE, 1, 1, 0, id);
  file.kind = kind;
  file.flags = flags;
  file.inode = 42;
  file.bytes = static_cast<uint16_t>(text.size());
  std::memcpy(file.text, text.data(), text.size());
  maker->AddBytes(&file, PT_SYSTEM_FILE_HEAD_BYTES + (text.size() + 7) / 8 * 8);
}

void AddSocket(uint32_t id, uint16_t family, RecordMaker* maker) {
  abi::pt_socket_place place{};
  place.family = family;
  place.type = 1;
  place.local_port = 80;
  place.peer_port = 8080;
  AddFile(id, abi::PT_SYSTEM_FILE_SOCKET, {reinterpret_cast<const char*>(&place), sizeof(place)},
          maker);
}

void AddOffCpu(uint32_t tid, int64_t start_ns, int64_t end_ns, int32_t call, uint32_t waker,
               RecordMaker* maker) {
  abi::pt_off_cpu_record off{};
  off.head = RecordMaker::Head(abi::PT_OFF_CPU, tid, start_ns, 1, 0);
  off.duration_ns = static_cast<uint64_t>(end_ns - start_ns);
  off.run_queue_ns = off.duration_ns / 4;
  off.waker_pid = waker == 0 ? 0 : RecordMaker::kPid;
  off.waker_tid = waker;
  off.state = call < 0 ? 0 : 1;
  off.call = call;
  off.cpu = 1;
  off.off_flags = abi::PT_OFF_CPU_VOLUNTARY;
  maker->Add(off);
}

// System activity of two threads, in spans and outside of them.
std::vector<std::byte> EverySystemKind() {
  using std::literals::string_view_literals::operator""sv;
  constexpr uint32_t kMain = RecordMaker::kPid;
  RecordMaker maker;
  AddFile(1, abi::PT_SYSTEM_FILE_REGULAR, "x\0data\0"sv, &maker);
  AddFile(2, abi::PT_SYSTEM_FILE_DIRECTORY, "data\0"sv, &maker);
  AddFile(3, abi::PT_SYSTEM_FILE_PIPE, "", &maker);
  AddFile(4, abi::PT_SYSTEM_FILE_ANONYMOUS, "[eventfd]\0"sv, &maker);
  AddFile(7, abi::PT_SYSTEM_FILE_ANONYMOUS, "net\0"sv, &maker, abi::PT_SYSTEM_FILE_NAMESPACE);
  AddFile(8, abi::PT_SYSTEM_FILE_REGULAR, "y\0data\0"sv, &maker, abi::PT_SYSTEM_FILE_DELETED);
  AddSocket(5, 2, &maker);
  AddSocket(6, 1, &maker);
  maker.AnnotationBegin(kMain, 1000,
                        "enumerate(DataLoader)#_MultiProcessingDataLoaderIter.__next__");
  maker.Begin(kMain, 1500, 1, 0);
  AddOffCpu(kMain, 2100, 2900, kFutexCall, 2, &maker);
  CallRecord(kMain, 2000, 3000, kFutexCall, -110, {1, 128, 2, 3, 4, 5}).Time(1, 5).AddTo(&maker);
  CallRecord(kMain, 3100, 3200, kReadCall, 512, {3, 0x7f00, 4096}).AddTo(&maker);
  CallRecord(kMain, 3300, 3400, kConnectCall, -115, {3, 0x7f00, 16}).Address().AddTo(&maker);
  CallRecord(kMain, 3500, 3600, kRenameatCall, 0, {3, 1, 4, 2})
      .Paths("from\0./to\0"sv, abi::PT_SYSTEM_HAS_PATH | abi::PT_SYSTEM_HAS_SECOND_PATH)
      .AddTo(&maker);
  CallRecord(kMain, 3700, 3800, kSymlinkCall, 0, {1, 2})
      .Paths("/link\0target\0"sv, abi::PT_SYSTEM_HAS_PATH | abi::PT_SYSTEM_HAS_SECOND_PATH)
      .AddTo(&maker);
  CallRecord(kMain, 3900, 4000, kOpenat2Call, 7, {3, 1, 2, 24})
      .Paths("new\0"sv, abi::PT_SYSTEM_HAS_PATH)
      .Structure({0102, 0640, 8})
      .AddTo(&maker);
  CallRecord(kMain, 4100, 4200, kRecvmsgCall, 10, {5, 1, 0})
      .Address()
      .Structure({0x7f00, 16, 0x7e00, 2})
      .AddTo(&maker);
  maker.End(kMain, 4300, 1, 0);
  abi::pt_fault_record fault{};
  fault.head = RecordMaker::Head(abi::PT_FAULT, kMain, 4400, 0, 1);
  fault.duration_ns = 50;
  fault.address = 0x7f0000001000;
  fault.offset = 8192;
  fault.area = abi::PT_FAULT_FILE;
  fault.fault_flags = abi::PT_FAULT_MAJOR | abi::PT_FAULT_WRITE;
  maker.Add(fault);
  abi::pt_request_record request{};
  request.head = RecordMaker::Head(abi::PT_REQUEST, kMain, 4500, 22, 1);
  request.duration_ns = 900;
  request.result = 512;
  request.bytes = 512;
  request.user_data = 77;
  maker.Add(request);
  maker.AnnotationEnd(kMain, 9000, 0);
  AddOffCpu(2, 1000, 1800, -1, 0, &maker);
  CallRecord(2, 1900, 2500, kReadCall, -512, {0, 1, 2}).Lost(3).AddTo(&maker);
  CallRecord(2, 2600, 2700, kReadCall, 0, {}).Flags(abi::PT_SYSTEM_OPEN_AT_BEGIN).AddTo(&maker);
  CallRecord(2, 2800, 2900, kReadCall, -512, {}).AddTo(&maker);
  maker.ThreadExit(2, 3000, false);
  CallRecord(3, 2800, 9900, kReadCall, 0, {}).Flags(abi::PT_SYSTEM_UNFINISHED).AddTo(&maker);
  return maker.bytes();
}

// For capture_agent_ring_fuzz, behind its first byte: a page of zeros, then pieces of a ring, each
// with how far it reaches and a record that is as long.
std::string AgentRing() {
  std::string bytes(383, '\0');
  for (const uint8_t words : {5, 7, 19, 255}) {
    std::string piece(2048, '\0');
    piece[22] = static_cast<char>(abi::PT_GPU_CALL);
    piece[23] = static_cast<char>(words);
    const uint16_t reach = static_cast<uint16_t>(words * 8);
    bytes.append(reinterpret_cast<const char*>(&reach), sizeof(reach)).append(piece);
  }
  return bytes;
}

// Calls of 18 years each: their sums do not fit.
std::vector<std::byte> Long() {
  RecordMaker maker;
  for (uint32_t tid = 1; tid <= 40; ++tid) maker.Begin(tid, 0, 1, 0);
  for (uint32_t tid = 1; tid <= 40; ++tid) maker.End(tid, kLatestMonotonicNs, 1, 0);
  return maker.bytes();
}

std::vector<std::byte> Overlapping() {
  RecordMaker maker;
  maker.Begin(1, 1000, 1, 0);
  maker.AnnotationBegin(1, 1010, "outlives its parent");
  maker.AnnotationHandle(1, 1020, 1);
  maker.Begin(1, 1030, 2, 1);
  maker.End(1, 1040, 2, 1);
  maker.End(1, 1050, 1, 0);
  maker.Begin(1, 1060, 3, 0);
  maker.AnnotationEnd(9, 1070, 1);
  maker.End(1, 1080, 3, 0);
  return maker.bytes();
}

std::string Metadata() {
  MetadataWriter writer;
  RecordingInfo info;
  info.proftrace_version = "0";
  info.arguments = {"-p", "100"};
  info.metadata = {{"key", "value"}};
  info.host = Host{"example", "6.1", 2, "0123-4567", "89ab"};
  info.window.monotonic_to_unix_ns = 1'700'000'000'000'000'000;
  writer.AddRecording(info);  // before the first record
  info.window.start_ns = 900;
  writer.AddRecording(info);
  const CaptureMetadata tables = TestMetadata();
  writer.AddPlan(1, tables.plans.at(1).sites);
  std::vector<OperatorEntry> operators;
  for (const auto& [address, entry] : tables.images.at(1).operators) operators.push_back(entry);
  writer.AddOperators(1, operators);
  writer.AddNodeName(1, 0xa0, "torch::autograd::generated::AddBackward0");
  writer.AddNodeName(1, 0xb0, "torch::autograd::PyNode");
  writer.AddPythonTypeName(1, 0x77, "MyBackward");
  writer.AddSymbolName(1, 700, "aten::relu");
  ProcessEntry process = tables.processes.front();
  process.target.rank = 1;
  process.target.cmdline = {"python3", "job.py"};
  process.target.job.local_rank = 1;
  process.target.job.elastic_run_id = "run";
  process.target.namespace_pids = {100, 1};
  writer.AddProcess(process);
  writer.AddThread(ThreadEntry{Pid{100}, Tid{1}, "main"});
  writer.AddJob(Pid{100}, JobEntry{1, 2, process.target.job});
  ClockSnapshot clocks;
  clocks.monotonic_ns = 900;
  clocks.realtime_ns = info.window.monotonic_to_unix_ns + 900;
  clocks.ntp = NtpState{true, 1000};
  writer.AddClocks(clocks);
  GpuAgent agent;
  agent.pid = Pid{100};
  agent.state = "stopped";
  agent.ring_records = 30;
  writer.AddGpuAgent(agent);
  writer.AddUnsupported(Unsupported{"feature", "reason"});
  Window window = info.window;
  window.duration_ns = 1000;
  writer.AddEnd(window, Cost{0.1, 20, 500, 1.5, "basis", 10, 250.5}, Ledger{});
  return writer.TakeJson().front();
}

// A whole capture file, through the writer.
std::string Capture() {
  const int fd = memfd_create("capture", MFD_CLOEXEC);
  auto writer = CaptureWriter::Create(dup(fd), "capture");
  if (!writer.ok() || !(*writer)->AppendMetadata({Metadata()}).ok() ||
      !(*writer)->AppendRecords(EveryKind()).ok() ||
      !(*writer)->AppendDeviceRecords(EveryDeviceKind()).ok() ||
      !(*writer)->AppendRecords(Overlapping()).ok() || !(*writer)->Finish().ok()) {
    return "";
  }
  std::string file((*writer)->file_bytes(), '\0');
  const ssize_t bytes = pread(fd, file.data(), file.size(), 0);
  close(fd);
  return bytes == static_cast<ssize_t>(file.size()) ? file : "";
}

std::string FileText(const char* path, size_t from, size_t bytes) {
  std::ifstream in(path, std::ios::binary);
  in.seekg(static_cast<std::streamoff>(from));
  std::string text(bytes, '\0');
  in.read(text.data(), static_cast<std::streamsize>(bytes));
  text.resize(static_cast<size_t>(in.gcount()));
  return text;
}

// A small program of the system is the file, and its code the code.
void WriteSymbolsSeeds(const std::filesystem::path& root) {
  const auto write = [&](const char* name, char parser, std::string_view bytes) {
    WriteSeed(root, "symbols_fuzz", name, parser, bytes);
  };
  constexpr char kProgram[] = "/bin/true";
  constexpr size_t kLongest = 65535;
  write("elf", 0, FileText(kProgram, 0, kLongest));
  write("code", 1, FileText(kProgram, 0x2800, 2048));
  write("maps", 2, FileText("/proc/self/maps", 0, kLongest));
  ModuleFacts facts;
  facts.functions.push_back({});
  facts.rows.push_back({});
  write("plan", 3, EncodeFacts("", facts));
  write("windows", 3, EncodeWindows("", std::vector<PointPatch>(2)));
  write("operators", 4, std::string(64, '\1'));
  write("version", 5, "2.11.0+cu130");
  write("schemas", 6, std::string(64, '\10'));
  // Pointers that lie in the memory, which repeats itself, and small numbers.
  std::string words;
  for (char word = 0; word < 64; ++word) words += {word, 0, 0, 0, 0, 0, 0, 0};
  for (char version = 0; version < 6; ++version) {
    WriteSeed(root, "python_fuzz", "python_3_" + std::to_string(9 + version), version, words);
  }
  for (const auto& [name, seed] : MemorySeeds()) {
    WriteSeed(root, "process_memory_fuzz", name, seed.parser, seed.bytes);
  }
}

int Run(const std::filesystem::path& root) {
  const std::vector<std::byte> records[] = {EveryKind(),       EveryRowKind(),    EveryPythonKind(),
                                            EverySampleKind(), EverySystemKind(), Overlapping()};
  if (const std::string wrong = WrongWithSeeds(records); !wrong.empty()) {
    std::cerr << wrong;
    return 1;
  }
  WriteSymbolsSeeds(root);
  WriteSeed(root, "pipeline_records_fuzz", "rows", 2, Text(EveryRowKind()));
  WriteSeed(root, "pipeline_records_fuzz", "rows_gap", 1, Text(EveryRowKind()));
  WriteSeed(root, "pipeline_records_fuzz", "python", 2, Text(EveryPythonKind()));
  WriteSeed(root, "pipeline_records_fuzz", "python_gap", 1, Text(EveryPythonKind()));
  WriteSeed(root, "pipeline_records_fuzz", "samples", 6, Text(EverySampleKind()));
  WriteSeed(root, "pipeline_records_fuzz", "samples_gap", 5, Text(EverySampleKind()));
  WriteSeed(root, "pipeline_records_fuzz", "every_kind", 2, Text(EveryKind()));
  WriteSeed(root, "pipeline_records_fuzz", "gap", 1, Text(EveryKind()));
  WriteSeed(root, "pipeline_records_fuzz", "overlapping", 2, Text(Overlapping()));
  WriteSeed(root, "pipeline_records_fuzz", "long", 2, Text(Long()));
  WriteSeed(root, "pipeline_records_fuzz", "nesting", 0, Text(Overlapping()));
  WriteSeed(root, "pipeline_records_fuzz", "system", 6, Text(EverySystemKind()));
  WriteSeed(root, "pipeline_records_fuzz", "system_gap", 5, Text(EverySystemKind()));
  WriteSeed(root, "pipeline_device_fuzz", "every_kind", 2, Text(EveryDeviceKind()));
  WriteSeed(root, "pipeline_device_fuzz", "gap", 1, Text(EveryDeviceKind()));
  WriteSeed(root, "pipeline_metadata_fuzz", "everything", 0, Metadata());
  const std::string capture = Capture();
  if (capture.empty()) return 1;
  WriteSeed(root, "pipeline_capture_fuzz", "strict", 2, capture);
  WriteSeed(root, "capture_agent_ring_fuzz", "records", 1, AgentRing());
  WriteSeed(root, "pipeline_capture_fuzz", "salvage", 3, capture);
  WriteSeed(root, "pipeline_capture_fuzz", "cut", 1, capture.substr(0, capture.size() - 60));
  WriteSeed(root, "pipeline_capture_fuzz", "torn", 1,
            capture.substr(0, 24) + "garbage" + capture.substr(24));
  return 0;
}

}  // namespace
}  // namespace proftrace

int main(int argc, char** argv) {
  if (argc != 2) {
    std::cerr << "usage: pipeline_seeds DIRECTORY\n";
    return 2;
  }
  return proftrace::Run(argv[1]);
}
