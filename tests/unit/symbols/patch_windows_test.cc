// Where jumps may be put over code, and what is free there.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>

#include "symbols/x86/liveness.h"
#include "symbols/x86/patch_windows.h"
#include "tests/unit/symbols/fake_code.h"

namespace proftrace {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kBase = 0x1010;
constexpr uint64_t kFree = 0x9000;

constexpr RegisterSet Bit(unsigned reg) { return RegisterSet{1} << reg; }

struct Made {
  FakeCode image;
  absl::StatusOr<FunctionCode> code = absl::UnknownError("");

  explicit Made(std::vector<uint8_t> bytes, uint64_t base = kBase) {
    const uint64_t end = base + bytes.size();
    image.Add(base, std::move(bytes), "f");
    image.AddStub(kFree, "free");
    code = FunctionCode::Read(image, base, end);
  }
  std::vector<PointPatch> Choose(std::vector<PatchPoint> points) const {
    return ChooseWindows(image, *code, points);
  }
  PointPatch At(uint64_t address, PointReads reads = {}) const {
    return Choose({{address, reads}})[0];
  }
};

// call kFree, as it is at `at`.
std::vector<uint8_t> CallFree(uint64_t at) {
  const auto distance = static_cast<int32_t>(kFree - (at + 5));
  std::vector<uint8_t> bytes = {0xe8, 0, 0, 0, 0};
  std::memcpy(bytes.data() + 1, &distance, 4);
  return bytes;
}

std::vector<uint8_t> Join(std::initializer_list<std::vector<uint8_t>> parts) {
  std::vector<uint8_t> all;
  for (const auto& part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

// A jcc to the end, that a window at the exit has to be in front of:
// push rbx; mov rbx, rdi; [5] cmpb $0, 96(rsp); [10] je 0; pop rbx; ret
const std::vector<uint8_t> kExit = {0x53, 0x48, 0x89, 0xfb, 0x90, 0x80, 0x7c,
                                    0x24, 0x60, 0x00, 0x74, 0x00, 0x5b, 0xc3};

TEST(PatchWindowTest, BeginsAtTheSecondInstructionOfAFunction) {
  // push rbp; mov rbp, rsp; sub rsp, 32; leave; ret
  const Made made({0x55, 0x48, 0x89, 0xe5, 0x48, 0x83, 0xec, 0x20, 0xc9, 0xc3});
  const PointPatch patch = made.At(kBase);
  ASSERT_TRUE(patch.window) << patch.reason;
  EXPECT_EQ(patch.window->address, kBase + 1);
  EXPECT_EQ(patch.window->size, 7);
  EXPECT_EQ(patch.window->recorder, kBase + 1);
  EXPECT_EQ(patch.window->stack_change, 8);  // the push has moved it
  EXPECT_EQ(patch.window->changed, Bit(kRsp));
  EXPECT_FALSE(patch.window->memory_changed);
}

TEST(PatchWindowTest, LeavesEndbrAndTheInstructionBehindItAlone) {
  // endbr64; push rbx; push r12; push r13; nop; ret
  const Made made({0xf3, 0x0f, 0x1e, 0xfa, 0x53, 0x41, 0x54, 0x41, 0x55, 0x90, 0xc3});
  const PointPatch patch = made.At(kBase + 4);
  ASSERT_TRUE(patch.window) << patch.reason;
  EXPECT_EQ(patch.window->address, kBase + 5);
  EXPECT_EQ(patch.window->stack_change, 8);
}

TEST(PatchWindowTest, FollowsTheStackPointerThroughSubAndLea) {
  // sub rsp, 24; call +0: no room before that one, so …
  // … lea rsp, [rsp - 64]; mov eax, 1; ret: the window begins behind the lea
  const Made lea({0x48, 0x8d, 0x64, 0x24, 0xc0, 0xb8, 1, 0, 0, 0, 0xc3});
  ASSERT_TRUE(lea.At(kBase).window);
  EXPECT_EQ(lea.At(kBase).window->stack_change, 64);
  const Made sub({0x48, 0x83, 0xec, 0x18, 0xb8, 1, 0, 0, 0, 0xc3});
  ASSERT_TRUE(sub.At(kBase).window);
  EXPECT_EQ(sub.At(kBase).window->stack_change, 24);
}

TEST(PatchWindowTest, RefusesAStackPointerThatChangesByAnUnknownAmount) {
  // and rsp, -16; mov eax, 1; ret
  const Made made({0x48, 0x83, 0xe4, 0xf0, 0xb8, 1, 0, 0, 0, 0xc3});
  const PointPatch patch = made.At(kBase);
  EXPECT_FALSE(patch.window);
  EXPECT_THAT(std::string(patch.reason), HasSubstr("stack pointer"));
}

TEST(PatchWindowTest, RefusesRoomAtTheFirstInstructionOnly) {
  // mov eax, 1; ret, and other code right behind it
  const Made made({0xb8, 1, 0, 0, 0, 0xc3});
  const PointPatch patch = made.At(kBase);
  EXPECT_FALSE(patch.window);
}

TEST(PatchWindowTest, TakesAFirstInstructionThatIsAJumpItself) {
  // jmp free; nop
  const std::vector<uint8_t> jump = {0xe9, 0xeb, 0x7f, 0, 0, 0x90};
  const PointPatch patch = Made(jump).At(kBase);
  ASSERT_TRUE(patch.window) << patch.reason;
  EXPECT_EQ(patch.window->address, kBase);
  EXPECT_EQ(patch.window->size, 5);
  // endbr64; jmp free
  const PointPatch behind = Made(Join({{0xf3, 0x0f, 0x1e, 0xfa}, jump})).At(kBase + 4);
  ASSERT_TRUE(behind.window) << behind.reason;
  EXPECT_EQ(behind.window->address, kBase + 4);
  // jmp +2; nops: shorter than ours, whose end would not be what a breakpoint there runs.
  EXPECT_FALSE(Made({0xeb, 0x02, 0x90, 0x90, 0x90, 0x90, 0xc3}).At(kBase).window);
}

TEST(PatchWindowTest, TellsWhatTheRecorderDoesNotSee) {
  // push rbx; mov rdi, rsi; mov [rdi], rax; ret: the only window is behind the push
  const Made made({0x53, 0x48, 0x89, 0xf7, 0x48, 0x89, 0x07, 0xc3});
  const PointReads reads{Bit(kRdi), false, std::nullopt, false};
  const PointPatch whole = made.At(kBase, reads);
  ASSERT_TRUE(whole.window);
  EXPECT_EQ(whole.window->address, kBase + 1);
  EXPECT_FALSE(whole.window->loses_reads);
  // Seen from the last instruction: the recorder runs there, inside of the window.
  const PointPatch late = made.At(kBase + 4, reads);
  ASSERT_TRUE(late.window);
  EXPECT_FALSE(late.window->loses_reads);
  EXPECT_EQ(late.window->address, kBase + 1);
  EXPECT_EQ(late.window->recorder, kBase + 4);
  EXPECT_EQ(late.window->changed, 0u);
  // Without a register to lose it runs at the begin.
  EXPECT_EQ(made.At(kBase + 4).window->recorder, kBase + 1);
  EXPECT_EQ(made.At(kBase + 4).window->changed, Bit(kRdi));
}

TEST(PatchWindowTest, TellsMemoryThatIsApartFromMemoryThatIsNot) {
  // push rbp; [1] mov [rbp - 256], rax; [8] call free; ret
  const Made made(
      Join({{0x55, 0x48, 0x89, 0x85, 0x00, 0xff, 0xff, 0xff}, CallFree(kBase + 8), {0xc3}}));
  PointReads reads;
  reads.place = MemoryPlace{kRbp, -248, 8};
  const PointPatch apart = made.At(kBase + 8, reads);
  ASSERT_TRUE(apart.window);
  EXPECT_EQ(apart.window->address, kBase + 1);
  EXPECT_EQ(apart.window->recorder, kBase + 1);
  EXPECT_FALSE(apart.window->loses_reads);
  for (const int64_t offset : {-255, -249, -263}) {
    reads.place->offset = offset;
    const PointPatch same = made.At(kBase + 8, reads);
    ASSERT_TRUE(same.window);
    EXPECT_EQ(same.window->recorder, kBase + 8) << "what it writes is what the point reads";
    EXPECT_FALSE(same.window->loses_reads);
  }
  reads.place = MemoryPlace{kRsi, -248, 8};  // may be the same place
  EXPECT_EQ(made.At(kBase + 8, reads).window->recorder, kBase + 8);
}

TEST(PatchWindowTest, RefusesRoomThatSomethingJumpsInto) {
  // nop; [1] mov eax, 1 … but jmp [3] lands in a window of three pushes:
  // push rbx; [1] push r12; [3] push r13; [5] ret; [6] jmp 3
  const Made made({0x53, 0x41, 0x54, 0x41, 0x55, 0xc3, 0xeb, 0xfb});
  const PointPatch patch = made.At(kBase);
  EXPECT_FALSE(patch.window);
  EXPECT_THAT(std::string(patch.reason), HasSubstr("jumps into"));
}

TEST(PatchWindowTest, RefusesRoomThatTheUnwinderJumpsInto) {
  Made made(kExit);
  ASSERT_EQ(made.At(kBase + 10).window->address, kBase + 5);
  made.code->AddTargets({kBase + 10});
  EXPECT_FALSE(made.At(kBase + 10).window);
}

TEST(PatchWindowTest, GoesBackOverWhatMakesTheFlags) {
  const Made made(kExit);
  const PointPatch patch = made.At(kBase + 10);
  ASSERT_TRUE(patch.window) << patch.reason;
  EXPECT_EQ(patch.window->address, kBase + 5);
  EXPECT_EQ(patch.window->size, 5);
  EXPECT_FALSE(patch.window->flags_are_live);
  EXPECT_EQ(patch.window->stack_change, 0);
}

TEST(PatchWindowTest, ComesToAReturnOverPops) {
  // push rbx; push rbp; nop; [3] add rsp, 24; pop rbx; pop rbp; [9] ret
  const Made made({0x53, 0x55, 0x90, 0x48, 0x83, 0xc4, 0x18, 0x5b, 0x5d, 0xc3});
  const PointPatch patch = made.At(kBase + 9);
  ASSERT_TRUE(patch.window) << patch.reason;
  EXPECT_EQ(patch.window->address, kBase + 3);
  EXPECT_EQ(patch.window->size, 5);
  EXPECT_EQ(patch.window->stack_change, 40);
}

TEST(PatchWindowTest, TakesPaddingBehindAReturn) {
  // Two instructions before the return are jump targets: jmp 2; [2] pop rbx; [3] ret; jmp 3
  const std::vector<uint8_t> code = {0x53, 0x90, 0x5b, 0xc3};
  for (const uint8_t pad : {0xcc, 0x90}) {
    std::vector<uint8_t> bytes = code;
    FakeCode image;
    image.Add(kBase, code, "f");
    // Not a function: bytes that no symbol covers.
    struct Padded final : CodeImage {
      explicit Padded(const FakeCode& f, uint8_t p) : fake(f), pad(p) {}
      size_t ReadCode(uint64_t address, void* buffer, size_t count) const override {
        const size_t got = fake.ReadCode(address, buffer, count);
        if (got != 0 || address < kBase + 4 || address >= kBase + 16) return got;
        std::memset(buffer, pad, count);
        return count;
      }
      std::string_view CalleeName(uint64_t a) const override { return fake.CalleeName(a); }
      std::string_view SlotName(uint64_t) const override { return {}; }
      bool IsPltStub(uint64_t) const override { return false; }
      std::optional<FunctionRange> FunctionAt(uint64_t a) const override {
        return fake.FunctionAt(a);
      }
      const FakeCode& fake;
      uint8_t pad;
    } padded(image, pad);
    absl::StatusOr<FunctionCode> read = FunctionCode::Read(padded, kBase, kBase + 4);
    ASSERT_TRUE(read.ok());
    read->AddTargets({kBase + 2, kBase + 3});
    const PointPatch patch = ChooseWindows(padded, *read, {{kBase + 3, {}}})[0];
    ASSERT_TRUE(patch.window) << patch.reason;
    EXPECT_EQ(patch.window->address, kBase + 3);
    EXPECT_EQ(patch.window->size, 5);
    // A function that begins there is no padding.
    image.Add(kBase + 6, {pad}, "g");
    EXPECT_FALSE(ChooseWindows(padded, *read, {{kBase + 3, {}}})[0].window);
    // Neither is what something jumps to.
    const FakeCode alone = [&] {
      FakeCode fake;
      fake.Add(kBase, code, "f");
      return fake;
    }();
    const Padded again(alone, pad);
    read->AddTargets({kBase + 5});
    EXPECT_FALSE(ChooseWindows(again, *read, {{kBase + 3, {}}})[0].window);
  }
}

TEST(PatchWindowTest, TakesNopsBehindAReturnThatNothingJumpsTo) {
  // push rbx; [1] pop rbx; [2] ret; [3] nop of 5 bytes; [8] pop rbx; ret
  Made made({0x53, 0x5b, 0xc3, 0x0f, 0x1f, 0x44, 0x00, 0x00, 0x5b, 0xc3});
  made.code->AddTargets({kBase + 2, kBase + 8});
  const PointPatch patch = made.At(kBase + 2);
  ASSERT_TRUE(patch.window) << patch.reason;
  EXPECT_EQ(patch.window->address, kBase + 2);
  EXPECT_EQ(patch.window->size, 6);
  made.code->AddTargets({kBase + 3});
  EXPECT_FALSE(made.At(kBase + 2).window);
}

TEST(PatchWindowTest, DoesNotLookBeyondASystemCall) {
  // push rbx; [1] mov eax, 1; [6] syscall; [8] je 10; pop rbx; ret
  const Made made({0x53, 0xb8, 1, 0, 0, 0, 0x0f, 0x05, 0x74, 0x00, 0x5b, 0xc3});
  EXPECT_FALSE(made.At(kBase + 8).window);
  // A nop in its place is no obstacle.
  const Made nop({0x53, 0xb8, 1, 0, 0, 0, 0x66, 0x90, 0x74, 0x00, 0x5b, 0xc3});
  EXPECT_TRUE(nop.At(kBase + 8).window);
}

TEST(PatchWindowTest, AJumpLiesInOnePage) {
  // The cmp of kExit at 0x1ffe: the jump over it would end in the next page.
  const Made made(kExit, 0x1ff9);
  const PointPatch patch = made.At(0x1ff9 + 10);
  ASSERT_TRUE(patch.window);
  EXPECT_NE(patch.window->address, 0x1ff9u + 5);
  // Its last byte may be the page's last.
  const Made last(kExit, 0x2000 - 10);
  EXPECT_EQ(last.At(0x2000).window->address, 0x2000u - 5);
}

TEST(PatchWindowTest, ACallIsTheLastOfAWindow) {
  // push rbx; [1] nop; [2] call free; [7] pop rbx; [8] ret
  const Made made(Join({{0x53, 0x90}, CallFree(kBase + 2), {0x5b, 0xc3}}));
  const PointPatch patch = made.At(kBase + 2);
  ASSERT_TRUE(patch.window) << patch.reason;
  EXPECT_TRUE(patch.window->has_call);
  EXPECT_EQ(patch.window->end(), kBase + 7);
  // call *rax (2 bytes), as the last of two and before the rest: no 5 bytes.
  const Made indirect({0x53, 0x90, 0xff, 0xd0, 0x5b, 0xc3});
  EXPECT_FALSE(indirect.At(kBase + 2).window);
}

TEST(PatchWindowTest, PrefersAWindowBeforeACallToOneWithIt) {
  // push rbx; [1] lea rdi, [rsp + 8]; [6] call free; pop rbx; ret
  const Made made(Join({{0x53, 0x48, 0x8d, 0x7c, 0x24, 0x08}, CallFree(kBase + 6), {0x5b, 0xc3}}));
  const PointPatch patch = made.At(kBase + 6);
  ASSERT_TRUE(patch.window);
  EXPECT_EQ(patch.window->address, kBase + 1);
  EXPECT_EQ(patch.window->recorder, kBase + 1);
  EXPECT_FALSE(patch.window->has_call);
  // Where rdi is read it is recorded when it is there, still without the call.
  const PointPatch reading = made.At(kBase + 6, {Bit(kRdi), false, std::nullopt, false});
  EXPECT_EQ(reading.window->address, kBase + 1);
  EXPECT_EQ(reading.window->recorder, kBase + 6);
  EXPECT_FALSE(reading.window->has_call);
  EXPECT_FALSE(reading.window->loses_reads);
}

TEST(PatchWindowTest, TakesOperandsRelativeToTheInstructionPointer) {
  // push rbx; mov rax, [rip + 16]; pop rbx; ret
  const Made made({0x53, 0x48, 0x8b, 0x05, 16, 0, 0, 0, 0x5b, 0xc3});
  ASSERT_TRUE(made.At(kBase).window);
  EXPECT_EQ(made.At(kBase).window->size, 7);
}

TEST(PatchWindowTest, RefusesWhatCannotBeMoved) {
  // push rbx; syscall; … ; rdtsc may, syscall may not
  const Made made({0x53, 0x0f, 0x05, 0x0f, 0x05, 0x0f, 0x05, 0xc3});
  EXPECT_FALSE(made.At(kBase).window);
}

TEST(PatchWindowTest, WindowsDoNotOverlapNorCoverAnotherPoint) {
  // nop; [1] push r12; [3] push r13; [5] push r14; [7] push r15; [9] push rbx; [10] push rbp; ret
  const Made made({0x90, 0x41, 0x54, 0x41, 0x55, 0x41, 0x56, 0x41, 0x57, 0x53, 0x55, 0xc3});
  const auto two = made.Choose({{kBase, {}}, {kBase + 7, {}}});
  ASSERT_TRUE(two[0].window && two[1].window);
  EXPECT_TRUE(two[0].window->end() <= two[1].window->address ||
              two[1].window->end() <= two[0].window->address);
  for (const auto& [a, b] : {std::pair(0, 1), {1, 0}}) {
    const uint64_t other = two[static_cast<size_t>(b)].point;
    const PatchWindow& window = *two[static_cast<size_t>(a)].window;
    EXPECT_FALSE(other >= window.address && other < window.end());
  }
  // Right behind one another there is room for one: the others stay what they are, uncovered.
  const auto near = made.Choose({{kBase + 1, {}}, {kBase + 3, {}}, {kBase + 5, {}}});
  size_t refused = 0;
  for (const PointPatch& patch : near) {
    refused += patch.window ? 0 : 1;
    if (!patch.window) {
      EXPECT_THAT(std::string(patch.reason), HasSubstr("another probe"));
      continue;
    }
    for (const PointPatch& other : near) {
      EXPECT_TRUE(other.point == patch.point || other.point < patch.window->address ||
                  other.point >= patch.window->end());
    }
  }
  EXPECT_EQ(refused, 2u);
}

TEST(PatchWindowTest, RefusesFunctionsThatJumpAnywhere) {
  // push rbx; jmp *[rax + rcx * 8]
  EXPECT_FALSE(Made({0x53, 0xff, 0x24, 0xc8}).code.ok());
  // … and takes those that call by a jump: jmp *[rax + 8]
  EXPECT_TRUE(Made({0x53, 0xff, 0x60, 0x08}).code.ok());
  // mov rax, [rdi]; jmp *rax
  EXPECT_TRUE(Made({0x48, 0x8b, 0x07, 0xff, 0xe0}).code.ok());
  // pop rbx; jmp *r9: its frame is gone
  EXPECT_TRUE(Made({0x53, 0x5b, 0x41, 0xff, 0xe1}).code.ok());
  // pop rbx; jmp *rbx, pop rax; jmp *r9
  EXPECT_FALSE(Made({0x53, 0x5b, 0xff, 0xe3}).code.ok());
  EXPECT_FALSE(Made({0x53, 0x58, 0x41, 0xff, 0xe1}).code.ok());
  // mov rax, [rdi + rcx * 8]; jmp *rax
  EXPECT_FALSE(Made({0x48, 0x8b, 0x04, 0xcf, 0xff, 0xe0}).code.ok());
}

TEST(PatchWindowTest, SeesWhatAJumpTableLeadsTo) {
  // cmp edi, 1; ja 24; lea rdx, [rip + table]; movsxd rax, [rdx + rdi * 4]; add rax, rdx; jmp rax;
  // [21] push r12; [23] push r13; [25] push r14; ret
  std::vector<uint8_t> bytes = {0x83, 0xff, 0x01, 0x77, 0x10, 0x48, 0x8d, 0x15, 0,    0,
                                0,    0,    0x48, 0x63, 0x04, 0xba, 0x48, 0x01, 0xd0, 0xff,
                                0xe0, 0x41, 0x54, 0x41, 0x55, 0x41, 0x56, 0xc3};
  constexpr uint64_t kTable = 0x5000;
  const auto distance = static_cast<int32_t>(kTable - (kBase + 12));
  std::memcpy(bytes.data() + 8, &distance, 4);
  FakeCode image;
  image.Add(kBase, bytes, "f");
  std::vector<uint8_t> table(8);
  for (const auto& [at, target] : {std::pair(0, 21), {4, 25}}) {
    const auto entry = static_cast<int32_t>(kBase + static_cast<uint64_t>(target) - kTable);
    std::memcpy(table.data() + at, &entry, 4);
  }
  image.Add(kTable, table);
  const auto code = FunctionCode::Read(image, kBase, kBase + bytes.size());
  ASSERT_TRUE(code.ok()) << code.status();
  EXPECT_TRUE(code->IsTarget(kBase + 21));
  EXPECT_TRUE(code->IsTarget(kBase + 25));
  EXPECT_FALSE(code->IsTarget(kBase + 23));
}

TEST(DeadRegistersTest, FollowsEveryWay) {
  // [0] test rdi, rdi; [3] je 8; [5] mov rcx, rsi; [8] xor esi, esi; [10] mov rax, r8; ret, with a
  // call somewhere: call *rbx
  const Made made({0x48, 0x85, 0xff, 0x74, 0x03, 0x48, 0x89, 0xf1, 0x31, 0xf6, 0x4c, 0x89, 0xc0,
                   0xc3, 0xff, 0xd3});
  const DeadRegisters at_start = FindDeadRegisters(made.image, *made.code, kBase);
  EXPECT_FALSE(at_start.flags_are_live);
  EXPECT_EQ(at_start.registers, Bit(kRax) | Bit(kRcx) | Bit(kR9) | Bit(10) | Bit(11));
  const DeadRegisters at_jump = FindDeadRegisters(made.image, *made.code, kBase + 3);
  EXPECT_TRUE(at_jump.flags_are_live);
  EXPECT_EQ(at_jump.registers, at_start.registers | Bit(kRdi));
}

TEST(DeadRegistersTest, CallsReadArgumentsAndDoNotAlwaysEndRegisters) {
  // call *rbx; ret
  const Made indirect({0xff, 0xd3, 0xc3});
  EXPECT_EQ(FindDeadRegisters(indirect.image, *indirect.code, kBase).registers, Bit(11));
  // A callee of the same file may leave r11 alone: call 0x2000; mov rax, r11; ret
  std::vector<uint8_t> bytes = {0xe8, 0, 0, 0, 0, 0x4c, 0x89, 0xd8, 0xc3, 0xff, 0xd3};
  const auto distance = static_cast<int32_t>(0x2000 - (kBase + 5));
  std::memcpy(bytes.data() + 1, &distance, 4);
  const Made local(bytes);
  EXPECT_EQ(FindDeadRegisters(local.image, *local.code, kBase).registers, 0u);
  // free takes one argument, and is in another file: what it may change is dead.
  const Made stub(Join({CallFree(kBase), {0x4c, 0x89, 0xd8, 0xc3}}));
  EXPECT_EQ(
      FindDeadRegisters(stub.image, *stub.code, kBase).registers,
      Bit(kRax) | Bit(kRcx) | Bit(kRdx) | Bit(kRsi) | Bit(kR8) | Bit(kR9) | Bit(10) | Bit(11));
}

TEST(DeadRegistersTest, AFunctionThatCallsNobodyHasThoseThatItWrites) {
  // mov rcx, rdi; ret: a caller may know that it leaves the others alone
  const Made made({0x48, 0x89, 0xf9, 0xc3});
  EXPECT_EQ(FindDeadRegisters(made.image, *made.code, kBase).registers, Bit(kRcx));
}

TEST(DeadRegistersTest, PartsOfRegistersDoNotReplaceThem) {
  // mov cl, 1; mov rax, rcx; call *rbx
  const Made made({0xb1, 0x01, 0x48, 0x89, 0xc8, 0xff, 0xd3});
  EXPECT_EQ(FindDeadRegisters(made.image, *made.code, kBase).registers & Bit(kRcx), 0u);
  // mov ecx, 1 replaces all of it
  const Made whole({0xb9, 0x01, 0, 0, 0, 0x48, 0x89, 0xc8, 0xff, 0xd3});
  EXPECT_NE(FindDeadRegisters(whole.image, *whole.code, kBase).registers & Bit(kRcx), 0u);
  // rep movsb reads what is no operand of it
  const Made strings({0xf3, 0xa4, 0xff, 0xd3});
  EXPECT_EQ(FindDeadRegisters(strings.image, *strings.code, kBase).registers, 0u);
}

}  // namespace
}  // namespace proftrace
