// Python stacks: records in, the frames of each span out.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "tests/unit/pipeline/timeline.h"
#include "userspace/decode/python_decoder.h"
#include "userspace/model/name_limits.h"

namespace proftrace {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr uint64_t Word(uint32_t code, uint32_t instruction, bool has_module = false) {
  return RecordMaker::PythonFrameWord(code, instruction, has_module);
}

// "file:line:name", outermost first; modules as "class_number=path".
std::vector<std::string> FramesOf(const Timeline& timeline, StackId stack) {
  std::vector<std::string> frames;
  for (StackId id = stack; id != kNoStack; id = timeline.python_frame(id).parent) {
    const PythonFrame& frame = timeline.python_frame(id);
    const PythonCode& code = timeline.python_codes()[frame.code];
    std::string text = code.file + ":" + std::to_string(frame.line) + ":" + code.name;
    if (frame.module != 0) {
      const PythonModule& module = timeline.python_modules()[frame.module - 1];
      text = module.class_name + "_" + std::to_string(module.number) + "=" +
             (module.has_path ? module.path : "?");
    }
    frames.insert(frames.begin(), text);
  }
  return frames;
}

std::vector<std::string> StackOf(const Timeline& timeline, uint32_t span) {
  return FramesOf(timeline, timeline.stack_of(SpanId{span}));
}

std::vector<std::string> OwnStackOf(const Timeline& timeline, uint32_t span) {
  return FramesOf(timeline, timeline.own_stack_of(SpanId{span}));
}

// CPython 3.11's table: 2 instructions of the first line, then 3 of the next one (locations of the
// short form without columns: 0b1_1101_nnn, then the difference of the lines).
const std::string kLines = {static_cast<char>(0xe9), 0, static_cast<char>(0xea), 2};

CaptureMetadata Metadata() {
  CaptureMetadata metadata = TestMetadata();
  metadata.processes[0].target.python_version = "3.11.2";
  metadata.processes[0].target.stacks_recorded = true;
  metadata.processes[0].target.python_paths = {"/env/site-packages/", "/job/"};
  return metadata;
}

std::vector<std::string> StackOfMemory(const Timeline& timeline, uint32_t event) {
  return FramesOf(timeline, timeline.memory_events().at(event).stack);
}

class Job : public RecordMaker {
 public:
  // A short operator at the stack that the thread has.
  void Operator(uint32_t tid = kTid) {
    now_ns_ += 1000;
    Begin(tid, now_ns_, 1, 1);
    End(tid, now_ns_ + 500, 1, 1);
  }
  void Code(uint32_t id, const std::string& file, const std::string& name) {
    PythonCode(kTid, now_ns_, id, 10, file, name, kLines);
  }
  void Stack(uint16_t common, const std::vector<uint64_t>& words, uint8_t flags = 0) {
    PythonStack(kTid, now_ns_, common, static_cast<uint16_t>(words.size()), words, flags);
  }
  int64_t now_ns() const { return now_ns_; }

 private:
  int64_t now_ns_ = 1000;
};

TEST(StacksTest, StacksShareWhatTheyHaveInCommon) {
  Job job;
  job.Operator();
  job.Code(1, "/job/train.py", "<module>");
  job.Code(2, "/env/site-packages/torch/x.py", "f");
  job.Stack(0, {Word(1, 0), Word(2, 3)});
  job.Operator();
  job.Operator();
  job.Stack(1, {Word(2, 1)});
  job.Operator();
  job.Stack(0, {});
  job.Operator();
  const auto timeline = Build(job, Metadata());
  EXPECT_THAT(StackOf(*timeline, 0), IsEmpty());
  EXPECT_THAT(StackOf(*timeline, 1), ElementsAre("train.py:10:<module>", "torch/x.py:11:f"));
  EXPECT_EQ(timeline->stack_of(SpanId{2}), timeline->stack_of(SpanId{1}));
  EXPECT_THAT(StackOf(*timeline, 3), ElementsAre("train.py:10:<module>", "torch/x.py:10:f"));
  EXPECT_THAT(StackOf(*timeline, 4), IsEmpty());
}

// A row's own functions may allocate: custom Functions, and what runs between two operators.
TEST(StacksTest, MemoryHasTheOneThatItHappenedIn) {
  Job job;
  job.Code(1, "/job/train.py", "<module>");
  job.Code(2, "/job/train.py", "f");
  job.Stack(0, {Word(1, 0)});
  job.Operator();
  job.Stack(1, {Word(2, 3)});
  job.Allocation(kTid, job.now_ns() + 600, 0x1000, 64, /*is_stacked=*/true);
  job.Allocation(kTid, job.now_ns() + 610, 0x2000, 64);  // as recordings from before tell of it
  job.Stack(1, {});
  job.Free(kTid, job.now_ns() + 620, 0x1000, /*is_stacked=*/true);
  job.Free(kTid, job.now_ns() + 630, 0x2000);
  CaptureMetadata metadata = Metadata();
  metadata.processes[0].target.memory_recorded = true;
  const auto timeline = Build(job, metadata);
  ASSERT_EQ(timeline->memory_events().size(), 4u);
  EXPECT_THAT(StackOfMemory(*timeline, 0), ElementsAre("train.py:10:<module>", "train.py:11:f"));
  EXPECT_THAT(StackOfMemory(*timeline, 1), IsEmpty());
  EXPECT_THAT(StackOfMemory(*timeline, 2), ElementsAre("train.py:10:<module>"));
  EXPECT_THAT(StackOfMemory(*timeline, 3), IsEmpty());
}

TEST(StacksTest, ThreadsHaveTheirOwn) {
  Job job;
  job.Code(1, "a.py", "f");
  job.Stack(0, {Word(1, 0)});
  job.Operator(kTid);
  job.Operator(kTid + 1);
  const auto timeline = Build(job, Metadata());
  EXPECT_THAT(StackOf(*timeline, 0), ElementsAre("a.py:10:f"));
  EXPECT_THAT(StackOf(*timeline, 1), IsEmpty());
}

TEST(StacksTest, ALossForgetsTheStackUntilAWholeOneComes) {
  Job job;
  job.Code(1, "a.py", "f");
  job.Stack(0, {Word(1, 0), Word(1, 1)});
  job.Operator();
  job.Loss(kTid, job.now_ns(), 3);
  job.Operator();
  job.Stack(1, {Word(1, 2)});  // its base may be another one
  job.Operator();
  job.Stack(0, {Word(1, 2)});
  job.Operator();
  const auto timeline = Build(job, Metadata());
  EXPECT_THAT(StackOf(*timeline, 0), ElementsAre("a.py:10:f", "a.py:10:f"));
  EXPECT_THAT(StackOf(*timeline, 1), IsEmpty());
  EXPECT_THAT(StackOf(*timeline, 2), IsEmpty());
  EXPECT_THAT(StackOf(*timeline, 3), ElementsAre("a.py:11:f"));
}

TEST(StacksTest, ModulesAreNumberedByTheirFirstCall) {
  CaptureMetadata metadata = Metadata();
  metadata.module_paths[{Pid{RecordMaker::kPid}, 0xb00, 0}][0] = "layers.1";
  Job job;
  job.Code(1, "module.py", "_call_impl");
  for (const uint64_t object : {0xa00, 0xb00, 0xa00}) {
    if (object != 0xa00 || job.now_ns() == 1000) {
      job.PythonModule(kTid, job.now_ns(), object, 0x99, "Linear");
    }
    job.PythonStack(kTid, job.now_ns(), 0, 1, {Word(1, 0, true), object});
    job.Operator();
  }
  // Another one at an address that was free.
  job.PythonModule(kTid, job.now_ns(), 0xa00, 0x98, "ReLU");
  job.PythonStack(kTid, job.now_ns(), 0, 1, {Word(1, 0, true), 0xa00});
  job.Operator();
  const auto timeline = Build(job, metadata);
  EXPECT_THAT(StackOf(*timeline, 0), ElementsAre("Linear_0=?"));
  EXPECT_THAT(StackOf(*timeline, 1), ElementsAre("Linear_1=layers.1"));
  EXPECT_EQ(timeline->stack_of(SpanId{2}), timeline->stack_of(SpanId{0}));
  EXPECT_THAT(StackOf(*timeline, 3), ElementsAre("ReLU_0=?"));
  EXPECT_TRUE(timeline->python_codes()[0].is_module_call);
}

TEST(StacksTest, APathBelongsToTheModuleThatWasToldOfThen) {
  CaptureMetadata metadata = Metadata();
  const auto paths = [&metadata](uint64_t type) -> auto& {
    return metadata.module_paths[{Pid{RecordMaker::kPid}, 0xa00, type}];
  };
  Job job;
  job.Code(1, "module.py", "_call_impl");
  const auto call = [&job](uint64_t handle, uint64_t type, const char* class_name) {
    const int64_t told_ns = job.now_ns();
    job.PythonModule(kTid, told_ns, handle, type, class_name);
    job.PythonStack(kTid, told_ns, 0, 1, {Word(1, 0, true), handle});
    job.Operator();
    return told_ns;
  };
  paths(0x99)[call(0xa00, 0x99, "Linear")] = "out_proj";
  call(0xa00, 0x98, "LayerNorm");
  paths(0x99)[call(0xa00, 0x99, "Linear")] = "head";
  // As tier patch tells them apart.
  call(uint64_t{1} << PT_PYTHON_MODULE_ADDRESS_BITS | 0xa00, 0x97, "ReLU");
  job.PythonStack(kTid, job.now_ns(), 0, 1, {Word(1, 0, true), 0xa00});
  job.Operator();
  const auto timeline = Build(job, metadata);
  EXPECT_THAT(StackOf(*timeline, 0), ElementsAre("Linear_0=out_proj"));
  EXPECT_THAT(StackOf(*timeline, 1), ElementsAre("LayerNorm_0=?"));
  EXPECT_THAT(StackOf(*timeline, 2), ElementsAre("Linear_1=head"));
  EXPECT_THAT(StackOf(*timeline, 3), ElementsAre("ReLU_0=?"));
  EXPECT_THAT(StackOf(*timeline, 4), ElementsAre("Linear_1=head"));
}

TEST(StacksTest, ClassesOfOneNameAreNumberedApart) {
  Job job;
  job.Code(1, "module.py", "_call_impl");
  for (const auto& [object, type] : {std::pair(0xa00, 0x99), {0xb00, 0x98}, {0xc00, 0x99}}) {
    job.PythonModule(kTid, job.now_ns(), object, type, "Linear");
    job.PythonStack(kTid, job.now_ns(), 0, 1, {Word(1, 0, true), static_cast<uint64_t>(object)});
    job.Operator();
  }
  const auto timeline = Build(job, Metadata());
  EXPECT_THAT(StackOf(*timeline, 0), ElementsAre("Linear_0=?"));
  EXPECT_THAT(StackOf(*timeline, 1), ElementsAre("Linear_0=?"));
  EXPECT_THAT(StackOf(*timeline, 2), ElementsAre("Linear_1=?"));
}

TEST(StacksTest, FramesOfConstructorsShimsAreHidden) {
  Job job;
  job.Code(1, "a.py", "f");
  job.Code(2, "__init__", "__init__");
  job.Code(3, "a.py", "__init__");
  job.Stack(0, {Word(1, 0), Word(2, 2), Word(3, 0)});
  job.Operator();
  job.Stack(2, {Word(3, 2)});
  job.Operator();
  const auto timeline = Build(job, Metadata());
  EXPECT_THAT(StackOf(*timeline, 0), ElementsAre("a.py:10:f", "a.py:10:__init__"));
  EXPECT_THAT(StackOf(*timeline, 1), ElementsAre("a.py:10:f", "a.py:11:__init__"));
  EXPECT_EQ(timeline->python_frame(timeline->stack_of(SpanId{1})).depth, 2u);
}

TEST(StacksTest, NamesOfAnyWidthAndLength) {
  Job job;
  job.PythonCode(kTid, 1000, 1, 10, "a.py", std::string("\xe9\x00\x2d\x4e\x00\xd8", 6), kLines, 2);
  job.PythonCode(kTid, 1000, 2, 10, std::string(3000, 'x'), "long", kLines);
  job.PythonCode(kTid, 1000, 3, 10, "a.py", "cut", kLines);
  job.PythonText(kTid, 1000, 4, abi::PT_PYTHON_NAME, "beginning", 1, 5000);
  job.Stack(0, {Word(1, 0), Word(2, 0), Word(4, 0)});
  job.Operator();
  const auto timeline = Build(job, Metadata());
  const std::vector<std::string> stack = StackOf(*timeline, 0);
  ASSERT_EQ(stack.size(), 3u);
  EXPECT_EQ(stack[0], "a.py:10:\u00e9\u4e2d\ufffd");
  EXPECT_EQ(stack[1], std::string(3000, 'x') + ":10:long");
  EXPECT_EQ(stack[2], "<unknown>:0:beginning…");
  EXPECT_EQ(timeline->ledger().names_cut, 1u);
}

TEST(StacksTest, ImpossibleRecordsAreCountedAndSkipped) {
  Job job;
  job.Code(1, "a.py", "f");
  job.PythonStack(kTid, 1000, 0, 9, {Word(1, 0)});        // fewer words than it says
  job.PythonStack(kTid, 1000, 0, 1, {Word(1, 0, true)});  // its module's address is missing
  job.PythonStack(kTid, 1000, 0, 1, {Word(0, 0)});        // codes are numbered from 1 on
  job.PythonText(kTid, 1000, 1, 9, "part", 1);
  job.PythonText(kTid, 1000, 1, abi::PT_PYTHON_NAME, "width", 3);
  job.Stack(0, {Word(1, 0)}, abi::PT_PYTHON_STACK_CUT);
  job.Operator();
  job.Stack(0, {}, abi::PT_PYTHON_STACK_FAILED);
  job.Operator();
  const auto timeline = Build(job, Metadata());
  EXPECT_EQ(timeline->ledger().malformed, 5u);
  EXPECT_EQ(timeline->ledger().stacks_cut, 1u);
  EXPECT_EQ(timeline->ledger().stacks_unread, 1u);
  EXPECT_THAT(StackOf(*timeline, 0), ElementsAre("a.py:10:f"));
  EXPECT_THAT(StackOf(*timeline, 1), IsEmpty());
}

TEST(StacksTest, BackwardRowsHaveTheStackOfTheFirstRowWithTheirNumber) {
  Job job;
  job.Code(1, "a.py", "forward");
  job.Code(2, "a.py", "later");
  job.Code(3, "a.py", "backward");
  job.ThreadNumber(kTid, 1000, 1);
  const auto forward = [&job](int64_t ns, uint64_t number) {
    job.Begin(kTid, ns, 1, 1);
    job.Sequence(kTid, ns, 1, number);
    job.End(kTid, ns + 10, 1, 1);
  };
  job.Stack(0, {Word(1, 0)});
  forward(2000, 5);
  job.Stack(0, {Word(2, 0)});
  forward(3000, 5);
  job.Stack(0, {Word(3, 0)});
  for (const uint64_t number : {5, 6}) {
    const int64_t ns = 4000 + static_cast<int64_t>(number) * 1000;
    job.Node(kTid, ns, 6, 1, 0xa0, 0, "");
    job.NodeForward(kTid, ns, 1, number, 1);
    job.Node(kTid, ns + 100, 7, 2, 0xa0, 0, "");
    job.NodeForward(kTid, ns + 100, 2, number, 1);
    job.Begin(kTid, ns + 200, 2, 3);
    job.End(kTid, ns + 210, 2, 3);
    job.End(kTid, ns + 300, 7, 2);
    job.End(kTid, ns + 400, 6, 1);
  }
  const auto timeline = Build(job, Metadata());
  EXPECT_THAT(Paths(*timeline),
              ElementsAre("aten::a", "aten::a", testing::HasSubstr("evaluate_function"),
                          testing::EndsWith(">AddBackward0"), testing::EndsWith(">aten::b"),
                          testing::HasSubstr("evaluate_function"),
                          testing::EndsWith(">AddBackward0"), testing::EndsWith(">aten::b")));
  EXPECT_THAT(StackOf(*timeline, 2), ElementsAre("a.py:10:backward"));
  EXPECT_THAT(StackOf(*timeline, 3), ElementsAre("a.py:10:forward"));
  EXPECT_THAT(StackOf(*timeline, 4), ElementsAre("a.py:10:forward"));
  EXPECT_THAT(OwnStackOf(*timeline, 0), ElementsAre("a.py:10:forward"));
  EXPECT_THAT(OwnStackOf(*timeline, 4), ElementsAre("a.py:10:backward"));
  // Its forward was not recorded: the engine's row is the first one with the number.
  EXPECT_THAT(StackOf(*timeline, 6), ElementsAre("a.py:10:backward"));
}

// Whether each record was taken.
std::vector<bool> Feed(RecordMaker& job, PythonDecoder* decoder) {
  std::vector<bool> taken;
  const std::span<const std::byte> bytes(job.bytes());
  for (size_t at = 0; at < bytes.size();) {
    abi::pt_record head;
    std::memcpy(&head, bytes.data() + at, sizeof(head));
    taken.push_back(decoder->OnRecord(bytes.subspan(at, size_t{head.words} * 8)));
    at += size_t{head.words} * 8;
  }
  job.bytes().clear();
  return taken;
}

PythonDecoder::Tables TablesOf(PythonDecoder* decoder) {
  PythonDecoder::Facts facts;
  facts.version_of = [](Pid) { return 0; };
  facts.paths_of = [](Pid) { return std::vector<std::string>(); };
  facts.path_of_module = [](const PythonModule&, int64_t) { return nullptr; };
  return decoder->TakeTables(facts);
}

TEST(PythonDecoderTest, WhatIsKnownStaysKnownWhenThereIsNoMoreRoom) {
  Ledger ledger;
  PythonDecoder decoder(&ledger, {.codes = 2, .frames = 4});
  Job job;
  const auto stack_of = [&](const std::vector<uint64_t>& words) {
    job.Stack(0, words);
    EXPECT_THAT(Feed(job, &decoder), ElementsAre(true));
    return decoder.StackOf(RecordMaker::kPid, kTid);
  };
  const StackId one = stack_of({Word(1, 0)});
  const StackId two = stack_of({Word(2, 0)});
  const StackId other = stack_of({Word(3, 0)});  // no room for its code
  EXPECT_EQ(stack_of({Word(4, 7)}), other);
  EXPECT_EQ(stack_of({Word(3, 1), Word(4, 1), Word(5, 1)}), other);  // one frame for all of them
  const StackId later = stack_of({Word(2, 1)});                      // no room for its frame
  EXPECT_EQ(stack_of({Word(2, 1), Word(1, 9)}), later);
  EXPECT_EQ(stack_of({Word(1, 0)}), one);
  EXPECT_EQ(stack_of({Word(2, 0)}), two);
  const PythonDecoder::Tables tables = TablesOf(&decoder);
  EXPECT_LE(tables.codes.size(), 3u);
  EXPECT_LE(tables.frames.size(), 5u);
  EXPECT_GT(tables.other_stacks, 0u);
  for (const StackId stack : {other, later}) {
    EXPECT_EQ(tables.codes[tables.frames[Raw(stack)].code].name, kOtherNames);
  }
}

// A job that makes functions by exec() for ever.
TEST(PythonDecoderTest, FunctionsBeyondTheLimitAreOneForEachGroup) {
  Ledger ledger;
  PythonDecoder decoder(&ledger);
  constexpr uint32_t kFunctions = 150'000;
  Job job;
  const auto call = [&](uint32_t code, const std::string& file, const std::string& name) {
    job.PythonCode(kTid, job.now_ns(), code, 1, file, name);
    job.Stack(0, {Word(code, 0)});
    Feed(job, &decoder);
    return decoder.StackOf(RecordMaker::kPid, kTid);
  };
  StackId last = kNoStack;
  for (uint32_t code = 1; code <= kFunctions; ++code) {
    last = call(code, "a.py", "f" + std::to_string(code));
  }
  const StackId known = call(kFunctions + 1, "a.py", "f7");  // told again, by another number
  const StackId other = call(kFunctions + 2, "b.py", "g");
  const PythonDecoder::Tables tables = TablesOf(&decoder);
  const auto name_of = [&](StackId stack) {
    return tables.codes[tables.frames[Raw(stack)].code].name;
  };
  EXPECT_EQ(tables.codes.size(), kMostNames + 2);
  EXPECT_EQ(name_of(last), "f*");
  EXPECT_EQ(name_of(known), "f7");
  EXPECT_EQ(name_of(other), kOtherNames);
  EXPECT_EQ(tables.frames.size(), 1 + kMostNames + 2);
  EXPECT_EQ(tables.group_codes, kFunctions - kMostNames);
  EXPECT_EQ(tables.other_codes, 1u);
  EXPECT_EQ(ledger.malformed, 0u);
}

TEST(PythonDecoderTest, AModuleWithoutRoomLeavesTheOthersTheirNames) {
  Ledger ledger;
  PythonDecoder decoder(&ledger, {.modules = 1});
  Job job;
  job.PythonModule(kTid, job.now_ns(), 0x1000, 0x50, "Linear");
  job.PythonModule(kTid, job.now_ns(), 0x2000, 0x60, "Conv2d");
  EXPECT_THAT(Feed(job, &decoder), ElementsAre(true, true, true, true));
  const PythonDecoder::Tables tables = TablesOf(&decoder);
  ASSERT_EQ(tables.modules.size(), 1u);
  EXPECT_EQ(tables.modules[0].class_name, "Linear");
  EXPECT_EQ(tables.other_modules, 1u);
}

// A small compressed capture can hold as much text as it likes.
TEST(PythonDecoderTest, TextsOfCodeHaveABound) {
  Ledger ledger;
  PythonDecoder decoder(&ledger, {.text_bytes = 4});
  Job job;
  for (const uint32_t code : {1, 2}) {
    job.PythonText(kTid, job.now_ns(), code, abi::PT_PYTHON_NAME, "forward", 1);
  }
  EXPECT_THAT(Feed(job, &decoder), ElementsAre(true, true));
  const PythonDecoder::Tables tables = TablesOf(&decoder);
  ASSERT_EQ(tables.codes.size(), 1u);
  EXPECT_EQ(tables.codes[0].name, "forward");
}

}  // namespace
}  // namespace proftrace
