#include "tests/support/report_job.h"

#include <string>

#include "tests/support/timeline_maker.h"
#include "userspace/model/system_event.h"

namespace proftrace {
namespace {

constexpr int64_t kStartNs = 7'000'000'000;
constexpr uint32_t kPid = 100;

class Job {
 public:
  Job() {
    main_ = maker_.AddThread(kPid, kPid, "python3");
    helper_ = maker_.AddThread(kPid, 101, kHostileNames[1]);
    batch_ = maker_.AddAnnotation("enumerate(DataLoader)#_SingleProcessDataLoaderIter.__next__");
    linear_ = maker_.AddOperator("aten::linear");
    addmm_ = maker_.AddOperator("aten::addmm");
    hostile_ = maker_.AddOperator(kHostileNames[0]);
    optimizer_ = maker_.AddAnnotation("Optimizer.step#SGD.step");
    file_ = maker_.AddSystemFile(SystemFileKind::kRegular, kHostileNames[2]);
    const uint32_t code = maker_.AddCode("train.py", "main", 10);
    const uint32_t call = maker_.AddCode("torch/nn/modules/module.py", "_call_impl", 1);
    caller_ = maker_.AddFrame(kNoStack, code);
    net_ = maker_.AddFrame(caller_, call, 0, AddModule("Net", "", 1));
    layer_ = maker_.AddFrame(net_, call, 1, AddModule(kHostileNames[3], "blocks.0", 2));
  }

  std::unique_ptr<Timeline> Run(uint32_t steps) {
    now_ns_ = kStartNs;
    for (uint32_t step = 0; step < steps; ++step) {
      const bool is_slow = step % 10 == 9;
      if (!AddStep(is_slow ? 3'000'000 : 0).ok()) return nullptr;
    }
    RecordingInfo& info = maker_.info();
    info.trace_name = kHostileNames[0];
    info.window.start_ns = kStartNs;
    info.window.duration_ns = now_ns_ - kStartNs;
    Target& target = info.targets.emplace_back();
    target.pid = Pid{kPid};
    target.comm = kHostileNames[1];
    target.cmdline = {"python3", kHostileNames[2]};
    target.stacks_recorded = target.inputs_recorded = target.memory_recorded = true;
    return maker_.Finish();
  }

 private:
  uint32_t AddModule(const std::string& name, const std::string& path, uint64_t object) {
    PythonModule module;
    module.pid = Pid{kPid};
    module.object = object;
    module.class_name = name;
    module.path = path;
    module.has_path = true;
    return maker_.AddModule(module);
  }

  void AddRead(SpanId span, int64_t start_ns, int64_t duration_ns) {
    SystemEvent read;
    read.start_ns = start_ns;
    read.duration_ns = duration_ns;
    read.thread = main_;
    read.span = span;
    read.file = file_;
    read.call.number = 0;  // read
    read.call.argument_count = 3;
    read.call.result = 4096;
    const uint32_t call = maker_.AddSystemEvent(read);
    SystemEvent wait;
    wait.kind = SystemKind::kOffCpu;
    wait.start_ns = start_ns + 1000;
    wait.duration_ns = duration_ns - 2000;
    wait.thread = main_;
    wait.span = span;
    wait.around = call;
    wait.depth = 1;
    wait.off_cpu = {};
    wait.off_cpu.waker_pid = Pid{kPid};
    wait.off_cpu.waker_tid = Tid{101};
    wait.off_cpu.reason = WaitReason::kIo;
    wait.off_cpu.voluntary = true;
    maker_.AddSystemEvent(wait);
  }

  absl::Status AddMemory(SpanId span, int64_t time_ns, int64_t bytes) {
    MemoryEvent event;
    event.time_ns = time_ns;
    event.address = 0x1000;
    event.bytes = bytes;
    event.parent = span;
    event.is_inside = span != kNoSpan;
    event.device_index = -1;
    event.total_known = true;
    event.thread = main_;
    return maker_.AddMemoryEvent(event);
  }

  absl::Status AddStep(int64_t more_ns) {
    const int64_t start_ns = now_ns_;
    const SpanId batch = maker_.Begin(main_, batch_, start_ns + 10'000);
    AddRead(batch, start_ns + 20'000, 100'000 + more_ns);
    maker_.End(main_, start_ns + 150'000 + more_ns);
    now_ns_ = start_ns + more_ns;
    const SpanId linear = maker_.Begin(main_, linear_, now_ns_ + 200'000);
    const SpanId addmm = maker_.Begin(main_, addmm_, now_ns_ + 250'000);
    if (auto status = maker_.SetStack(linear, net_); !status.ok()) return status;
    if (auto status = maker_.SetStack(addmm, layer_); !status.ok()) return status;
    if (auto status = maker_.SetShapes(addmm, "[[3, 4], []]"); !status.ok()) return status;
    if (auto status = AddMemory(addmm, now_ns_ + 260'000, 1 << 20); !status.ok()) return status;
    if (auto status = maker_.AddKernel(addmm, "sgemm<float, 128>", now_ns_ + 300'000, 150'000);
        !status.ok()) {
      return status;
    }
    maker_.End(main_, now_ns_ + 500'000);
    maker_.End(main_, now_ns_ + 550'000);
    maker_.Add(helper_, hostile_, now_ns_ + 560'000, now_ns_ + 600'000);
    if (auto status = AddMemory(kNoSpan, now_ns_ + 650'000, -(1 << 20)); !status.ok())
      return status;
    maker_.Add(main_, optimizer_, now_ns_ + 700'000, now_ns_ + 900'000);
    now_ns_ += 1'000'000;
    return absl::OkStatus();
  }

  TimelineMaker maker_;
  ThreadIndex main_{};
  ThreadIndex helper_{};
  LabelId batch_{}, linear_{}, addmm_{}, hostile_{}, optimizer_{};
  SystemFileId file_ = kNoSystemFile;
  StackId caller_ = kNoStack, net_ = kNoStack, layer_ = kNoStack;
  int64_t now_ns_ = 0;
};

}  // namespace

std::unique_ptr<Timeline> MakeReportJob(uint32_t steps) { return Job().Run(steps); }

}  // namespace proftrace
