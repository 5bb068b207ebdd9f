// Free-threaded builds: made-up processes that say of their layout what such interpreters say.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "symbols/python/python_layout.h"
#include "symbols/python/python_objects.h"
#include "symbols/python/python_runtime.h"
#include "symbols/python/python_stacks.h"
#include "symbols/python/python_state_place.h"
#include "symbols/python/sampled_frames.h"
#include "tests/unit/symbols/fake_memory.h"
#include "userspace/capture/kernel/code_copies.h"

namespace proftrace {
namespace {

constexpr uint64_t kRuntime = 0x10000;
constexpr size_t kWords = 111;
// Behind the head of an object.
constexpr uint64_t kHead = 32;

// _Py_DebugOffsets of 3.14.7t and 3.15.0t on x86-64, from the third word on.
const std::vector<uint64_t> kOf314 = {
    1,    362368, 784,  808,  246720, 7280,  7272, 7344, 7360, 7408, 7712, 7696, 7704, 16,
    7808, 0,      7832, 7824, 8024,   17628, 832,  0,    8,    16,   72,   152,  160,  232,
    32,   88,     8,    0,    56,     80,    78,   64,   72,   240,  128,  136,  144,  152,
    84,   68,     112,  120,  232,    224,   32,   24,   432,  40,   104,  184,  56,   48,
    32,   56,     40,   32,   216,    40,    56,   48,   64,   48,   56,   40,   32,   48,
    32,   40,     56,   32,   48,     80,    48,   32,   56,   288,  192,  176,  40,   88,
    83,   0,      8,    24,   304,    8108,  0,    4,    512};
const std::vector<uint64_t> kOf315 = {
    1,    405760, 912,  936,  247104, 7272,  7264, 7336, 7352, 7400, 7592, 7576, 7584, 16,
    7744, 0,      7768, 7760, 7960,   17628, 888,  0,    8,    16,   72,   80,   88,   96,
    176,  184,    256,  32,   36,     40,    136,  288,  0,    88,   8,    0,    56,   80,
    78,   64,     72,   240,  128,    136,   144,  152,  84,   68,   112,  120,  232,  224,
    32,   24,     440,  40,   104,    184,   48,   304,  968,  904,  56,   48,   32,   56,
    40,   32,     216,  40,   56,     48,    64,   48,   56,   40,   32,   48,   32,   40,
    56,   32,     48,   80,   48,     32,    56,   72,   176,  112,  120,  216,  104,  176,
    40,   88,     83,   0,    8,      24,    344,  8044, 0,    4,    512};

// One interpreter with one thread, in which `outer` calls `inner`.
class FreeThreaded {
 public:
  explicit FreeThreaded(uint32_t version = kPython314) {
    PutOffsets(version);
    layout = **ReadPythonLayout(memory, kRuntime);
    layout.stack.interpreters = kRuntime + layout.interpreters_head;
    place = {.runtime = kRuntime, .version = version, .file = "/python"};
    text_type = Type("str", uint64_t{1} << 28);
    bytes_type = Type("bytes", uint64_t{1} << 27);
    code_type = Type("code", 0);
    interpreter = memory.Allocate(16384);
    thread = memory.Allocate(512);
    block = memory.Allocate(2304);
    memory.PutWord(layout.stack.interpreters, interpreter);
    memory.PutWord(interpreter + layout.stack.interpreter_threads, thread);
    memory.PutWord(block, block);
    memory.PutWord(block + kPthreadTid, 4711);
    memory.PutWord(thread + layout.stack.thread_id, block);
    outer = Frame(Code("outer"), 0, 0, 7);
    inner = Frame(Code("inner"), outer, 0, 3);
    memory.PutWord(thread + layout.stack.thread_frame, inner);
  }

  void PutOffsets(uint32_t version) {
    for (uint64_t word = 0; word < 256; ++word) memory.PutWord(kRuntime + word * 8, 0);
    memory.Put(kRuntime, "xdebugpy", 8);
    memory.PutWord(kRuntime + 8, uint64_t{version} << 16 | 0x02f0);
    const std::vector<uint64_t>& words = version == kPython315 ? kOf315 : kOf314;
    for (size_t i = 0; i < words.size(); ++i) memory.PutWord(kRuntime + 16 + i * 8, words[i]);
  }

  uint64_t Type(const std::string& name, uint64_t flags) {
    const uint64_t type = memory.Allocate(1024);
    const uint64_t text = memory.Allocate(4096);
    memory.Put(text, name.c_str(), name.size() + 1);
    memory.PutWord(type + kHead + 8, text);
    memory.PutWord(type + kHead + 152, flags);
    return type;
  }

  uint64_t Object(uint64_t type, size_t bytes) {
    const uint64_t object = memory.Allocate(bytes);
    memory.PutWord(object + 24, type);
    return object;
  }

  // `state`: PyASCIIObject.state, of which the lowest byte is not looked at.
  uint64_t Text(const std::string& characters, uint32_t state = 1 << 8 | 1 << 11 | 1 << 12 | 3) {
    const uint64_t object = Object(text_type, 128 + characters.size());
    const bool is_ascii = (state >> 12 & 1) != 0;
    memory.PutWord(object + 32, characters.size() / (state >> 8 & 7));
    memory.Put(object + 48, &state, sizeof(state));
    memory.Put(object + (is_ascii ? 56 : 72), characters.data(), characters.size());
    return object;
  }

  // With room for 16 copies of its instructions.
  uint64_t Code(const std::string& name) {
    const uint64_t code = Object(code_type, 512);
    memory.PutWord(code + layout.stack.code_file, Text("/file.py"));
    memory.PutWord(code + layout.stack.code_name, Text(name));
    memory.PutWord(code + layout.stack.code_qualified_name, Text(name));
    memory.PutWord(code + layout.stack.code_lines, Object(bytes_type, 64));
    const uint64_t copies = memory.Allocate(8 + 16 * 8);
    memory.PutWord(code + layout.stack.code_copies, copies);
    memory.PutWord(copies, 16);
    memory.PutWord(copies + 8, code + layout.stack.code_instructions);
    return code;
  }

  uint64_t AddCopy(uint64_t code, uint32_t copy) {
    const uint64_t begin = memory.Allocate(256);
    memory.PutWord(*memory.ReadWord(code + layout.stack.code_copies) + 8 + 8 * copy, begin);
    return begin;
  }

  // A frame that runs instruction number `number` of a copy.
  uint64_t Frame(uint64_t code, uint64_t previous, uint32_t copy, uint64_t number) {
    const uint64_t begin = copy == 0 ? code + layout.stack.code_instructions : AddCopy(code, copy);
    const uint64_t frame = memory.Allocate(512);
    memory.PutWord(frame + layout.stack.frame_code, code | 1);
    memory.PutWord(frame + layout.stack.frame_previous, previous);
    memory.PutWord(frame + layout.stack.frame_instruction, begin + 2 * number);
    memory.Put(frame + layout.stack.frame_copy, &copy, sizeof(copy));
    return frame;
  }

  uint32_t InstructionOfInner() const {
    const PythonThreads read = ReadPythonThreads(memory, layout, PythonLimits());
    const auto sampled = ReadSampledFrames(memory, layout, thread).frames;
    EXPECT_EQ(read.threads[0].frames[0].instruction, InstructionOf(layout, sampled[0]));
    return read.threads[0].frames[0].instruction;
  }

  FakeMemory memory;
  PythonLayout layout;
  PythonPlace place;
  uint64_t text_type = 0;
  uint64_t bytes_type = 0;
  uint64_t code_type = 0;
  uint64_t interpreter = 0;
  uint64_t thread = 0;
  uint64_t block = 0;
  uint64_t inner = 0;
  uint64_t outer = 0;
};

TEST(FreeThreadedTest, IsConfirmedAndRead) {
  for (const uint32_t version : {kPython314, kPython315}) {
    SCOPED_TRACE(PythonVersionText(version));
    const FreeThreaded python(version);
    const auto runtime = ConfirmPython(python.memory, python.place);
    ASSERT_TRUE(runtime.ok()) << runtime.status();
    EXPECT_EQ(runtime->version, PythonVersionText(version) + "t");
    EXPECT_TRUE(IsFreeThreaded(runtime->layout));
    EXPECT_EQ(runtime->layout.stack.object_head, 16);
    EXPECT_LE(runtime->layout.stack.frame_bytes, PT_PYTHON_FRAME_BYTES);
    const PythonThreads read = ReadPythonThreads(python.memory, runtime->layout, PythonLimits());
    ASSERT_EQ(read.threads.size(), 1u);
    ASSERT_EQ(read.threads[0].frames.size(), 2u);
    EXPECT_EQ(read.threads[0].frames[0].instruction, 3u);
    EXPECT_EQ(read.threads[0].frames[1].instruction, 7u);
    EXPECT_FALSE(read.threads[0].has_gil);
    EXPECT_EQ(ReadPythonCode(python.memory, python.layout, read.threads[0].frames[1].code)->name,
              "outer");
  }
}

TEST(FreeThreadedTest, InstructionsOfAThreadsCopyAreThoseOfTheCode) {
  FreeThreaded python;
  const uint64_t code = python.Code("f");
  const auto run = [&python](uint64_t frame) {
    python.memory.PutWord(python.thread + python.layout.stack.thread_frame, frame);
    return python.InstructionOfInner();
  };
  EXPECT_EQ(run(python.Frame(code, python.outer, 2, 9)), 9u);
  EXPECT_EQ(run(python.Frame(code, python.outer, 15, 4)), 4u);
  EXPECT_EQ(run(python.Frame(code, python.outer, 0, 5)), 5u);
  // There is no such copy; it has none yet; its table cannot be read: as before the first one.
  const uint64_t frame = python.Frame(code, python.outer, 3, 9);
  const auto copy_is = [&](uint32_t copy) {
    python.memory.Put(frame + python.layout.stack.frame_copy, &copy, sizeof(copy));
    return run(frame);
  };
  EXPECT_EQ(copy_is(3), 9u);
  EXPECT_EQ(copy_is(16), UINT32_MAX);
  EXPECT_EQ(copy_is(4), UINT32_MAX);
  EXPECT_EQ(copy_is(UINT32_MAX), UINT32_MAX);
  python.memory.PutWord(code + python.layout.stack.code_copies, 0xdead0000);
  EXPECT_EQ(copy_is(3), UINT32_MAX);
}

// What jumps tell is brought to this by adding modulo 2^32, wherever the copy lies.
TEST(FreeThreadedTest, TheDistanceOfACopyIsTold) {
  FreeThreaded python;
  const abi::pt_python_layout& at = python.layout.stack;
  const uint64_t code = python.Code("f");
  const uint64_t own = code + at.code_instructions;
  EXPECT_EQ(ReadDistanceOfCopy(python.memory, at, code, 0), 0u);
  const uint64_t begin = python.AddCopy(code, 2);
  EXPECT_EQ(ReadDistanceOfCopy(python.memory, at, code, 2), (begin - own) / 2);
  const uint64_t copies = *python.memory.ReadWord(code + at.code_copies);
  for (const uint64_t far : {own - 0x40, own + (uint64_t{1} << 40), uint64_t{0x7f00'0000'1000}}) {
    python.memory.PutWord(copies + 8 + 16, far);
    const auto distance = ReadDistanceOfCopy(python.memory, at, code, 2);
    ASSERT_TRUE(distance.has_value());
    const uint64_t instruction = far + 2 * 21;
    EXPECT_EQ(static_cast<uint32_t>((instruction - own) >> 1U) - *distance, 21u);
  }
  EXPECT_EQ(ReadDistanceOfCopy(python.memory, at, code, 3), std::nullopt);
  EXPECT_EQ(ReadDistanceOfCopy(python.memory, at, code, 16), std::nullopt);
  EXPECT_EQ(ReadDistanceOfCopy(python.memory, at, 0xdead0000, 2), std::nullopt);
}

TEST(FreeThreadedTest, ObjectsLieBehindTheLongerHead) {
  FreeThreaded python;
  const PythonObjects objects(python.memory, python.layout);
  EXPECT_EQ(objects.Text(python.Text("plain"), 100), "plain");
  EXPECT_EQ(objects.Text(python.Text("gr\xf6\xdf", 1 << 8 | 1 << 11), 100), "gr\u00f6\u00df");
  EXPECT_EQ(objects.Text(python.Text(std::string("\x21\x6a", 2), 2 << 8 | 1 << 11), 100), "\u6a21");
  // The byte that says how it is interned, set in every bit, says nothing of the characters.
  EXPECT_EQ(objects.Text(python.Text("x", 1 << 8 | 1 << 11 | 1 << 12 | 0xff), 100), "x");
  const uint64_t number = python.Object(python.Type("int", uint64_t{1} << 24), 64);
  python.memory.PutWord(number + kHead, 1 << 3);
  python.memory.PutWord(number + kHead + 8, 4711);
  EXPECT_EQ(objects.Number(number), 4711u);
  const uint64_t list = python.Object(python.Type("list", uint64_t{1} << 25), 64);
  python.memory.PutWord(list + kHead, 1);
  python.memory.PutWord(list + kHead + 8, python.memory.Allocate(8));
  python.memory.PutWord(*python.memory.ReadWord(list + kHead + 8), number);
  EXPECT_EQ(objects.Items(list), std::vector<uint64_t>{number});
  const uint64_t tuple = python.Object(python.Type("tuple", uint64_t{1} << 26), 64);
  python.memory.PutWord(tuple + kHead, 1);
  python.memory.PutWord(tuple + python.layout.tuple_items, number);
  EXPECT_EQ(objects.Items(tuple), std::vector<uint64_t>{number});
}

TEST(FreeThreadedTest, DictsAndAttributesAreFound) {
  FreeThreaded python;
  const PythonObjects objects(python.memory, python.layout);
  const uint64_t dict = python.Object(python.Type("dict", uint64_t{1} << 29), 96);
  const uint64_t keys = python.memory.Allocate(4096);
  python.memory.PutWord(dict + kHead + 16, keys);
  python.memory.PutWord(keys + 8, 3 | 3 << 8 | 1 << 16);  // 8 of a byte each, of texts
  python.memory.PutWord(keys + 24, 1);
  python.memory.PutWord(keys + 40, python.Text("_modules"));
  python.memory.PutWord(keys + 48, python.thread);
  EXPECT_EQ(objects.DictValue(dict, "_modules"), python.thread);
  // An object with a dict in front of it, and one with values behind it.
  const uint64_t type = python.Type("Linear", uint64_t{1} << 4 | uint64_t{1} << 2);
  const uint64_t with_dict = python.memory.Allocate(8) + 8;
  (void)python.Object(type, 64);
  python.memory.PutWord(with_dict - 8, dict);
  python.memory.PutWord(with_dict + 24, type);
  EXPECT_EQ(objects.Attribute(with_dict, "_modules"), python.thread);
  const uint64_t with_values = python.memory.Allocate(128) + 16;
  python.memory.PutWord(with_values + 24, type);
  python.memory.PutWord(type + kHead + 16, 40);  // its size
  python.memory.PutWord(type + python.layout.shared_keys, keys);
  python.memory.PutWord(with_values + 40, uint64_t{1} << 24 | 1);
  python.memory.PutWord(with_values + 48, python.interpreter);
  EXPECT_EQ(objects.Attribute(with_values, "_modules"), python.interpreter);
}

TEST(FreeThreadedTest, WhatIsFreedCountsNoReferences) {
  FreeThreaded python;
  const PythonObjects objects(python.memory, python.layout);
  const uint64_t object = python.Object(python.code_type, 64);
  python.memory.PutWord(object, 0x7f0000001000);  // its thread, or the next one that is free
  EXPECT_FALSE(objects.IsReferenced(object));
  python.memory.PutWord(object + 16, 3);  // flags alone
  EXPECT_FALSE(objects.IsReferenced(object));
  python.memory.PutWord(object + 16, 4);
  EXPECT_TRUE(objects.IsReferenced(object));
  python.memory.PutWord(object + 16, 0);
  python.memory.PutWord(object + 8, uint64_t{1} << 32);
  EXPECT_TRUE(objects.IsReferenced(object));
  EXPECT_FALSE(objects.IsReferenced(0xdead0000));
}

// Each offset that such a build says, where nothing of its kind can be.
TEST(FreeThreadedTest, EachDebugOffsetIsCheckedByItsUse) {
  for (const uint32_t version : {kPython314, kPython315}) {
    FreeThreaded python(version);
    size_t refused = 0;
    for (uint64_t word = 3; word < kWords; ++word) {
      const uint64_t said = *python.memory.ReadWord(kRuntime + word * 8);
      for (const uint64_t offset : {121, 125, 128, 59992, 65535}) {
        python.memory.PutWord(kRuntime + word * 8, offset);
        const auto layout = ReadPythonLayout(python.memory, kRuntime);
        refused += layout.ok() ? 0 : 1;
        if (layout.ok()) EXPECT_TRUE(IsUsable(**layout)) << word << " " << offset;
      }
      python.memory.PutWord(kRuntime + word * 8, said);
    }
    EXPECT_GT(refused, 80u);
    // The class's place in an object, the copies', and which of them a frame runs.
    const bool is_314 = version == kPython314;
    const struct {
      uint64_t word;
      std::vector<uint64_t> impossible;
    } kOwn[] = {{is_314 ? 51U : 59U, {0, 8, 25, 60000}},
                {is_314 ? 49U : 57U, {0, 225, 60000}},
                {is_314 ? 38U : 46U, {0, 74, 126, 128}}};
    for (const auto& own : kOwn) {
      const uint64_t said = *python.memory.ReadWord(kRuntime + own.word * 8);
      for (const uint64_t offset : own.impossible) {
        python.memory.PutWord(kRuntime + own.word * 8, offset);
        EXPECT_FALSE(ReadPythonLayout(python.memory, kRuntime).ok()) << own.word << " " << offset;
      }
      python.memory.PutWord(kRuntime + own.word * 8, said);
    }
    EXPECT_TRUE(ReadPythonLayout(python.memory, kRuntime).ok());
  }
}

// As another version of the same offsets would have it: names are not read as such.
TEST(FreeThreadedTest, WhatDoesNotFitIsRefused) {
  FreeThreaded python;
  ASSERT_TRUE(ConfirmPython(python.memory, python.place).ok());
  python.memory.PutWord(kRuntime + 51 * 8, 16);
  const absl::Status status = ConfirmPython(python.memory, python.place).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
}

TEST(PythonStatePlace, From315OnIsAVariableInFrontOfTheControlBlock) {
  FreeThreaded python(kPython315);
  PythonRuntime runtime{.layout = python.layout, .address = kRuntime};
  // Thread-specific data of others, which they would be up to 3.14.
  python.memory.PutWord(python.block + 784, 1);
  python.memory.PutWord(python.block + 792, python.thread);
  EXPECT_FALSE(FindPythonStatePlace(python.memory, runtime).ok());
  const auto before = [&python](uint64_t state) {
    const uint64_t its = python.memory.Allocate(4096 + 2304) + 4096;
    python.memory.PutWord(its, its);
    python.memory.PutWord(its + kPthreadTid, 4712);
    python.memory.PutWord(state + python.layout.stack.thread_id, its);
    return its;
  };
  const uint64_t first = before(python.thread);
  python.memory.PutWord(first - 24, python.thread);
  EXPECT_EQ(*FindPythonStatePlace(python.memory, runtime), -24);
  // The state while it runs Python, which looks alike; a second thread does not run any.
  python.memory.PutWord(first - 8, python.thread);
  EXPECT_FALSE(FindPythonStatePlace(python.memory, runtime).ok());
  const uint64_t state = python.memory.Allocate(512);
  const uint64_t second = before(state);
  python.memory.PutWord(python.thread + python.layout.stack.thread_next, state);
  python.memory.PutWord(second - 24, state);
  EXPECT_EQ(*FindPythonStatePlace(python.memory, runtime), -24);
}

}  // namespace
}  // namespace proftrace
