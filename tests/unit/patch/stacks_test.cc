// A thread of this process with a made-up CPython records its stacks by the recorder's own code.
#include <gtest/gtest.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "tests/unit/patch/made_up_python.h"
#include "userspace/patch/patch_ring.h"
#include "userspace/patch/recorder_code.h"

namespace proftrace {
namespace {

constexpr int64_t kLong = 3'600'000'000'000;
constexpr uint16_t kSite = 7;
constexpr uint64_t kSp = 0x7fff0000;

int32_t TidOffset() {
  const auto tid = static_cast<uint32_t>(syscall(SYS_gettid));
  for (int32_t offset = 0; offset < 2048; offset += 4) {
    uint32_t word = 0;
    std::memcpy(&word,
                reinterpret_cast<const void*>(ControlBlock() + static_cast<uint64_t>(offset)),
                sizeof(word));
    if (word == tid) return offset;
  }
  return -1;
}

struct Told {
  std::vector<std::string> texts;  // of code objects and classes, in their order
  std::vector<abi::pt_python_stack_record> stacks;
  size_t codes = 0;
  std::vector<uint32_t> copies;  // of the codes' instructions
  size_t modules = 0;
  size_t begins = 0;
  size_t losses = 0;
};

class Recorder {
 public:
  explicit Recorder(const Python& python, bool let_read = true) {
    PatchRingOptions options;
    options.slot_words = 4096;
    options.reads_stacks = true;
    options.python = python.facts();
    options.tid_offset = TidOffset();
    options.salt = 99;
    bytes_ = PatchRing::Bytes(options);
    UniqueFd memory(static_cast<int>(syscall(SYS_memfd_create, "ring", 0)));
    EXPECT_EQ(ftruncate(memory.get(), static_cast<off_t>(bytes_)), 0);
    at_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, memory.get(), 0);
    options.address = reinterpret_cast<uint64_t>(at_);
    code_bytes_ = PATCH_CONTROL_BYTES + RecorderCode().size();
    code_ = static_cast<uint8_t*>(
        mmap(nullptr, code_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    std::memcpy(code_ + PATCH_CONTROL_RING, &options.address, sizeof(options.address));
    std::memcpy(code_ + PATCH_CONTROL_PYTHON_END, &options.address, sizeof(options.address));
    std::memcpy(code_ + PATCH_CONTROL_BYTES, RecorderCode().data(), RecorderCode().size());
    EXPECT_EQ(mprotect(code_ + PATCH_CONTROL_BYTES, code_bytes_ - PATCH_CONTROL_BYTES,
                       PROT_READ | PROT_EXEC),
              0);
    absl::StatusOr<std::unique_ptr<PatchRing>> ring =
        PatchRing::Make(memory, options, [](uint32_t tid) { return tid; });
    EXPECT_TRUE(ring.ok()) << ring.status();
    ring_ = *std::move(ring);
    ring_->SetEndsAreSeen(true);
    if (let_read) ring_->LetReadStacks();
    ring_->LetWrite(kLong);
  }
  ~Recorder() {
    munmap(code_, code_bytes_);
    munmap(at_, bytes_);
  }

  // An operator's begin.
  void Begin(uint64_t sp = kSp, uint16_t site = kSite) const {
    reinterpret_cast<void (*)(uint64_t, uint32_t, uint64_t)>(Place(proftrace_on_operator_stack))(
        0, site | 1u << 25, sp);
  }
  void End(uint64_t sp = kSp, uint16_t site = kSite, uint8_t kind = abi::PT_SPAN_END) const {
    register uint64_t info asm("r10") = site | uint64_t{kind} << 16 | 3ull << 24;
    register uint64_t stack asm("r11") = sp;
    asm volatile("call *%[code]"
                 : "+r"(info), "+r"(stack)
                 : [code] "b"(Place(proftrace_recorder_end))
                 : "rax", "rcx", "rdx", "r8", "memory", "cc");
  }

  Told Drain() {
    Told told;
    ring_->Drain([&told](std::span<const std::byte> bytes) {
      abi::pt_record head{};
      std::memcpy(&head, bytes.data(), sizeof(head));
      EXPECT_EQ(bytes.size(), size_t{head.words} * 8);
      told.codes += head.kind == abi::PT_PYTHON_CODE;
      if (head.kind == abi::PT_PYTHON_CODE) told.copies.push_back(head.sp);
      told.modules += head.kind == abi::PT_PYTHON_MODULE;
      told.begins += head.kind == abi::PT_SPAN_BEGIN;
      told.losses += head.kind == abi::PT_LOSS;
      if (head.kind == abi::PT_PYTHON_TEXT) {
        abi::pt_python_text_record text{};
        std::memcpy(&text, bytes.data(), std::min(bytes.size(), sizeof(text)));
        if (text.part != abi::PT_PYTHON_LINES) {
          told.texts.emplace_back(reinterpret_cast<const char*>(text.text), text.bytes);
        }
      }
      if (head.kind == abi::PT_PYTHON_STACK) {
        abi::pt_python_stack_record& stack = told.stacks.emplace_back();
        std::memcpy(&stack, bytes.data(), std::min(bytes.size(), sizeof(stack)));
      }
    });
    return told;
  }
  // What the begin of a row has told of.
  Told OneRow(uint64_t sp = kSp) {
    Begin(sp);
    Told told = Drain();
    EXPECT_EQ(told.begins, 1u);
    return told;
  }
  // The place where Python, which ends, gives up what threads have; on the calling thread.
  void PythonEnds() const {
    register uint64_t cookie asm("r10") = PT_COOKIE(0, abi::PT_ROLE_PYTHON_END, 0, 0);
    register uint64_t stack asm("r11") = kSp;
    // What r10 and r11 were before lies on the stack.
    asm volatile("push %%r11\n\tpush %%r10\n\tcall *%[code]\n\tadd $16, %%rsp"
                 : "+r"(cookie), "+r"(stack)
                 : [code] "b"(Place(proftrace_recorder_full))
                 : "memory", "cc");
  }
  void SetEndWait(uint64_t counts) const {
    std::memcpy(static_cast<std::byte*>(at_) + PATCH_RING_END_WAIT, &counts, sizeof(counts));
  }
  // Returns this thread's word that is set while its frames are read.
  std::atomic_ref<uint64_t> Busy() const {
    const auto* table = static_cast<const std::byte*>(at_) + PATCH_RING_HEADER_BYTES;
    for (size_t i = 0; i < PATCH_SLOTS; ++i) {
      uint64_t owner = 0;
      uint64_t* stacks = nullptr;
      std::memcpy(&owner, table + (i << PATCH_SLOT_SHIFT) + PATCH_SLOT_OWNER, sizeof(owner));
      std::memcpy(&stacks, table + (i << PATCH_SLOT_SHIFT) + PATCH_SLOT_STACKS, sizeof(stacks));
      if (owner == ControlBlock()) return std::atomic_ref(*stacks);
    }
    ADD_FAILURE() << "it has no slot";
    return std::atomic_ref(*static_cast<uint64_t*>(at_));
  }
  PatchRing* ring() { return ring_.get(); }

 private:
  const uint8_t* Place(const uint8_t* code) const {
    return code_ + PATCH_CONTROL_BYTES + (code - proftrace_recorder_code);
  }
  uint64_t bytes_ = 0;
  void* at_ = nullptr;
  size_t code_bytes_ = 0;
  uint8_t* code_ = nullptr;
  std::unique_ptr<PatchRing> ring_;
};

using Texts = std::vector<std::string>;

TEST(PatchStacks, TellsWhatIsNewOfAStackAndCodeOnce) {
  Python python;
  Recorder recorder(python);
  python.Push(python.Code("main"));
  Object* inner = python.Push(python.Code("inner"));
  Told told = recorder.OneRow();
  EXPECT_EQ(told.texts, (Texts{"/job.py", "main", "/job.py", "inner"}));
  ASSERT_EQ(told.stacks.size(), 1u);
  EXPECT_EQ(told.stacks[0].common, 0);
  EXPECT_EQ(told.stacks[0].count, 2);
  EXPECT_EQ(told.stacks[0].words[0], 1ull << 32 | 3);
  EXPECT_EQ(told.stacks[0].words[1], 2ull << 32 | 3);
  recorder.End();
  EXPECT_TRUE(recorder.OneRow().stacks.empty());
  recorder.End();
  inner->words[2] += 2;
  told = recorder.OneRow();
  EXPECT_EQ(told.codes, 0u);
  ASSERT_EQ(told.stacks.size(), 1u);
  EXPECT_EQ(told.stacks[0].common, 1);
  EXPECT_EQ(told.stacks[0].words[0], 2ull << 32 | 4);
  recorder.End();
  python.Pop();
  told = recorder.OneRow();
  ASSERT_EQ(told.stacks.size(), 1u);
  EXPECT_EQ(told.stacks[0].common, 1);
  EXPECT_EQ(told.stacks[0].count, 0);
}

TEST(PatchStacks, WhatAnOperatorCallsHasItsStackUntilItEnds) {
  Python python;
  Recorder recorder(python);
  Object* outer = python.Push(python.Code("main"));
  python.Push(python.Code("inner"));
  (void)recorder.OneRow();
  // Nothing further out moves as long as it runs; once it has ended, or thrown, that may be.
  outer->words[2] += 2;
  EXPECT_TRUE(recorder.OneRow(kSp - 64).stacks.empty());
  recorder.End(kSp, kSite + 1);
  EXPECT_TRUE(recorder.OneRow(kSp - 64).stacks.empty());
  recorder.End();
  EXPECT_EQ(recorder.OneRow(kSp - 64).stacks.size(), 1u);
  recorder.End(kSp - 64);
  (void)recorder.OneRow();
  outer->words[2] += 2;
  recorder.End(kSp, 0, abi::PT_CATCH);
  EXPECT_EQ(recorder.OneRow(kSp - 64).stacks.size(), 1u);
  // Ends that are not all seen by jumps say nothing.
  recorder.ring()->SetEndsAreSeen(false);
  recorder.End();
  (void)recorder.OneRow();
  outer->words[2] += 2;
  EXPECT_EQ(recorder.OneRow(kSp - 64).stacks.size(), 1u);
}

TEST(PatchStacks, CallsOfModulesAreToldOnce) {
  Python python;
  Recorder recorder(python);
  python.Push(python.Code("main"));
  Object* call = python.Push(python.Code("_call_impl", 1));
  const Object* module = python.Module();
  call->words[5] = module->at();
  Told told = recorder.OneRow();
  EXPECT_EQ(told.modules, 1u);
  EXPECT_EQ(told.texts.back(), "Linear");
  ASSERT_EQ(told.stacks.size(), 1u);
  EXPECT_EQ(told.stacks[0].words[1], PT_PYTHON_FRAME_HAS_MODULE | 2ull << 32 | 3);
  EXPECT_EQ(told.stacks[0].words[2], module->at());
  recorder.End();
  call->words[5] = python.Module()->at();
  told = recorder.OneRow();
  EXPECT_EQ(told.modules, 1u);
  EXPECT_EQ(told.codes, 0u);
  ASSERT_EQ(told.stacks.size(), 1u);
  EXPECT_EQ(told.stacks[0].common, 1);
}

TEST(PatchStacks, ALocalVariableThatIsNoArgumentIsNotFollowed) {
  Python python;
  Recorder recorder(python);
  Object* call = python.Push(python.Code("_call_impl", 0));
  call->words[5] = 0x7ffffff00000;  // whatever lies on its stack
  const Told told = recorder.OneRow();
  EXPECT_EQ(told.modules, 0u);
  EXPECT_EQ(told.stacks.size(), 1u);
}

TEST(PatchStacks, CodeAtTheAddressOfAnotherIsTold) {
  Python python;
  Recorder recorder(python);
  Object* code = python.Code("first");
  python.Push(code);
  (void)recorder.OneRow();
  recorder.End();
  python.Push(python.Code("other"));
  (void)recorder.OneRow();
  recorder.End();
  python.Pop();
  code->words[5] = python.Text("second")->at();
  // What a code object is called is looked at where it comes anew.
  python.Pop();
  (void)recorder.OneRow();
  recorder.End();
  python.Push(code);
  EXPECT_EQ(recorder.OneRow().texts, (Texts{"/job.py", "second"}));
}

TEST(PatchStacks, ThreadsWithoutPythonHaveNone) {
  Python python;
  Recorder recorder(python);
  python.Push(python.Code("main"));
  EXPECT_EQ(recorder.OneRow().stacks.size(), 1u);
  recorder.End();
  python.SetState(0);
  Told told = recorder.OneRow();
  ASSERT_EQ(told.stacks.size(), 1u);
  EXPECT_EQ(told.stacks[0].common + told.stacks[0].count, 0);
  recorder.End();
  python.SetState(python.state()->at());
  EXPECT_EQ(recorder.OneRow().stacks.size(), 1u);
  recorder.End();
  // Another thread's state is not read, and none while Python ends.
  python.state()->words[2] = ControlBlock() + 4096;
  EXPECT_EQ(recorder.OneRow().stacks.size(), 1u);
  recorder.End();
  python.state()->words[2] = ControlBlock();
  EXPECT_EQ(recorder.OneRow().stacks.size(), 1u);
  recorder.End();
  python.finalizing = 1;
  told = recorder.OneRow();
  ASSERT_EQ(told.stacks.size(), 1u);
  EXPECT_EQ(told.stacks[0].common + told.stacks[0].count, 0);
  recorder.End();
  std::thread([&] {
    const Told its = recorder.OneRow();
    ASSERT_EQ(its.stacks.size(), 1u);
    EXPECT_EQ(its.stacks[0].common + its.stacks[0].count, 0);
  }).join();
}

TEST(PatchStacks, PythonsEndWaitsForThreadsThatRead) {
  Python python;
  Recorder recorder(python);
  recorder.Begin();
  const std::atomic_ref<uint64_t> busy = recorder.Busy();
  EXPECT_EQ(busy, 0u);
  busy = 1;
  recorder.SetEndWait(~uint64_t{0});
  std::thread([&] { recorder.PythonEnds(); }).join();  // another thread's end
  recorder.PythonEnds();
  python.finalizing = 1;
  recorder.PythonEnds();  // its own reading it does not wait for
  std::atomic<int> step = 0;
  std::thread ends([&] {
    recorder.Begin();
    step = 1;
    recorder.PythonEnds();
    step = 2;
  });
  while (step == 0) std::this_thread::yield();
  for (int i = 0; i < 100; ++i) std::this_thread::yield();
  EXPECT_EQ(step, 1);
  busy = 0;
  ends.join();
  EXPECT_EQ(step, 2);
}

TEST(PatchStacks, PythonsEndDoesNotWaitForThreadsThatAreNoMore) {
  Python python;
  Recorder recorder(python);
  recorder.Begin();
  const std::atomic_ref<uint64_t> busy = recorder.Busy();
  busy = 1;
  python.finalizing = 1;
  recorder.SetEndWait(1'000'000);
  std::thread([&] { recorder.PythonEnds(); }).join();
  EXPECT_EQ(busy, 1u);
}

TEST(PatchStacks, NothingIsReadBeforePythonsEndCanWait) {
  Python python;
  Recorder recorder(python, /*let_read=*/false);
  python.Push(python.Code("main"));
  EXPECT_FALSE(recorder.ring()->are_stacks_read());
  EXPECT_TRUE(recorder.OneRow().stacks.empty());
  recorder.End();
  recorder.ring()->LetReadStacks();
  EXPECT_EQ(recorder.OneRow().stacks.size(), 1u);
}

TEST(PatchStacks, ASlotsNextThreadStartsAnew) {
  Python python;
  Recorder recorder(python);
  python.Push(python.Code("main"));
  (void)recorder.OneRow();
  recorder.End();
  // Its control block has another thread's number: as when it is used again.
  auto* tid =
      reinterpret_cast<volatile uint32_t*>(ControlBlock() + static_cast<uint64_t>(TidOffset()));
  const uint32_t kept = *tid;
  *tid = kept + 1;
  recorder.Begin();
  recorder.End();
  *tid = kept;
  const Told told = recorder.Drain();
  ASSERT_EQ(told.stacks.size(), 1u);
  EXPECT_EQ(told.stacks[0].common, 0);
  EXPECT_EQ(told.stacks[0].count, 1);
  EXPECT_EQ(told.codes, 0u);  // the process's code is what it was
}

TEST(PatchStacks, FramesThatCannotBeAreNotFollowed) {
  Python python;
  Recorder recorder(python);
  Object* frame = python.Push(python.Code("main"));
  for (const uint64_t wrong : {uint64_t{16}, uint64_t{0xffff800000000000}, uint64_t{0x7ffffffff000},
                               uint64_t{0x123456789abcdef0}, frame->at() + 4}) {
    frame->words[1] = wrong;
    const Told told = recorder.OneRow();
    ASSERT_EQ(told.stacks.size(), 1u);
    EXPECT_EQ(told.stacks[0].flags, abi::PT_PYTHON_STACK_FAILED);
    EXPECT_EQ(told.stacks[0].count, 1);
    recorder.End();
    frame->words[1] = 0;
    EXPECT_EQ(recorder.OneRow().stacks.size(), 1u);
    recorder.End();
  }
  frame->words[1] = frame->at();
  const Told told = recorder.OneRow();
  ASSERT_EQ(told.stacks.size(), 1u);
  EXPECT_EQ(told.stacks[0].flags, abi::PT_PYTHON_STACK_CUT);
  EXPECT_EQ(told.stacks[0].count, PT_PYTHON_MOST_FRAMES);
}

TEST(PatchStacks, NamesThatAreNotCompactAreNotRead) {
  Python python;
  Recorder recorder(python);
  Object* code = python.Code("main");
  code->words[5] = python.Text("elsewhere", /*is_compact=*/false)->at();
  python.Push(code);
  EXPECT_EQ(recorder.OneRow().texts, (Texts{"/job.py", ""}));
}

TEST(PatchStacks, AfterALossTheStackIsToldAnew) {
  Python python;
  Recorder recorder(python);
  python.Push(python.Code("main"));
  (void)recorder.OneRow();
  recorder.End();
  for (int i = 0; i < 2000; ++i) recorder.Begin(kSp - 8 * (i & 1));
  EXPECT_EQ(recorder.Drain().losses, 0u);
  const Told told = recorder.OneRow();
  EXPECT_EQ(told.losses, 1u);
  EXPECT_EQ(told.codes, 0u);
  ASSERT_EQ(told.stacks.size(), 1u);
  EXPECT_EQ(told.stacks[0].count, 1);
}

TEST(PatchStacks, AfterTheReadersOwnLossAllIsToldAnew) {
  Python python;
  Recorder recorder(python);
  python.Push(python.Code("main"));
  (void)recorder.OneRow();
  recorder.End();
  EXPECT_EQ(recorder.ring()->LetWrite(1), 0);
  while (recorder.ring()->LetWrite(kLong) == 0) recorder.ring()->LetWrite(1);
  const Told told = recorder.OneRow();
  EXPECT_EQ(told.losses, 1u);
  EXPECT_EQ(told.codes, 1u);
  ASSERT_EQ(told.stacks.size(), 1u);
  EXPECT_EQ(told.stacks[0].count, 1);
}

TEST(PatchStacks, MoreCodeThanTheTableHoldsIsToldAgain) {
  Python python;
  Recorder recorder(python);
  std::vector<Object*> codes(3000);
  for (size_t i = 0; i < codes.size(); ++i) codes[i] = python.Code("f" + std::to_string(i));
  for (int round = 0; round < 2; ++round) {
    for (size_t i = 0; i < codes.size(); ++i) {
      python.Push(codes[i]);
      const Told told = recorder.OneRow();
      python.Pop();
      recorder.End();
      ASSERT_EQ(told.stacks.size(), 1u);
      if (round == 0 || told.codes != 0) {
        ASSERT_EQ(told.texts, (Texts{"/job.py", "f" + std::to_string(i)}));
      }
    }
  }
}

// With longer heads of objects; a frame runs its thread's copy of the instructions, which the
// reader brings to the code object's own.
TEST(PatchStacks, AFreeThreadedPythonTellsOfTheCopyThatItRuns) {
  Python python(/*is_free_threaded=*/true);
  Recorder recorder(python);
  const Object* outer = python.Code("main");
  python.Push(outer);
  const Object* code = python.Code("_wrapped_call_impl", 1);
  Object* frame = python.Push(code, 5);
  Object* cell = python.New();
  const Object* copy = python.New();
  const Object* module = python.Module();
  cell->words[3] = python.Type("cell")->at();
  cell->words[4] = module->at();
  frame->words[2] = copy->at() + 6;
  frame->words[5] = cell->at() | 1;
  const Told told = recorder.OneRow();
  EXPECT_EQ(told.texts, (Texts{"/job.py", "main", "/job.py", "_wrapped_call_impl", "Linear"}));
  EXPECT_EQ(told.copies, (std::vector<uint32_t>{0, 5}));
  ASSERT_EQ(told.stacks.size(), 1u);
  EXPECT_EQ(told.stacks[0].words[0], 1ull << 32 | 3);
  const uint64_t own = code->at() + python.facts().layout.code_instructions;
  const auto distance = static_cast<uint32_t>((copy->at() - own) >> 1U);
  EXPECT_EQ(static_cast<uint32_t>(told.stacks[0].words[1]) - distance, 3u);
  EXPECT_EQ(told.stacks[0].words[1] >> 32, 2u | 1u << 31);
  EXPECT_EQ(told.stacks[0].words[2], module->at());
}

}  // namespace
}  // namespace proftrace
