// userspace/inject without a process: places for jumps, seccomp filters, memory near code.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/audit.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string>

#include "userspace/base/exit_status.h"
#include "userspace/inject/frame_state.h"
#include "userspace/inject/injection_region.h"
#include "userspace/inject/patch_site.h"
#include "userspace/inject/room.h"
#include "userspace/inject/seccomp_filter.h"
#include "userspace/inject/stack_room.h"
#include "userspace/inject/thread_checks.h"
#include "userspace/inject/trace_permission.h"

namespace proftrace {
namespace {

using ::testing::HasSubstr;

constexpr uint64_t kAddress = 0x7f0000001000;

std::vector<uint8_t> Code(std::initializer_list<int> bytes) {
  std::vector<uint8_t> code(bytes.begin(), bytes.end());
  code.resize(64, 0x90);
  return code;
}

TEST(PatchSiteTest, LeavesPlacesOfProbesAlone) {
  // push %r15; push %r14: probes that measure what one costs are at both. push %r13; push %r12;
  // push %rbp
  const absl::StatusOr<PatchSite> site =
      FindPatchSite(Code({0x41, 0x57, 0x41, 0x56, 0x41, 0x55, 0x41, 0x54, 0x55}), kAddress);
  ASSERT_TRUE(site.ok()) << site.status();
  EXPECT_EQ(site->address, kAddress + 4);
  EXPECT_EQ(site->size, 5);
  EXPECT_FALSE(site->HasInside(site->address));
  EXPECT_TRUE(site->HasInside(site->address + 1));
  EXPECT_TRUE(site->HasInside(site->address + 4));
  EXPECT_FALSE(site->HasInside(site->address + 5));
}

TEST(PatchSiteTest, LeavesEndbrAndWhatFollowsItAlone) {
  // endbr64; push %rbp; mov %rsp, %rbp; sub $0x20, %rsp
  const absl::StatusOr<PatchSite> site = FindPatchSite(
      Code({0xf3, 0x0f, 0x1e, 0xfa, 0x55, 0x48, 0x89, 0xe5, 0x48, 0x83, 0xec, 0x20}), kAddress);
  ASSERT_TRUE(site.ok()) << site.status();
  EXPECT_EQ(site->address, kAddress + 5);
  EXPECT_EQ(site->size, 7);
}

TEST(PatchSiteTest, LeavesALaterBeginAlone) {
  // sub $0x20, %rsp; push %rbp: the first that the kernel does itself; mov %rsp, %rbp; push %rbx;
  // sub $0x20, %rsp; mov %rdi, %rax
  const absl::StatusOr<PatchSite> site =
      FindPatchSite(Code({0x48, 0x83, 0xec, 0x20, 0x55, 0x48, 0x89, 0xe5, 0x53, 0x48, 0x83, 0xec,
                          0x20, 0x48, 0x89, 0xf8}),
                    kAddress);
  ASSERT_TRUE(site.ok()) << site.status();
  EXPECT_EQ(site->address, kAddress + 9);
}

TEST(PatchSiteTest, RefusesWhatCannotBeMoved) {
  // push %rbp; lea 16(%rip), %rax
  EXPECT_FALSE(FindPatchSite(Code({0x55, 0x48, 0x8d, 0x05, 16, 0, 0, 0}), kAddress).ok());
  // push %rbp; call
  EXPECT_FALSE(FindPatchSite(Code({0x55, 0xe8, 0, 0, 0, 0}), kAddress).ok());
  // push %rbp; push %rbx; push %rax; ret
  EXPECT_FALSE(FindPatchSite(Code({0x55, 0x53, 0x50, 0xc3}), kAddress).ok());
  EXPECT_FALSE(FindPatchSite({}, kAddress).ok());
}

TEST(PatchSiteTest, RefusesAPlaceThatIsJumpedInto) {
  // push %rbp; seven pushes; jmp to the fifth of them
  const absl::StatusOr<PatchSite> site =
      FindPatchSite(Code({0x55, 0x50, 0x50, 0x51, 0x52, 0x53, 0x56, 0x57, 0xeb, 0xfa}), kAddress);
  ASSERT_FALSE(site.ok());
  EXPECT_THAT(site.status().message(), HasSubstr("jumps into"));
}

TEST(PatchSiteTest, RefusesAPlaceInTwoPages) {
  const std::vector<uint8_t> code = Code({0x41, 0x57, 0x41, 0x56, 0x41, 0x55, 0x41, 0x54, 0x55});
  EXPECT_FALSE(FindPatchSite(code, kAddress - 6).ok());
  EXPECT_TRUE(FindPatchSite(code, kAddress - 4).ok());
}

TEST(PatchSiteTest, JumpsThereAndBack) {
  const absl::StatusOr<PatchSite> site =
      FindPatchSite(Code({0x55, 0x48, 0x89, 0xe5, 0x48, 0x83, 0xec, 0x20}), kAddress);
  ASSERT_TRUE(site.ok());
  const uint64_t stub_address = kAddress + 0x100000;
  const absl::StatusOr<std::vector<uint8_t>> jump = JumpTo(*site, stub_address);
  ASSERT_TRUE(jump.ok());
  ASSERT_EQ(jump->size(), site->size);
  int32_t distance = 0;
  std::memcpy(&distance, jump->data() + 1, sizeof(distance));
  EXPECT_EQ(site->address + 5 + static_cast<uint64_t>(distance), stub_address);
  const absl::StatusOr<std::vector<uint8_t>> stub = MakeStub(*site, stub_address, kAddress + 0x200);
  ASSERT_TRUE(stub.ok());
  std::memcpy(&distance, stub->data() + stub->size() - 4, sizeof(distance));
  EXPECT_EQ(stub_address + stub->size() + static_cast<uint64_t>(int64_t{distance}), site->end());
  EXPECT_TRUE(std::equal(site->original.begin(), site->original.begin() + site->size,
                         stub->end() - 5 - site->size));
  EXPECT_FALSE(JumpTo(*site, kAddress + (uint64_t{3} << 30)).ok());
}

Mapping Mapped(uint64_t start, uint64_t end, const char* path = "") {
  Mapping mapping;
  mapping.start = start;
  mapping.end = end;
  mapping.path = path;
  return mapping;
}

TEST(FindRoomTest, TakesTheNearestGapWithinReach) {
  PatchSite site;
  site.address = 0x7f00'1000'0000;
  site.size = 5;
  const uint64_t far_end = site.address - 0x1'0000'0000;
  EXPECT_EQ(FindRoom({Mapped(0x1000, far_end), Mapped(site.address - 0x1000, site.address + 0x1000),
                      Mapped(site.address + 0x1000, 0x7fff'ffff'f000)},
                     {site}),
            (site.address - 0x1000 - kRegionBytes - 0x10000) & ~uint64_t{4095});
  // None is near enough, or large enough.
  EXPECT_EQ(FindRoom({Mapped(0x1000, site.address + 0x1000),
                      Mapped(site.address + 0x2000, site.address + 0x8000'0000),
                      Mapped(site.address + 0x9000'0000, 0x7fff'ffff'f000)},
                     {site}),
            0u);
}

TEST(FindRoomTest, ThereIsRoomBelowAProgramWithItsHeapCloseBehind) {
  const uint64_t program = 0x5555'5000'0000;
  std::vector<Mapping> mappings = {Mapped(program, program + 0x5000),
                                   Mapped(program + 0x6000, program + 0x2'7000),
                                   Mapped(0x7fff'0000'0000, 0x7fff'0100'0000)};
  mappings[1].path = "[heap]";
  const uint64_t room = FindRoom(mappings, program + 0x1000, program + 0x2000, 0x8'0000);
  EXPECT_NE(room, 0u);
  EXPECT_LT(room + 0x8'0000, program);
  EXPECT_GT(room, program - 0x10'0000);
}

TEST(FindRoomTest, LeavesTheHeapItsRoom) {
  PatchSite site;
  site.address = 0x555500001000;
  site.size = 5;
  const uint64_t room = FindRoom(
      {Mapped(0x1000, 0x555500000000), Mapped(0x555500000000, 0x555500010000, "/bin/program"),
       Mapped(0x555500010000, 0x555500020000, "[heap]"), Mapped(0x555540000000, 0x555540001000)},
      {site});
  EXPECT_GT(room, 0x55553f000000u);
}

constexpr uint64_t kAvx512 = 0x2e7;  // with PKRU
constexpr uint64_t kTiles = uint64_t{3} << 17;

// As ptrace gives it: the components that there are, and those that are in use.
std::vector<uint8_t> StateArea(size_t bytes, uint64_t features, uint64_t used) {
  std::vector<uint8_t> area(bytes, 0xaa);
  std::memcpy(area.data() + 464, &features, sizeof(features));
  std::memcpy(area.data() + 512, &used, sizeof(used));
  return area;
}

// Returns the layout of Sapphire Rapids.
StateLayout LayoutWithTiles() {
  StateLayout layout;
  layout[2] = {576, 256};
  layout[5] = {1088, 64};
  layout[6] = {1152, 512};
  layout[7] = {1664, 1024};
  layout[9] = {2688, 8};
  layout[17] = {2752, 64};
  layout[18] = {2816, 8192};
  return layout;
}

template <typename T>
T At(const std::vector<uint8_t>& area, size_t offset) {
  T value{};
  std::memcpy(&value, area.data() + offset, sizeof(value));
  return value;
}

constexpr uint32_t kEndMagic = 0x46505845;

TEST(FrameStateTest, IsWhatTheThreadMayUse) {
  const auto state = MakeFrameState(StateArea(11008, kAvx512 | kTiles, 0x207), LayoutWithTiles());
  ASSERT_TRUE(state.ok()) << state.status();
  EXPECT_EQ(At<uint32_t>(*state, 464), 0x46505853u);
  EXPECT_EQ(At<uint32_t>(*state, 468), 2696u + 4);
  EXPECT_EQ(At<uint64_t>(*state, 472), kAvx512);
  EXPECT_EQ(At<uint32_t>(*state, 480), 2696u);
  for (const size_t end : {2696, 2816, 11008}) EXPECT_EQ(At<uint32_t>(*state, end), kEndMagic);
  EXPECT_EQ(state->size(), 11008u + 4);
  EXPECT_EQ((*state)[2695], 0xaa);
}

TEST(FrameStateTest, HasTilesWhereTheyAreUsed) {
  const auto state =
      MakeFrameState(StateArea(11008, kAvx512 | kTiles, 0x207 | kTiles), LayoutWithTiles());
  ASSERT_TRUE(state.ok()) << state.status();
  EXPECT_EQ(At<uint64_t>(*state, 472), kAvx512 | kTiles);
  EXPECT_EQ(At<uint32_t>(*state, 480), 11008u);
  EXPECT_EQ(At<uint32_t>(*state, 11008), kEndMagic);
  EXPECT_TRUE(std::all_of(state->begin() + 576, state->begin() + 11008,
                          [](uint8_t byte) { return byte == 0xaa; }));
}

TEST(FrameStateTest, IsTheWholeAreaWithoutTiles) {
  const auto state = MakeFrameState(StateArea(2696, kAvx512, 0x3), LayoutWithTiles());
  ASSERT_TRUE(state.ok()) << state.status();
  EXPECT_EQ(At<uint64_t>(*state, 472), kAvx512);
  EXPECT_EQ(At<uint32_t>(*state, 480), 2696u);
  EXPECT_EQ(At<uint32_t>(*state, 2696), kEndMagic);
  EXPECT_EQ(state->size(), 2696u + 4);
}

TEST(FrameStateTest, RefusesLessThanAnArea) {
  EXPECT_FALSE(MakeFrameState({}, LayoutWithTiles()).ok());
  EXPECT_FALSE(MakeFrameState(std::vector<uint8_t>(512), LayoutWithTiles()).ok());
}

class StackMemory final : public TargetMemory {
 public:
  bool Read(uint64_t address, void* buffer, size_t bytes) const override {
    if (address < kAddress || address - kAddress > sizeof(words)) return false;
    if (bytes > sizeof(words) - (address - kAddress)) return false;
    std::memcpy(buffer, reinterpret_cast<const uint8_t*>(words) + (address - kAddress), bytes);
    return true;
  }
  uint64_t words[512] = {};
};

TEST(ThreadChecksTest, AStackThatIsNotKnownIsInTheWay) {
  StackMemory memory;
  std::vector<StoppedThread> threads(1);
  threads[0].is_stopped = true;
  threads[0].registers.rsp = kAddress + 256;
  const auto goes_on = [&](uint64_t begin, uint64_t end) {
    Mapping stack;
    stack.start = begin;
    stack.end = end;
    return AnyThreadGoesOn(threads, {stack}, memory,
                           [](uint64_t address) { return address == 4711; });
  };
  EXPECT_FALSE(goes_on(kAddress, kAddress + 4096));
  EXPECT_TRUE(goes_on(kAddress + 4096, kAddress + 8192)) << "it has grown since";
  EXPECT_TRUE(goes_on(kAddress - 4096, kAddress)) << "another one lies below";
  EXPECT_FALSE(goes_on(kAddress, kAddress + 8192)) << "a guard lies behind it";
  threads[0].registers.rsp = kAddress + 4096 + 256;
  EXPECT_TRUE(goes_on(kAddress, kAddress + 8192)) << "it cannot be read";
  threads[0].registers.rsp = kAddress + 256;
  // As a signal's frame has it: where it goes on, flags, code segment.
  memory.words[100] = 4711;
  memory.words[101] = 0x202;
  memory.words[102] = 0x33;
  EXPECT_TRUE(goes_on(kAddress, kAddress + 4096));
  threads[0].is_gone = true;
  EXPECT_FALSE(goes_on(kAddress + 4096, kAddress + 8192));
}

seccomp_data Call(int number) {
  seccomp_data call{};
  call.nr = number;
  call.arch = AUDIT_ARCH_X86_64;
  return call;
}

TEST(SeccompFilterTest, RunsAFilter) {
  const std::vector<sock_filter> filter = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, arch)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, AUDIT_ARCH_X86_64, 1, 0),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mmap, 0, 3),
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, args[2])),
      BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, 4, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  seccomp_data call = Call(SYS_mmap);
  EXPECT_EQ(RunSeccompFilter(filter, call), SECCOMP_RET_ALLOW);
  call.args[2] = 5;
  EXPECT_EQ(RunSeccompFilter(filter, call), SECCOMP_RET_ERRNO | 1);
  EXPECT_EQ(RunSeccompFilter(filter, Call(SYS_read)), SECCOMP_RET_ALLOW);
  call.arch = AUDIT_ARCH_I386;
  EXPECT_EQ(RunSeccompFilter(filter, call), SECCOMP_RET_KILL_PROCESS);

  const FilteredCall calls[] = {{SYS_read, "read", {}}, {SYS_mmap, "mmap of code", {0, 0, 5}}};
  EXPECT_TRUE(CheckSeccomp({filter}, {calls, 1}, 0).ok());
  EXPECT_THAT(CheckSeccomp({filter}, calls, 0).message(), HasSubstr("mmap of code"));
  EXPECT_TRUE(CheckSeccomp({}, calls, 0).ok());
}

TEST(SeccompFilterTest, ComputesAndRemembers) {
  const std::vector<sock_filter> filter = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_STMT(BPF_ST, 3),
      BPF_STMT(BPF_ALU | BPF_LSH | BPF_K, 4),
      BPF_STMT(BPF_MISC | BPF_TAX, 0),
      BPF_STMT(BPF_LD | BPF_MEM, 3),
      BPF_STMT(BPF_ALU | BPF_ADD | BPF_X, 0),
      BPF_STMT(BPF_RET | BPF_A, 0),
  };
  EXPECT_EQ(RunSeccompFilter(filter, Call(10)), 170u);
}

TEST(SeccompFilterTest, RefusesWhatTheKernelWouldNotHaveTaken) {
  const std::vector<sock_filter> outside = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, 64)};
  EXPECT_EQ(RunSeccompFilter(outside, Call(1)), SECCOMP_RET_KILL_PROCESS);
  const std::vector<sock_filter> no_end = {BPF_STMT(BPF_LD | BPF_IMM, 1)};
  EXPECT_EQ(RunSeccompFilter(no_end, Call(1)), SECCOMP_RET_KILL_PROCESS);
  const std::vector<sock_filter> beyond = {BPF_JUMP(BPF_JMP | BPF_JA, 1000, 0, 0)};
  EXPECT_EQ(RunSeccompFilter(beyond, Call(1)), SECCOMP_RET_KILL_PROCESS);
}

TEST(SeccompFilterTest, AnErrorIsNoHarmWhereItMayBe) {
  const auto always = [](uint32_t action) {
    return std::vector<sock_filter>{BPF_STMT(BPF_RET | BPF_K, action)};
  };
  const FilteredCall may_fail[] = {{SYS_clone3, "clone3", {}, true}};
  const FilteredCall must_not[] = {{SYS_clone3, "clone3", {}}};
  EXPECT_TRUE(CheckSeccomp({always(SECCOMP_RET_ERRNO | ENOSYS)}, may_fail, 0).ok());
  EXPECT_FALSE(CheckSeccomp({always(SECCOMP_RET_ERRNO | ENOSYS)}, must_not, 0).ok());
  EXPECT_FALSE(CheckSeccomp({always(SECCOMP_RET_KILL_PROCESS)}, may_fail, 0).ok());
  EXPECT_FALSE(CheckSeccomp({always(SECCOMP_RET_TRAP)}, may_fail, 0).ok());
}

TEST(StackRoomTest, OnlyAMappingThatIsAStackHasRoom) {
  const std::vector<Mapping> mappings = ParseMaps(
      "10000000-10100000 rw-p 00000000 00:00 0 [heap]\n"
      "7f0000000000-7f0000021000 rw-p 00000000 00:00 0\n"
      "7f0000021000-7f0004000000 ---p 00000000 00:00 0\n"
      "7f0004000000-7f0004021000 rw-p 00000000 00:00 0\n"
      "7f0004021000-7f0008000000 ---p 00000000 00:00 0\n"
      "7f0010000000-7f0010001000 ---p 00000000 00:00 0\n"
      "7f0010001000-7f0010801000 rw-p 00000000 00:00 0\n"
      "7f0020000000-7f0020001000 ---p 00000000 08:01 7 /a.so\n"
      "7f0020001000-7f0020801000 rw-p 00000000 08:01 7 /a.so\n"
      "7ffc00000000-7ffc00021000 rw-p 00000000 00:00 0 [stack]\n");
  const auto stands = [&mappings](uint64_t rsp) {
    StoppedThread thread;
    thread.registers.rsp = rsp;
    return StandsOnItsOwnStack(thread, mappings);
  };
  EXPECT_TRUE(stands(0x7ffc00020000));
  EXPECT_FALSE(stands(0x7ffc00002000)) << "hardly any room";
  EXPECT_TRUE(stands(0x7f0010800f00)) << "above a page that nobody may touch";
  EXPECT_FALSE(stands(0x7f0010002000)) << "hardly any room";
  EXPECT_FALSE(stands(0x10080000)) << "the heap";
  EXPECT_FALSE(stands(0x7f0000020000)) << "an arena";
  EXPECT_FALSE(stands(0x7f0004020000)) << "an arena behind the rest of another";
  EXPECT_FALSE(stands(0x7f0020800000)) << "a file's data";
  EXPECT_FALSE(stands(0x7fff00000000)) << "nothing";
}

TEST(TracePermissionTest, SaysWhy) {
  constexpr Pid kPid{4711};
  TraceFacts facts{.own_user = 1000, .target_user = 0, .error = 13};
  const auto text = [&facts] {
    const absl::Status status = TraceRefusal(kPid, facts);
    EXPECT_EQ(ExitCodeOf(status), ExitCode::kNotPermitted);
    EXPECT_THAT(status.message(), HasSubstr("PID 4711"));
    return std::string(status.message());
  };
  EXPECT_THAT(text(), HasSubstr("belongs to user 0"));
  facts.target_user = 1000;
  facts.is_dumpable = false;
  facts.ptrace_scope = 1;
  EXPECT_THAT(text(), HasSubstr("PR_SET_DUMPABLE"));
  facts.is_dumpable = true;
  EXPECT_THAT(text(), HasSubstr("kernel.yama.ptrace_scope is 1 and lets only parents"));
  EXPECT_THAT(text(), HasSubstr("PR_SET_PTRACER"));
  facts.ptrace_scope = 2;
  EXPECT_THAT(text(), HasSubstr("ptrace_scope is 2: only root"));
  facts.ptrace_scope = 0;
  EXPECT_THAT(text(), HasSubstr("capabilities"));
  EXPECT_THAT(text(), HasSubstr("Permission denied"));
  // Root is refused for other reasons.
  facts = {.own_user = 0, .target_user = 1000, .is_dumpable = false, .error = 1};
  EXPECT_THAT(text(), HasSubstr("Operation not permitted"));
}

TEST(TracePermissionTest, OnesOwnProcessIsFine) {
  EXPECT_TRUE(CheckTraceable(Pid{static_cast<uint32_t>(getpid())}).ok());
}

}  // namespace
}  // namespace proftrace
