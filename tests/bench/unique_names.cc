// unique_names FILE STEPS KINDS: a capture of a made-up job that runs for STEPS tenths of a second
// and makes new names in each. KINDS, joined by commas: annotations (a number in its name), steps
// (that is ProfilerStep#N), functions (Python's, by exec()), files (one is opened), inputs (a
// number is passed). The job has one thread, and three operators a step. For `export` and `report`:
// RESULTS.md has what they take.
#include <fcntl.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/pipeline_metadata.h"
#include "tests/support/system_record_maker.h"
#include "userspace/wire/capture_writer.h"

namespace proftrace {
namespace {

constexpr int64_t kStartNs = 1'000'000'000;
constexpr int64_t kStepNs = 100'000'000;
constexpr uint32_t kSteady = 1;  // the code object of the loop
constexpr uint16_t kOpenAt = 257;

struct Kinds {
  bool annotations = false;
  bool steps = false;
  bool functions = false;
  bool files = false;
  bool inputs = false;
};

class Job {
 public:
  explicit Job(const Kinds& kinds) : kinds_(kinds) {
    if (kinds_.functions) maker_.PythonCode(kTid, kStartNs, kSteady, 1, "/job/train.py", "train");
  }

  void Step(uint32_t i) {
    int64_t now_ns = kStartNs + i * kStepNs;
    const std::string number = std::to_string(i);
    if (kinds_.annotations || kinds_.steps) {
      maker_.AnnotationBegin(kTid, now_ns, (kinds_.steps ? "ProfilerStep#" : "step ") + number);
      maker_.AnnotationHandle(kTid, now_ns += 1'000, 0x40);
    }
    if (kinds_.functions) {
      const uint32_t code = kSteady + 1 + i;
      maker_.PythonCode(kTid, now_ns, code, 1, "/made/file_" + number + ".py", "made_" + number);
      maker_.PythonStack(
          kTid, now_ns, 0, 2,
          {RecordMaker::PythonFrameWord(kSteady, 3), RecordMaker::PythonFrameWord(code, 1)});
    }
    if (kinds_.files) {
      maker_.File(i + 1, abi::PT_SYSTEM_FILE_REGULAR, FileNames(number));
      abi::pt_system_call_record call = maker_.CallRecord(kTid, now_ns, now_ns + 900, kOpenAt, 3);
      call.head.sp = i + 1;
      maker_.AddBytes(&call, PT_SYSTEM_CALL_HEAD_BYTES);
    }
    for (uint16_t site = 1; site <= 3; ++site) {
      now_ns += 10'000;
      if (kinds_.inputs) {
        maker_.Call(kTid, now_ns, site, 1, 1, {uint64_t{i} << 8 | abi::PT_VALUE_INT});
      } else {
        maker_.Begin(kTid, now_ns, site, 1);
      }
      maker_.End(kTid, now_ns += 20'000, site, 1);
    }
    if (kinds_.annotations || kinds_.steps) {
      maker_.AnnotationEnd(kTid, now_ns + 1'000, 0x40);
    }
  }

  std::vector<std::byte> Take() { return std::exchange(maker_.bytes(), {}); }

 private:
  // The innermost name first, each with its NUL.
  static std::string FileNames(const std::string& number) {
    return "sample_" + number + ".jpg" + '\0' + "images" + '\0' + "data" + '\0';
  }

  Kinds kinds_;
  SystemRecordMaker maker_;
};

absl::Status Write(const std::string& path, uint32_t steps, const Kinds& kinds) {
  const int fd = open(path.c_str(), O_CREAT | O_WRONLY | O_TRUNC | O_CLOEXEC, 0644);
  if (fd < 0) return absl::UnknownError(path + ": " + std::strerror(errno));
  absl::StatusOr<std::unique_ptr<CaptureWriter>> writer = CaptureWriter::Create(fd, path);
  if (!writer.ok()) return writer.status();
  const CaptureMetadata tables = TestMetadata();
  RecordingInfo info;
  info.window.start_ns = kStartNs;
  info.window.monotonic_to_unix_ns = 1'700'000'000'000'000'000;
  info.system.calls = kinds.files;
  MetadataWriter metadata;
  metadata.AddRecording(info);
  metadata.AddPlan(1, tables.plans.at(1).sites);
  ProcessEntry process = tables.processes.front();
  process.target.comm = "python3";
  process.target.stacks_recorded = kinds.functions;
  process.target.inputs_recorded = kinds.inputs;
  process.target.probes_on_ns = kStartNs;
  metadata.AddProcess(process);
  absl::Status status = (*writer)->AppendMetadata(metadata.TakeJson());
  Job job(kinds);
  for (uint32_t i = 0; i < steps && status.ok(); ++i) {
    job.Step(i);
    if (i % 1000 == 999 || i + 1 == steps) status = (*writer)->AppendRecords(job.Take());
  }
  Window window = info.window;
  window.duration_ns = int64_t{steps} * kStepNs;
  metadata.AddEnd(window, Cost{}, Ledger{});
  status.Update((*writer)->AppendMetadata(metadata.TakeJson()));
  status.Update((*writer)->Finish());
  return status;
}

}  // namespace
}  // namespace proftrace

int main(int argc, char** argv) {
  if (argc != 4) {
    std::fprintf(stderr, "usage: unique_names FILE.ptrec STEPS KINDS\n");
    return 2;
  }
  const std::string kinds = "," + std::string(argv[3]) + ",";
  const auto has = [&kinds](const char* kind) {
    return kinds.find("," + std::string(kind) + ",") != std::string::npos;
  };
  const absl::Status status = proftrace::Write(
      argv[1], static_cast<uint32_t>(std::atoll(argv[2])),
      {has("annotations"), has("steps"), has("functions"), has("files"), has("inputs")});
  if (status.ok()) return 0;
  std::fprintf(stderr, "unique_names: %s\n", std::string(status.message()).c_str());
  return 1;
}
