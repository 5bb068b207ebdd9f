#include "tests/fuzz/record_seeds.h"

#include <array>
#include <cstring>

#include "bpf/abi/record_kinds.h"
#include "tests/support/pipeline_metadata.h"
#include "tests/support/record_maker.h"
#include "tests/support/sample_record_maker.h"
#include "userspace/pipeline/build_timeline.h"

namespace proftrace {

std::vector<std::byte> EveryRowKind() {
  RecordMaker maker;
  maker.ThreadNumber(1, 1000, 1);
  maker.Guard(abi::PT_GUARD_BEGIN, 1, 1010, 0, 0x61, 0, 0, "function");
  maker.Guard(abi::PT_GUARD_BEGIN, 1, 1020, 1, 0x62, 0x1000, 0, "");
  maker.Guard(abi::PT_FRAME_BEGIN, 1, 1030, 2, 0x63, 0x2000, 1, "forward");
  maker.AnnotationBegin(1, 1040, "guarded");
  maker.AnnotationGuard(1, 1050, 0x64);
  maker.Numbered(1, 1060, 1, 3, 7);
  maker.Sequence(1, 1070, 3, 8);
  maker.Add(RecordMaker::Head(abi::PT_LITERAL_BEGIN, 1, 1080, 6, RecordMaker::Sp(4)));
  maker.Named(1, 1085, 1, 5, 71, 0);
  maker.Allocation(1, 1090, 0x7f0000001000, 4096);
  maker.Free(1, 1100, 0x7f0000001000);
  maker.Allocation(1, 1106, 0x9000, 64, /*is_stacked=*/true);
  maker.Free(1, 1107, 0x9000, /*is_stacked=*/true);
  maker.Memory(abi::PT_DEVICE_MEMORY, 1, 1110, 1, 0, 0x8000, 512, 1024, 4096);
  maker.Memory(abi::PT_DEVICE_MEMORY, 1, 1120, 1, 0, 0x8000, -512, 512, 4096);
  maker.Memory(abi::PT_OUT_OF_MEMORY, 1, 1130, 1, 0, 0, 1 << 30, 512, 4096);
  maker.End(1, 1135, 1, 5);
  maker.End(1, 1140, 6, 4);
  maker.End(1, 1150, 1, 3);
  maker.GuardEnd(1, 1160, 1, 0x64);
  maker.FrameEnd(1, 1170, 2, 0x63, 0x2000);
  maker.GuardEnd(1, 1180, 1, 0x62, true);
  maker.GuardEnd(1, 1190, 0, 0x61);
  // As many values as take two records, and doubles in registers.
  std::vector<uint64_t> values(400, 5 << 8 | abi::PT_VALUE_INT);
  values[0] = uint64_t{398} << 8 | abi::PT_VALUE_LIST;
  values[399] = abi::PT_VALUE_SPILLED;
  maker.Inputs(2, 2000, 1, 0, 2, values, 1);
  maker.SizedBegin(2, 2010, 1, 0, 4096);
  maker.SpilledInputs(2, 2020, 1, {0.5});
  maker.NodeForward(2, 2030, 0, 8, 1);
  maker.GroupCall(2, 2035, 0x7f0010, 41);
  maker.Guard(abi::PT_WORK_TITLE, 2, 2040, 1, 0x65, 0x3000, 0, "gloo:all_reduce");
  abi::pt_pointer_record work{};
  work.head = RecordMaker::Head(abi::PT_WORK_BEGIN, 2, 2050, 0, RecordMaker::Sp(1));
  work.value = 0x65;
  maker.Add(work);
  maker.End(2, 2060, 1, 0);
  maker.LossAnywhere(2, 2070, 3);
  // A name of one byte, and a number.
  maker.Keywords(3, 3000, 1, 0, 1,
                 {uint64_t{1} << 32 | abi::PT_VALUE_TEXT, 'n', 5 << 8 | abi::PT_VALUE_INT}, true);
  maker.Guard(abi::PT_GUARD_BEGIN, 3, 3010, 0, 0x66, 0, 0, "row");
  maker.GuardEnd(3, 3020, 0, 0x66);
  return maker.bytes();
}

std::vector<std::byte> EveryPythonKind() {
  RecordMaker maker;
  maker.PythonCode(1, 900, 1, 3, "/job/train.py", "main", std::string("\x80\x01\x02\x03", 4));
  maker.PythonCode(1, 910, 2, 30, "/job/model.py", std::string("f\0w\0d\0", 6), "", 2);
  maker.PythonCode(1, 920, 3, 1, std::string(600, 'p'), "long", std::string(3000, '\x81'));
  maker.PythonModule(1, 930, 0x7f10, 0x7f20, "Linear");
  // Another one that lies there now, as tier patch tells of it.
  maker.PythonModule(1, 935, uint64_t{1} << PT_PYTHON_MODULE_ADDRESS_BITS | 0x7f10, 0x7f28, "ReLU");
  maker.PythonStack(
      1, 1000, 0, 2,
      {RecordMaker::PythonFrameWord(1, 4), RecordMaker::PythonFrameWord(2, 0, true), 0x7f10});
  maker.Begin(1, 1010, 1, 0);
  maker.PythonStack(1, 1020, 1, 1, {RecordMaker::PythonFrameWord(3, 6)});
  maker.Script(1, 1025, {{0x5000, 0x6000}, {0x5100, 0x6100}});
  maker.Begin(1, 1030, 2, 1);
  maker.Script(1, 1032, {});
  maker.Begin(1, 1035, 1, 2);
  maker.End(1, 1038, 1, 2);
  maker.End(1, 1040, 2, 1);
  maker.End(1, 1050, 1, 0);
  return maker.bytes();
}

std::vector<std::byte> EverySampleKind() {
  SampleRecordMaker maker;
  maker.Function(1, abi::PT_SAMPLE_FRAME_PYTHON, "main", "/job/train.py", 3);
  maker.Function(2, abi::PT_SAMPLE_FRAME_NATIVE, "at::mm", "/lib/libtorch_cpu.so");
  maker.Function(3, abi::PT_SAMPLE_FRAME_KERNEL, "futex", "");
  maker.Frame(1, 0, 1, 12);
  maker.Frame(2, 1, 2);
  maker.Frame(3, 2, 3);
  maker.Begin(7, 1500, 1, 0);
  maker.Sample(7, 2000, 2, 3);
  maker.Sample(7, 6000, 3, 5, abi::PT_SAMPLE_SLEEPING, 202);
  maker.End(7, 9000, 1, 0);
  maker.Sample(8, 2000, 0, 1, abi::PT_SAMPLE_UNINTERRUPTIBLE);
  maker.Sample(8, 3000, 77, 1, abi::PT_SAMPLE_RUNNABLE);
  maker.Sample(8, 4000, 2, 1, abi::PT_SAMPLE_STOPPED);
  maker.OffCpu(7, 6000, 8000, 500, 202, 8);
  maker.Waker(8, 7500, 7, 2);
  return maker.bytes();
}

std::string WrongWithSeeds(std::span<const std::vector<std::byte>> seeds) {
  std::array<bool, 256> has_kind{};
  std::string wrong;
  for (const std::vector<std::byte>& seed : seeds) {
    abi::pt_record head;
    for (size_t at = 0; at + sizeof(head) <= seed.size(); at += size_t{head.words} * 8) {
      std::memcpy(&head, seed.data() + at, sizeof(head));
      if (head.words == 0) return "a record has no size\n";
      has_kind[head.kind] = true;
    }
    VectorSource source;
    source.Add(seed);
    const auto timeline = BuildTimeline(TestMetadata(), &source, "");
    if (!timeline.ok()) return "a seed makes no timeline\n";
    const Ledger& ledger = (*timeline)->ledger();
    if (ledger.unknown + ledger.malformed > 0) {
      wrong += "seed " + std::to_string(&seed - seeds.data()) + ": " +
               std::to_string(ledger.unknown) + " unknown, " + std::to_string(ledger.malformed) +
               " malformed records\n";
    }
  }
  for (size_t kind = 0; kind < has_kind.size(); ++kind) {
    if (!has_kind[kind] && abi::kRecordKinds[kind].least_bytes > 0) {
      wrong += "no seed has a record of kind " + std::to_string(kind) + "\n";
    }
  }
  return wrong;
}

}  // namespace proftrace
