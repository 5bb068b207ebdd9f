// Trampolines run in this process: a function of it is patched as a job's would be.
#include "userspace/patch/trampoline.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <cstring>

#include "bpf/abi/records.h"
#include "symbols/x86/instruction.h"
#include "userspace/patch/recorder_code.h"

namespace proftrace {
namespace {

// Writes rax, rcx, rdx, r8, r10, r11 and the flags, as the recorder may, and keeps what it got.
constexpr uint8_t kRecorder[] = {
    0x4c, 0x89, 0x15, 0x20, 0x00, 0x00, 0x00,  // mov %r10, 0x20(%rip): to +0x27
    0x4c, 0x89, 0x1d, 0x21, 0x00, 0x00, 0x00,  // mov %r11, 0x21(%rip): to +0x2f
    0x31, 0xc0,                                // xor %eax, %eax
    0x31, 0xc9,                                // xor %ecx, %ecx
    0x31, 0xd2,                                // xor %edx, %edx
    0x4d, 0x31, 0xc0,                          // xor %r8, %r8
    0x4d, 0x31, 0xd2,                          // xor %r10, %r10
    0x4d, 0x31, 0xdb,                          // xor %r11, %r11
    0xc3,                                      // ret
};
constexpr size_t kInfoAt = 0x27;
constexpr size_t kStackAt = 0x2f;

// Does the same for an operator's begin; it gets rdi and may write it, too.
constexpr uint8_t kOperatorRecorder[] = {
    0x48, 0x89, 0x3d, 0x21, 0x00, 0x00, 0x00,        // mov %rdi, 0x21(%rip): to +0x28
    0x4c, 0x89, 0x15, 0x22, 0x00, 0x00, 0x00,        // mov %r10, 0x22(%rip): to +0x30
    0x4c, 0x89, 0x1d, 0x23, 0x00, 0x00, 0x00,        // mov %r11, 0x23(%rip): to +0x38
    0x31, 0xc0, 0x31, 0xc9, 0x31, 0xd2, 0x31, 0xff,  // xor of eax, ecx, edx, edi
    0x4d, 0x31, 0xc0, 0x4d, 0x31, 0xd2,              // of r8, r10
    0x4d, 0x31, 0xdb,                                // of r11
    0xc3,                                            // ret
};
constexpr size_t kKeysAt = 0x28;
constexpr size_t kFactsAt = 0x30;
constexpr size_t kOperatorStackAt = 0x38;

constexpr size_t kBytes = 1 << 16;
constexpr size_t kTrampolineAt = 2048;

// long f(long a, long b): push %rbx; mov %rdi, %rbx; lea (%rsi,%rbx,2), %rax; pop %rbx; ret
constexpr uint8_t kFunction[] = {0x53, 0x48, 0x89, 0xfb, 0x48, 0x8d, 0x04, 0x5e, 0x5b, 0xc3};

class TrampolineTest : public testing::Test {
 protected:
  const size_t kOperatorOffset =
      static_cast<size_t>(proftrace_recorder_operator - proftrace_recorder_code);

  void SetUp() override {
    memory_ = static_cast<uint8_t*>(mmap(nullptr, kBytes, PROT_READ | PROT_WRITE | PROT_EXEC,
                                         MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    std::memcpy(memory_, kFunction, sizeof(kFunction));
    std::memcpy(memory_ + 4096, kRecorder, sizeof(kRecorder));
    std::memcpy(memory_ + 4096 + kOperatorOffset, kOperatorRecorder, sizeof(kOperatorRecorder));
  }
  void TearDown() override { munmap(memory_, kBytes); }

  // A window of the two instructions behind the push.
  PatchSpot Spot() const {
    PatchSpot spot;
    spot.bias = reinterpret_cast<uint64_t>(memory_);
    spot.window.address = 1;
    spot.window.recorder = 1;
    spot.window.size = 7;
    spot.window.stack_change = 8;
    spot.original.assign(kFunction + 1, kFunction + 8);
    spot.info = 0x03010007;
    return spot;
  }

  void Patch(const PatchSpot& spot) {
    const uint64_t to = spot.bias + kTrampolineAt;
    const auto code = MakeTrampoline(spot, to, spot.bias + 4096);
    const auto jump = JumpBytes(spot, to);
    ASSERT_TRUE(code.ok()) << code.status();
    ASSERT_TRUE(jump.ok()) << jump.status();
    ASSERT_EQ(jump->size(), 5u);
    ASSERT_LE(code->size(), kMostTrampolineBytes);
    std::memcpy(memory_ + kTrampolineAt, code->data(), code->size());
    std::memcpy(memory_ + spot.window.address, jump->data(), jump->size());
  }

  long Call(long a, long b, uint64_t* stack = nullptr) {
    long result = 0;
    uint64_t before = 0;
    asm volatile(
        "mov %%rsp, %1; sub $256, %%rsp; and $-16, %%rsp; mov %%rsp, %%r12; call *%2; mov %1, %%rsp"
        : "=a"(result), "=&r"(before)
        : "r"(memory_), "D"(a), "S"(b)
        : "rcx", "rdx", "r8", "r9", "r10", "r11", "r12", "memory", "cc");
    if (stack != nullptr) *stack = ((before - 256) & ~uint64_t{15}) - 8;
    return result;
  }

  template <typename T>
  T Word(size_t at) const {
    T value;
    std::memcpy(&value, memory_ + 4096 + at, sizeof(value));
    return value;
  }

  uint8_t* memory_ = nullptr;
};

TEST_F(TrampolineTest, RecordsAndGoesOn) {
  const long expected = Call(20, 3);
  EXPECT_EQ(expected, 43);
  Patch(Spot());
  uint64_t stack = 0;
  EXPECT_EQ(Call(20, 3, &stack), expected);
  EXPECT_EQ(Word<uint32_t>(kInfoAt), 0x03010007u);
  EXPECT_EQ(Word<uint64_t>(kStackAt), stack);
}

// Whatever has to be saved: the stack pointer that is told, and all that is alive, are the same.
TEST_F(TrampolineTest, SavesWhatIsAlive) {
  for (const bool flags : {false, true}) {
    for (const bool red_zone : {false, true}) {
      for (const RegisterSet dead : {0u, 0xffffu & ~(1u << kRsp), 1u << kRdx | 1u << 10}) {
        PatchSpot spot = Spot();
        spot.window.flags_are_live = flags;
        spot.window.red_zone_may_be_used = red_zone;
        spot.window.dead = dead;
        std::memcpy(memory_, kFunction, sizeof(kFunction));
        Patch(spot);
        uint64_t stack = 0;
        EXPECT_EQ(Call(7, 1000, &stack), 1014);
        EXPECT_EQ(Word<uint64_t>(kStackAt), stack);
      }
    }
  }
}

// The recorder between the two instructions, and behind both.
TEST_F(TrampolineTest, RecordsInside) {
  for (const uint64_t at : {4, 8}) {
    PatchSpot spot = Spot();
    spot.window.recorder = at;
    std::memcpy(memory_, kFunction, sizeof(kFunction));
    // rax has the result behind the second instruction.
    spot.window.dead = 0;
    Patch(spot);
    uint64_t stack = 0;
    EXPECT_EQ(Call(-5, 4, &stack), -6);
    EXPECT_EQ(Word<uint64_t>(kStackAt), stack);
  }
}

// An operator's begin: its key set from a register or from memory, also by what the recorder
// overwrites and by the stack pointer, and its caller's stack pointer.
TEST_F(TrampolineTest, RecordsOperators) {
  constexpr uint64_t kSite = 77;
  for (const bool red_zone : {false, true}) {
    const RegisterSet read = 1u << kRdi | 1u << kRsi;
    for (const RegisterSet dead : {0u, 0xffffu & ~(1u << kRsp | read)}) {
      PatchSpot spot = Spot();
      spot.window.red_zone_may_be_used = red_zone;
      spot.window.dead = dead;
      const uint64_t role = kSite | uint64_t{abi::PT_ROLE_OPERATOR_BEGIN} << 16;
      const auto run = [&](uint64_t keys, long a) {
        spot.cookie = role | keys | PT_COOKIE_KEYS(3, 21, true);
        std::memcpy(memory_, kFunction, sizeof(kFunction));
        Patch(spot);
        uint64_t stack = 0;
        EXPECT_EQ(Call(a, 3, &stack), 2 * a + 3);
        EXPECT_EQ(Word<uint32_t>(kOperatorOffset + kFactsAt), kSite | 21 << 16 | 1 << 24);
        EXPECT_EQ(Word<uint64_t>(kOperatorOffset + kOperatorStackAt), stack + 3 * 8);
        return Word<uint64_t>(kOperatorOffset + kKeysAt);
      };
      EXPECT_EQ(run(uint64_t{kRdi} << 24, 20), 20u);
      EXPECT_EQ(run(uint64_t{kRsi} << 24, 20), 3u);
      const uint64_t in_memory = uint64_t{PT_KEY_SET_IN_MEMORY} << 24;
      const long value = -98765;
      const auto address = reinterpret_cast<long>(&value);
      EXPECT_EQ(run(uint64_t{kRdi} << 24 | in_memory | uint64_t{0xfff8} << 32, address + 8),
                static_cast<uint64_t>(value));
      // The return address: r12 is the stack pointer before the call.
      const uint64_t by_stack = run(uint64_t{kRsp} << 24 | in_memory, 20);
      EXPECT_NE(by_stack, 0u);
      EXPECT_EQ(run(uint64_t{12} << 24 | in_memory | uint64_t{0xfff8} << 32, 20), by_stack);
    }
  }
}

// The trampoline also gives what the operator is called with: by the address of its signature.
TEST_F(TrampolineTest, RecordsOperatorsWithInputs) {
  const auto offset = static_cast<size_t>(proftrace_recorder_call - proftrace_recorder_code);
  // mov %rcx, 0x21(%rip): to +0x28; mov %r8, 0x22(%rip): to +0x30; mov %rdx, 0x23(%rip): to +0x38
  constexpr uint8_t kCallRecorder[] = {0x48, 0x89, 0x0d, 0x21, 0x00, 0x00, 0x00, 0x4c, 0x89, 0x05,
                                       0x22, 0x00, 0x00, 0x00, 0x48, 0x89, 0x15, 0x23, 0x00, 0x00,
                                       0x00, 0x31, 0xc0, 0x31, 0xc9, 0x31, 0xd2, 0x31, 0xf6, 0x31,
                                       0xff, 0x4d, 0x31, 0xc0, 0x4d, 0x31, 0xc9, 0xc3};
  std::memcpy(memory_ + 4096 + offset, kCallRecorder, sizeof(kCallRecorder));
  PatchSpot spot = Spot();
  spot.window.red_zone_may_be_used = true;
  spot.cookie = 5 | uint64_t{abi::PT_ROLE_OPERATOR_CALL} << 16 | uint64_t{kRdi} << 24 |
                PT_COOKIE_KEYS(4, 21, true);
  const uint64_t to = spot.bias + kTrampolineAt;
  const uint64_t signature = spot.bias + kBytes - 64;
  const auto code = MakeTrampoline(spot, to, spot.bias + 4096, signature);
  const auto jump = JumpBytes(spot, to);
  ASSERT_TRUE(code.ok() && jump.ok());
  ASSERT_LE(code->size(), kMostTrampolineBytes);
  std::memcpy(memory_ + kTrampolineAt, code->data(), code->size());
  std::memcpy(memory_ + spot.window.address, jump->data(), jump->size());
  uint64_t stack = 0;
  EXPECT_EQ(Call(20, 3, &stack), 43);
  EXPECT_EQ(Word<uint64_t>(offset + 0x28), signature);
  EXPECT_EQ(Word<uint64_t>(offset + 0x30), stack);
  EXPECT_EQ(Word<uint64_t>(offset + 0x38), stack + 4 * 8);
}

TEST_F(TrampolineTest, RefusesWhatIsTooFar) {
  const PatchSpot spot = Spot();
  const uint64_t far = spot.bias + (uint64_t{3} << 30);
  EXPECT_FALSE(JumpBytes(spot, far).ok());
  EXPECT_FALSE(MakeTrampoline(spot, far, far + 4096).ok());
  EXPECT_FALSE(MakeTrampoline(spot, spot.bias + kTrampolineAt, far).ok());
}

}  // namespace
}  // namespace proftrace
