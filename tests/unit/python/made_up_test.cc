// A made-up CPython: refusals, and memory that means harm.
#include <gtest/gtest.h>

#include <vector>

#include "symbols/python/python_layout.h"
#include "symbols/python/python_objects.h"
#include "symbols/python/python_runtime.h"
#include "symbols/python/python_stacks.h"
#include "symbols/python/python_state_place.h"
#include "symbols/python/python_waits.h"
#include "tests/unit/symbols/fake_memory.h"

namespace proftrace {
namespace {

constexpr uint64_t kRuntime = 0x10000;
constexpr uint64_t kTextFlag = uint64_t{1} << 28;
constexpr uint64_t kBytesFlag = uint64_t{1} << 27;

class CountingMemory : public FakeMemory {
 public:
  bool Read(uint64_t address, void* buffer, size_t bytes) const override {
    ++reads;
    return FakeMemory::Read(address, buffer, bytes);
  }
  mutable size_t reads = 0;
};

// One interpreter with one thread, in which `outer` calls `inner`.
class FakePython {
 public:
  explicit FakePython(uint32_t version) {
    layout = *KnownPythonLayout(version);
    layout.stack.interpreters = kRuntime + layout.interpreters_head;
    place = {.runtime = kRuntime, .version = version, .file = "/python"};
    text_type = Type("str", kTextFlag);
    bytes_type = Type("bytes", kBytesFlag);
    code_type = Type("code", 0);
    const uint64_t runtime = memory.Allocate(4096);
    for (uint64_t at = 0; at < 1024; at += 8) memory.PutWord(kRuntime + at, 0);
    interpreter = runtime;
    thread = memory.Allocate(512);
    inner = Frame("inner", 0);
    outer = Frame("outer", 0);
    memory.PutWord(layout.stack.interpreters, interpreter);
    memory.PutWord(interpreter + layout.stack.interpreter_threads, thread);
    const uint64_t thread_block = memory.Allocate(64);
    memory.PutWord(thread_block, thread_block);
    memory.PutWord(thread + layout.stack.thread_id, thread_block);
    memory.PutWord(inner + layout.stack.frame_previous, outer);
    if (layout.stack.thread_indirect == 0) {
      memory.PutWord(thread + layout.stack.thread_frame, inner);
    } else {
      const uint64_t holder = memory.Allocate(64);
      memory.PutWord(holder + layout.stack.thread_indirect - 1, inner);
      memory.PutWord(thread + layout.stack.thread_frame, holder);
    }
  }

  uint64_t Type(const std::string& name, uint64_t flags) {
    const uint64_t type = memory.Allocate(512);
    const uint64_t text = memory.Allocate(4096);
    memory.Put(text, name.c_str(), name.size() + 1);
    memory.PutWord(type + 24, text);
    memory.PutWord(type + 168, flags);
    return type;
  }

  uint64_t Object(uint64_t type, size_t bytes) {
    const uint64_t object = memory.Allocate(bytes);
    memory.PutWord(object + 8, type);
    return object;
  }

  // A compact str of `width` bytes a character.
  uint64_t Text(const std::string& characters, uint8_t width = 1, bool is_ascii = true) {
    const uint64_t object = Object(text_type, 128 + characters.size());
    memory.PutWord(object + layout.stack.text_length, characters.size() / width);
    const auto state = static_cast<uint8_t>(width << 2 | 32 | (is_ascii ? 64 : 0));
    memory.Put(object + layout.stack.text_state, &state, 1);
    memory.Put(object + (is_ascii ? layout.stack.text_ascii : layout.stack.text_wide),
               characters.data(), characters.size());
    return object;
  }

  uint64_t Frame(const std::string& name, uint64_t previous) {
    const uint64_t code = Object(code_type, 512);
    memory.PutWord(code + layout.stack.code_file, Text("/file.py"));
    memory.PutWord(code + layout.stack.code_name, Text(name));
    if (layout.stack.code_qualified_name != 0) {
      memory.PutWord(code + layout.stack.code_qualified_name, Text(name));
    }
    memory.PutWord(code + layout.stack.code_lines, Object(bytes_type, 64));
    const uint64_t frame = memory.Allocate(512);
    memory.PutWord(frame + layout.stack.frame_code, code);
    memory.PutWord(frame + layout.stack.frame_previous, previous);
    if (layout.stack.code_instructions != 0) {
      memory.PutWord(frame + layout.stack.frame_instruction,
                     code + layout.stack.code_instructions + 6);
    }
    return frame;
  }

  uint64_t CodeOf(uint64_t frame) const {
    return *memory.ReadWord(frame + layout.stack.frame_code);
  }

  absl::Status Confirm() const { return ConfirmPython(memory, place).status(); }

  CountingMemory memory;
  PythonLayout layout;
  PythonPlace place;
  uint64_t text_type = 0;
  uint64_t bytes_type = 0;
  uint64_t code_type = 0;
  uint64_t interpreter = 0;
  uint64_t thread = 0;
  uint64_t inner = 0;
  uint64_t outer = 0;
};

bool IsRefused(const absl::Status& status, std::string_view words) {
  return absl::IsFailedPrecondition(status) &&
         std::string_view(status.message().data(), status.message().size()).find(words) !=
             std::string_view::npos;
}

TEST(MadeUpPythonTest, IsConfirmedAndRead) {
  for (const uint32_t version : {kPython39, kPython310, kPython311, kPython312}) {
    SCOPED_TRACE(PythonVersionText(version));
    const FakePython python(version);
    const auto runtime = ConfirmPython(python.memory, python.place);
    ASSERT_TRUE(runtime.ok()) << runtime.status();
    EXPECT_EQ(runtime->version, PythonVersionText(version));
    EXPECT_EQ(runtime->interpreters, 1u);
    EXPECT_EQ(runtime->main_interpreter, python.interpreter);
    EXPECT_LE(runtime->layout.stack.frame_bytes, PT_PYTHON_FRAME_BYTES);
    const PythonThreads read = ReadPythonThreads(python.memory, runtime->layout, PythonLimits());
    ASSERT_EQ(read.threads.size(), 1u);
    ASSERT_EQ(read.threads[0].frames.size(), 2u);
    EXPECT_EQ(read.threads[0].frames[0].instruction, version >= kPython311 ? 3u : 0u);
    EXPECT_EQ(ReadPythonCode(python.memory, python.layout, read.threads[0].frames[1].code)->name,
              "outer");
  }
}

TEST(MadeUpPythonTest, OtherVersionsAndBuildsAreRefusedByName) {
  FakePython python(kPython312);
  python.place.version = 0x0308;
  EXPECT_TRUE(IsRefused(python.Confirm(), "Python 3.8 is not supported")) << python.Confirm();
  python.place.version = 0x0310;
  EXPECT_TRUE(IsRefused(python.Confirm(), "Python 3.16 is not supported")) << python.Confirm();
  python.place.version = kPython313;
  EXPECT_TRUE(IsRefused(python.Confirm(), "_Py_DebugOffsets")) << python.Confirm();
  python.place.version = 0;
  EXPECT_TRUE(IsRefused(python.Confirm(), "which version")) << python.Confirm();
  python.place.is_free_threaded = true;
  EXPECT_TRUE(IsRefused(python.Confirm(), "free-threaded")) << python.Confirm();
}

TEST(MadeUpPythonTest, DebugOffsetsAreChecked) {
  FakePython python(kPython312);
  python.place.version = kPython313;
  python.memory.Put(kRuntime, "xdebugpy", 8);
  python.memory.PutWord(kRuntime + 8, 0x031000f0);
  EXPECT_TRUE(IsRefused(python.Confirm(), "Python 3.16 is not supported")) << python.Confirm();
  python.memory.PutWord(kRuntime + 8, 0x030d00f0);
  python.memory.PutWord(kRuntime + 16, 1);
  EXPECT_TRUE(IsRefused(python.Confirm(), "free-threaded builds of Python 3.13"));
  python.memory.PutWord(kRuntime + 16, 0);
  python.memory.PutWord(python.layout.stack.interpreters, 0);
  EXPECT_TRUE(IsRefused(python.Confirm(), "was not found again")) << python.Confirm();
  for (const uint64_t offset : {uint64_t{1} << 40, uint64_t{200}}) {
    python.memory.PutWord(kRuntime + 30 * 8, offset);  // of a frame's code
    EXPECT_TRUE(IsRefused(python.Confirm(), "what cannot be")) << python.Confirm();
  }
}

// Each offset that a process says of itself, at each place where nothing of its kind can be: in a
// frame or a head that readers copy, over its end by one byte, or where no pointer lies.
TEST(MadeUpPythonTest, EachDebugOffsetIsCheckedByItsUse) {
  for (const uint64_t version : {0x030d05f0, 0x030e04f0, 0x030f02f0}) {
    FakeMemory memory;
    for (uint64_t word = 0; word < 128; ++word) memory.PutWord(kRuntime + word * 8, 0);
    memory.Put(kRuntime, "xdebugpy", 8);
    memory.PutWord(kRuntime + 8, version);
    ASSERT_TRUE(ReadPythonLayout(memory, kRuntime).ok());
    size_t refused = 0;
    for (uint64_t word = 3; word < 111; ++word) {
      for (const uint64_t offset : {121, 125, 128, 59992, 65535}) {
        memory.PutWord(kRuntime + word * 8, offset);
        const auto layout = ReadPythonLayout(memory, kRuntime);
        refused += layout.ok() ? 0 : 1;
        if (layout.ok()) EXPECT_TRUE(IsUsable(**layout)) << word << " " << offset;
      }
      memory.PutWord(kRuntime + word * 8, 0);
    }
    EXPECT_GT(refused, 80u);
    // A str's length and state, and a frame's code, where the copied bytes do not hold them.
    const std::vector<uint64_t> words =
        version == 0x030d05f0   ? std::vector<uint64_t>{69, 68, 30, 29, 31, 33}
        : version == 0x030e04f0 ? std::vector<uint64_t>{79, 78, 33, 32, 34, 36}
                                : std::vector<uint64_t>{91, 90, 41, 40, 42, 44};
    for (const uint64_t word : words) {
      memory.PutWord(kRuntime + word * 8, 59992);
      EXPECT_FALSE(ReadPythonLayout(memory, kRuntime).ok()) << word;
      memory.PutWord(kRuntime + word * 8, 0);
    }
  }
}

// Whoever made the layout: what the copied bytes do not hold is nothing.
TEST(MadeUpPythonTest, OffsetsOutsideOfWhatWasCopiedAreNothing) {
  FakePython python(kPython312);
  const uint64_t text = python.Text("text");
  for (const uint16_t offset : {73, 77, 80, 59992, 65535}) {
    for (uint16_t abi::pt_python_layout::*field :
         {&abi::pt_python_layout::text_length, &abi::pt_python_layout::text_state}) {
      PythonLayout layout = python.layout;
      layout.stack.*field = offset;
      EXPECT_EQ(PythonObjects(python.memory, layout).Text(text, 100), std::nullopt);
    }
    PythonLayout layout = python.layout;
    layout.stack.frame_code = layout.stack.frame_previous = offset;
    layout.stack.frame_instruction = layout.stack.frame_owner = offset;
    (void)ReadPythonThreads(python.memory, layout, {.threads = 4, .frames = 4});
  }
}

// As 3.13.5 and 3.14.4 say it: of the lock that lies in the interpreter's state.
TEST(MadeUpPythonTest, TheHolderIsFoundFromTheLock) {
  const struct {
    uint64_t version, lock_word, lock, locked, holder;
  } kSaid[] = {{0x030d05f0, 15, 7752, 7768, 7760}, {0x030e04f0, 16, 7760, 7776, 7768}};
  for (const auto& said : kSaid) {
    FakeMemory memory;
    for (uint64_t word = 0; word < 128; ++word) memory.PutWord(kRuntime + word * 8, 0);
    memory.Put(kRuntime, "xdebugpy", 8);
    memory.PutWord(kRuntime + 8, said.version);
    memory.PutWord(kRuntime + said.lock_word * 8, said.lock);
    memory.PutWord(kRuntime + said.lock_word * 8 + 16, said.locked);
    memory.PutWord(kRuntime + said.lock_word * 8 + 24, said.holder);
    const auto layout = ReadPythonLayout(memory, kRuntime);
    ASSERT_TRUE(layout.ok() && layout->has_value()) << layout.status();
    EXPECT_EQ((*layout)->gil_locked, 16);
    EXPECT_EQ((*layout)->gil_holder, 8);
    memory.PutWord(kRuntime + said.lock_word * 8, said.locked);
    EXPECT_FALSE(ReadPythonLayout(memory, kRuntime).ok());
  }
}

TEST(MadeUpPythonTest, WhatDoesNotFitIsRefused) {
  const auto refused = [](const auto& damage) {
    FakePython python(kPython312);
    EXPECT_TRUE(python.Confirm().ok());
    damage(&python);
    EXPECT_TRUE(IsRefused(python.Confirm(), "was not found again")) << python.Confirm();
  };
  refused([](FakePython* p) { p->memory.PutWord(p->layout.stack.interpreters, 0); });
  refused([](FakePython* p) { p->memory.PutWord(p->layout.stack.interpreters, 0xdead0000); });
  refused(
      [](FakePython* p) { p->memory.PutWord(p->thread + p->layout.stack.thread_id, p->thread); });
  refused([](FakePython* p) { p->memory.PutWord(p->thread + p->layout.stack.thread_frame, 0); });
  refused(
      [](FakePython* p) { p->memory.PutWord(p->thread + p->layout.stack.thread_frame, 0xdead); });
  refused(
      [](FakePython* p) { p->memory.PutWord(p->inner + p->layout.stack.frame_code, p->thread); });
  refused(
      [](FakePython* p) { p->memory.PutWord(p->inner + p->layout.stack.frame_previous, 0xdead); });
  refused([](FakePython* p) { p->memory.PutWord(p->outer + p->layout.stack.frame_code, 0); });
  refused(
      [](FakePython* p) { p->memory.PutWord(p->CodeOf(p->inner) + 8, p->Type("function", 0)); });
  refused([](FakePython* p) {
    p->memory.PutWord(p->CodeOf(p->inner) + p->layout.stack.code_name, p->thread);
  });
  refused([](FakePython* p) {
    p->memory.PutWord(p->CodeOf(p->inner) + p->layout.stack.code_lines, p->Text("x"));
  });
  refused([](FakePython* p) {
    p->memory.PutWord(p->inner + p->layout.stack.frame_instruction, ~uint64_t{0} / 2);
    p->memory.PutWord(p->interpreter + p->layout.interpreter_id, 7);  // no main interpreter
  });
}

// A thread that waits for the semaphore of an object of the class, in a function of the file.
bool WaitsForLock(uint32_t version, const std::string& class_name, const std::string& file,
                  const std::string& function, uint32_t most = 1) {
  FakePython python(version);
  constexpr uint16_t kPlace = 24;
  python.layout.stack.state_place = kPlace;
  const uint64_t block = *python.memory.ReadWord(python.thread + python.layout.stack.thread_id);
  python.memory.PutWord(block + kPlace, python.thread);
  const uint64_t code = python.CodeOf(python.inner);
  python.memory.PutWord(code + python.layout.stack.code_file, python.Text(file));
  python.memory.PutWord(code + python.layout.stack.code_name, python.Text(function));
  const uint64_t semaphore = python.memory.Allocate(32);
  const uint64_t object = python.Object(python.Type(class_name, 0), 64);
  python.memory.PutWord(object + PT_PYTHON_LOCK_OF_OBJECT, semaphore);
  python.memory.Put(object + PT_PYTHON_SEMAPHORE_MOST, &most, sizeof(most));
  abi::pt_begun_wait wait{};
  wait.thread_id = block;
  wait.word = semaphore;
  wait.sp = python.memory.Allocate(PT_WAIT_STACK_WORDS * 8);
  wait.registers[0] = object + 8;  // something else
  python.memory.PutWord(wait.sp + 40, object);
  return AwaitedPythonLock(python.memory, python.layout, /*gil=*/0x9000, wait) !=
         abi::PT_PYTHON_NO_LOCK;
}

TEST(MadeUpPythonTest, LocksAreToldFromWhatThreadsWaitForWorkWith) {
  constexpr char kThreading[] = "/usr/lib/python3/threading.py";
  for (const uint32_t version : {kPython39, kPython310, kPython311, kPython312}) {
    SCOPED_TRACE(PythonVersionText(version));
    EXPECT_TRUE(WaitsForLock(version, "_thread.lock", "/job.py", "wait"));
    EXPECT_TRUE(WaitsForLock(version, "_thread.lock", kThreading, "__enter__"));
    EXPECT_FALSE(WaitsForLock(version, "_thread.lock", kThreading, "wait"));
    EXPECT_FALSE(WaitsForLock(version, "_thread.lock", kThreading, "_wait_for_tstate_lock"));
    EXPECT_TRUE(WaitsForLock(version, "_thread.RLock", kThreading, "wait"));
    EXPECT_FALSE(WaitsForLock(version, "_queue.SimpleQueue", "/job.py", "work"));
    EXPECT_TRUE(WaitsForLock(version, "_multiprocessing.SemLock", "/job.py", "work"));
    EXPECT_FALSE(WaitsForLock(version, "_multiprocessing.SemLock", "/job.py", "work", 5));
  }
}

TEST(MadeUpPythonTest, TheInterpretersLockIsKnownByItsAddress) {
  FakePython python(kPython311);
  abi::pt_begun_wait wait{};
  wait.word = 0x9000 + PT_PYTHON_GIL_BYTES - 4;
  EXPECT_EQ(AwaitedPythonLock(python.memory, python.layout, 0x9000, wait), abi::PT_PYTHON_GIL);
  wait.word += 4;
  EXPECT_EQ(AwaitedPythonLock(python.memory, python.layout, 0x9000, wait), abi::PT_PYTHON_NO_LOCK);
  wait.word = 0x8ff8;
  EXPECT_EQ(AwaitedPythonLock(python.memory, python.layout, 0x9000, wait), abi::PT_PYTHON_NO_LOCK);
  wait.word = 0;
  EXPECT_EQ(AwaitedPythonLock(python.memory, python.layout, /*gil=*/0, wait),
            abi::PT_PYTHON_NO_LOCK);
}

TEST(MadeUpPythonTest, ListsWithoutAnEndAreBounded) {
  for (int list = 0; list < 3; ++list) {
    FakePython python(kPython312);
    const abi::pt_python_layout& at = python.layout.stack;
    if (list == 0)
      python.memory.PutWord(python.interpreter + at.interpreter_next, python.interpreter);
    if (list == 1) python.memory.PutWord(python.thread + at.thread_next, python.thread);
    if (list == 2) python.memory.PutWord(python.outer + at.frame_previous, python.inner);
    python.memory.reads = 0;
    (void)ConfirmPython(python.memory, python.place);
    EXPECT_LT(python.memory.reads, 1'000'000u);
    const PythonThreads read = ReadPythonThreads(
        python.memory, python.layout, {.threads = 100, .frames = 50, .frames_in_all = 1000});
    EXPECT_EQ(read.is_whole, list == 2);
    EXPECT_LE(read.threads.size(), 100u);
    EXPECT_EQ(read.threads[0].is_cut, list == 2);
    EXPECT_LE(read.threads[0].frames.size(), 50u);
  }
}

TEST(MadeUpPythonTest, FramesBehindOneThatCannotBeReadAreMissing) {
  FakePython python(kPython312);
  python.memory.PutWord(python.outer + python.layout.stack.frame_previous, 0xdead0000);
  const PythonThreads read = ReadPythonThreads(python.memory, python.layout, PythonLimits());
  EXPECT_EQ(read.threads[0].frames.size(), 2u);
  EXPECT_TRUE(read.threads[0].failed);
  // A frame of the interpreter's own is none of Python's.
  const uint8_t owner = 3;
  python.memory.Put(python.inner + python.layout.stack.frame_owner, &owner, 1);
  EXPECT_EQ(
      ReadPythonThreads(python.memory, python.layout, PythonLimits()).threads[0].frames.size(), 1u);
}

// Before 3.11 it is read where glibc has it.
TEST(MadeUpPythonTest, NumbersOfThreadsAreTheirOwnOrGlibcs) {
  for (const uint32_t version : {kPython39, kPython310, kPython311, kPython312}) {
    SCOPED_TRACE(PythonVersionText(version));
    const bool is_glibcs = version < kPython311;
    FakePython python(version);
    const auto number = [&python] {
      return ReadPythonThreads(python.memory, python.layout, PythonLimits()).threads[0].native_id;
    };
    EXPECT_EQ(number(), 0u);  // nothing is there to be read
    const uint64_t block = python.memory.Allocate(2304);
    python.memory.PutWord(python.thread + python.layout.stack.thread_id, block);
    python.memory.PutWord(block + 720, uint64_t{9} << 32 | 4711);
    EXPECT_EQ(number(), 0u);  // not a thread's
    python.memory.PutWord(block, block);
    EXPECT_EQ(number(), is_glibcs ? 4711u : 0u);
    if (is_glibcs) continue;
    python.memory.PutWord(python.thread + python.layout.native_thread_id, 4712);
    EXPECT_EQ(number(), 4712u);
  }
}

TEST(MadeUpPythonTest, TextsBecomeUtf8AndAreCut) {
  FakePython python(kPython311);
  const PythonObjects objects(python.memory, python.layout);
  EXPECT_EQ(objects.Text(python.Text("plain"), 100), "plain");
  EXPECT_EQ(objects.Text(python.Text("gr\xf6\xdf", 1, false), 100), "gr\u00f6\u00df");
  const std::string two("a\0\x21\x6a\x00\xd8", 6);  // 'a', U+6A21, half a surrogate pair
  EXPECT_EQ(objects.Text(python.Text(two, 2, false), 100), "a\u6a21\ufffd");
  const std::string four("\x0d\xf4\x01\0\xff\xff\xff\xff", 8);  // U+1F40D, none
  EXPECT_EQ(objects.Text(python.Text(four, 4, false), 100), "\U0001F40D\ufffd");
  EXPECT_EQ(objects.Text(python.Text(four, 4, false), 4), "\U0001F40D");
  EXPECT_EQ(objects.Text(python.Text(std::string(1 << 16, 'x')), 4000), std::string(4000, 'x'));
}

TEST(MadeUpPythonTest, WhatIsNoTextIsNothing) {
  FakePython python(kPython311);
  const PythonObjects objects(python.memory, python.layout);
  EXPECT_EQ(objects.Text(0, 100), std::nullopt);
  EXPECT_EQ(objects.Text(python.Object(python.bytes_type, 128), 100), std::nullopt);
  const uint64_t text = python.Text("text");
  python.memory.PutWord(text + python.layout.stack.text_length, ~uint64_t{0});
  EXPECT_EQ(objects.Text(text, 1 << 20), std::nullopt);  // not so much memory there
  const uint8_t state = 3 << 2 | 32 | 64;
  python.memory.Put(text + python.layout.stack.text_state, &state, 1);
  EXPECT_EQ(objects.Text(text, 4), std::nullopt);
  const uint64_t bytes = python.Object(python.bytes_type, 128);
  python.memory.PutWord(bytes + python.layout.stack.bytes_length, 101);
  EXPECT_EQ(objects.Bytes(bytes, 100), std::nullopt);
  EXPECT_EQ(objects.Bytes(python.Text("x"), 100), std::nullopt);
  EXPECT_EQ(objects.TypeName(python.Object(python.Type(std::string(1000, 'x'), 0), 16)),
            std::nullopt);
}

TEST(MadeUpPythonTest, DictsOfImpossibleSizesAreNothing) {
  for (const uint32_t version : {kPython310, kPython312}) {
    FakePython python(version);
    const PythonObjects objects(python.memory, python.layout);
    const uint64_t dict = python.Object(python.Type("dict", uint64_t{1} << 29), 64);
    const uint64_t keys = python.memory.Allocate(4096);
    python.memory.PutWord(dict + 32, keys);
    const uint64_t indices = version == kPython310 ? 8 : 8 | 3 << 8 | 1 << 16;  // 8 of a byte each
    const uint64_t count = keys + (version == kPython310 ? 32 : 24);
    const uint64_t entries = keys + (version == kPython310 ? 40 : 32) + 8;
    const size_t first = version == kPython310 ? 8 : 0;  // behind the hash
    python.memory.PutWord(keys + 8, indices);
    python.memory.PutWord(count, 1);
    python.memory.PutWord(entries + first, python.Text("key"));
    python.memory.PutWord(entries + first + 8, python.thread);
    EXPECT_EQ(objects.DictValue(dict, "key"), python.thread);
    EXPECT_EQ(objects.DictValue(dict, "kex"), std::nullopt);
    python.memory.PutWord(count, uint64_t{1} << 40);
    EXPECT_EQ(objects.DictItems(dict), std::nullopt);
    python.memory.PutWord(count, PythonObjects::kMostItems);
    EXPECT_EQ(objects.DictItems(dict), std::nullopt);  // not so much memory there
    python.memory.PutWord(count, 1);
    python.memory.PutWord(keys + 8, ~uint64_t{0});
    EXPECT_EQ(objects.DictItems(dict), std::nullopt);
    python.memory.PutWord(keys + 8, indices);
    python.memory.PutWord(dict + 40, 0xdead0000);  // values of their own
    EXPECT_EQ(objects.DictItems(dict), std::nullopt);
    python.memory.PutWord(dict + 32, 0xdead0000);
    EXPECT_EQ(objects.DictItems(dict), std::nullopt);
    EXPECT_EQ(objects.DictItems(python.Text("text")), std::nullopt);
  }
}

TEST(PythonNameTest, SaysTheVersion) {
  const auto version = [](std::string_view name) {
    bool is_free_threaded = false;
    const uint32_t number = PythonVersionOfName(name, &is_free_threaded);
    return number == 0 ? "none" : PythonVersionText(number) + (is_free_threaded ? "t" : "");
  };
  EXPECT_EQ(version("libpython3.9.so.1.0"), "3.9");
  EXPECT_EQ(version("libpython3.13t.so.1.0"), "3.13t");
  EXPECT_EQ(version("python3.14"), "3.14");
  EXPECT_EQ(version("python3"), "none");
  EXPECT_EQ(version("libpython2.7.so"), "none");
  EXPECT_EQ(version("libtorch_python.so"), "none");
  EXPECT_EQ(version("python3.99999"), "none");
}

TEST(PythonLayoutTest, AFreeThreadedBuildSaysSo) {
  FakeMemory memory;
  constexpr uint64_t kAt = 0x5000;
  const std::vector<uint64_t> words(111);
  memory.Put(kAt, words.data(), words.size() * sizeof(uint64_t));
  EXPECT_FALSE(SaysFreeThreaded(memory, kAt));  // it says nothing
  memory.Put(kAt, "xdebugpy", 8);
  memory.PutWord(kAt + 8, 0x030e0000);
  EXPECT_FALSE(SaysFreeThreaded(memory, kAt));
  memory.PutWord(kAt + 16, 1);
  EXPECT_TRUE(SaysFreeThreaded(memory, kAt));
  EXPECT_FALSE(ReadPythonLayout(memory, kAt).ok());  // no object is so short
  EXPECT_FALSE(SaysFreeThreaded(memory, 0xdead0000));
}

TEST(PythonStatePlace, IsTheFirstDatumThatAllThreadsKeep) {
  FakePython python(kPython311);
  PythonRuntime runtime{.layout = python.layout, .address = kRuntime};
  const uint64_t block = python.memory.Allocate(2304);
  python.memory.PutWord(block, block);
  python.memory.PutWord(block + kPthreadTid, 4711);
  python.memory.PutWord(python.thread + python.layout.stack.thread_id, block);
  EXPECT_FALSE(FindPythonStatePlace(python.memory, runtime).ok());  // nowhere
  python.memory.PutWord(block + 400, python.thread);
  EXPECT_FALSE(FindPythonStatePlace(python.memory, runtime).ok());  // no datum of a key
  for (const uint64_t place : {784, 816, 832}) {
    python.memory.PutWord(block + place, 1);
    python.memory.PutWord(block + place + 8, python.thread);
  }
  EXPECT_EQ(*FindPythonStatePlace(python.memory, runtime), 792u);
  // A second thread, that keeps it in two of these places.
  const uint64_t second = python.memory.Allocate(512);
  const uint64_t its = python.memory.Allocate(2304);
  python.memory.PutWord(its, its);
  python.memory.PutWord(its + kPthreadTid, 4712);
  python.memory.PutWord(second + python.layout.stack.thread_id, its);
  python.memory.PutWord(python.thread + python.layout.stack.thread_next, second);
  EXPECT_FALSE(FindPythonStatePlace(python.memory, runtime).ok());
  for (const uint64_t place : {816, 832}) {
    python.memory.PutWord(its + place, 3);
    python.memory.PutWord(its + place + 8, second);
  }
  EXPECT_EQ(*FindPythonStatePlace(python.memory, runtime), 824u);
  // Threads that have ended, of one of which nothing is left.
  const uint64_t third = python.memory.Allocate(512);
  const uint64_t fourth = python.memory.Allocate(512);
  const uint64_t ended = python.memory.Allocate(2304);
  python.memory.PutWord(ended, ended);
  python.memory.PutWord(third + python.layout.stack.thread_id, ended);
  python.memory.PutWord(fourth + python.layout.stack.thread_id, 0xdead0000);
  python.memory.PutWord(second + python.layout.stack.thread_next, third);
  python.memory.PutWord(third + python.layout.stack.thread_next, fourth);
  EXPECT_EQ(*FindPythonStatePlace(python.memory, runtime), 824u);
  runtime.version = "3.11.0";
  EXPECT_TRUE(IsRefused(FindPythonStatePlace(python.memory, runtime).status(), "3.11.0"));
  runtime.version = "3.11.1";
  EXPECT_TRUE(FindPythonStatePlace(python.memory, runtime).ok());
  python.memory.PutWord(kRuntime + python.layout.finalizing, python.thread);
  EXPECT_TRUE(IsRefused(FindPythonStatePlace(python.memory, runtime).status(), "about to end"));
}

}  // namespace
}  // namespace proftrace
