#include "userspace/inject/remote_calls.h"

#include <elf.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include <cerrno>
#include <string>
#include <utility>
#include <vector>

#include "symbols/process/process_maps.h"
#include "userspace/base/clock.h"
#include "userspace/base/exit_status.h"
#include "userspace/inject/frame_state.h"
#include "userspace/inject/restartable_sequence.h"

namespace proftrace {
namespace {

constexpr int64_t kCallLimitNs = 2'000'000'000;
constexpr int kSpins = 50;  // looks without a pause, because most calls return within microseconds
constexpr useconds_t kLookUs = 20;
constexpr uint64_t kRedZoneBytes = 256;  // twice the ABI's red zone
constexpr uint64_t kDirectionFlag = 0x400;

// The kernel's internal results of a call that a stop has interrupted (include/linux/errno.h).
constexpr int64_t kRestartSys = -512;
constexpr int64_t kRestartNoIntr = -513;
constexpr int64_t kRestartNoHand = -514;
constexpr int64_t kRestartBlock = -516;
constexpr uint64_t kSyscallInstructionBytes = 2;

// A signal's frame in the kernel's layout (arch/x86/include/uapi/asm/sigcontext.h, ucontext.h),
// from which rt_sigreturn restores the thread.
struct FrameContext {
  uint64_t flags;
  uint64_t link;
  uint64_t stack_pointer;  // of the alternate stack
  uint64_t stack_flags;
  uint64_t stack_size;
  uint64_t r8, r9, r10, r11, r12, r13, r14, r15, rdi, rsi, rbp, rbx, rdx, rax, rcx, rsp, rip;
  uint64_t eflags;
  uint16_t cs, gs, fs, ss;
  uint64_t error, trap, old_mask, cr2;
  uint64_t fp_state;
  uint64_t reserved[8];
  uint64_t signals;
};
static_assert(sizeof(FrameContext) == 304);

// The flags of the frame: it has XSAVE state, and the stack segment is valid (UC_FP_XSTATE,
// UC_SIGCONTEXT_SS, UC_STRICT_RESTORE_SS).
constexpr uint64_t kContextFlags = 7;
// This value is no valid ss_flags, so the alternate stack stays as it is.
constexpr uint64_t kKeepAlternateStack = 0x7fff;

absl::Status Gone(int tid) {
  const std::string thread = "thread " + std::to_string(tid);
  if (!ThreadHasEnded(static_cast<uint32_t>(tid)))
    return absl::UnavailableError(thread + " goes on, though it was stopped");
  return Fail(ExitCode::kNoTarget, thread + " ended while it was stopped");
}

}  // namespace

absl::Status RemoteCalls::PlaceReturnFrame(const WritableMemory& memory) {
  std::vector<uint8_t> area(size_t{1} << 16);
  iovec io{area.data(), area.size()};
  if (ptrace(PTRACE_GETREGSET, tid_, NT_X86_XSTATE, &io) != 0) io.iov_len = 0;
  area.resize(io.iov_len);
  // Cached, because cpuid is slow under a hypervisor.
  static const StateLayout layout = ReadStateLayout();
  const absl::StatusOr<std::vector<uint8_t>> state = MakeFrameState(std::move(area), layout);
  if (!state.ok()) return state.status();

  user_regs_struct back = saved_;
  // A system call that the stop has interrupted is made again from its beginning, because
  // rt_sigreturn forgets how much of a time-out had passed.
  const auto result = static_cast<int64_t>(back.rax);
  const bool was_interrupted = result == kRestartSys || result == kRestartNoIntr ||
                               result == kRestartNoHand || result == kRestartBlock;
  if (static_cast<int64_t>(back.orig_rax) >= 0 && was_interrupted) {
    back.rax = back.orig_rax;
    back.rip -= kSyscallInstructionBytes;
  }
  const uint64_t fp_address = (saved_.rsp - kRedZoneBytes - state->size() - 64) & ~uint64_t{63};
  frame_ = ((fp_address - 1024) & ~uint64_t{15}) - sizeof(uint64_t);
  static_assert(sizeof(uint64_t) + sizeof(FrameContext) <= kScratchOffset &&
                kScratchOffset + kScratchBytes <= 1024);
  FrameContext context{};
  context.flags = kContextFlags;
  context.stack_flags = kKeepAlternateStack;
  context.r8 = back.r8;
  context.r9 = back.r9;
  context.r10 = back.r10;
  context.r11 = back.r11;
  context.r12 = back.r12;
  context.r13 = back.r13;
  context.r14 = back.r14;
  context.r15 = back.r15;
  context.rdi = back.rdi;
  context.rsi = back.rsi;
  context.rbp = back.rbp;
  context.rbx = back.rbx;
  context.rdx = back.rdx;
  context.rax = back.rax;
  context.rcx = back.rcx;
  context.rsp = back.rsp;
  context.rip = back.rip;
  context.eflags = back.eflags;
  context.cs = static_cast<uint16_t>(back.cs);
  context.ss = static_cast<uint16_t>(back.ss);
  context.fp_state = fp_address;
  context.signals = signals_;
  if (!memory.Write(fp_address, state->data(), state->size()) ||
      !memory.WriteValue(frame_, places_.restorer) ||
      !memory.WriteValue(frame_ + sizeof(uint64_t), context)) {
    return absl::UnavailableError("a thread's stack has no room for a return frame");
  }
  return absl::OkStatus();
}

absl::StatusOr<RemoteCalls> RemoteCalls::Begin(const StoppedThread& thread,
                                               const WritableMemory& memory,
                                               const SystemCallPlaces& places) {
  RemoteCalls calls(thread, places);
  LeaveRestartableSequence(calls.tid_, memory, &calls.saved_);
  if (ptrace(PTRACE_GETSIGMASK, calls.tid_, sizeof(calls.signals_), &calls.signals_) != 0) {
    return Gone(calls.tid_);
  }
  if (absl::Status status = calls.PlaceReturnFrame(memory); !status.ok()) return status;
  // From here on the thread would return through the frame. The registers are set first, then the
  // mask.
  user_regs_struct registers = calls.saved_;
  registers.rip = places.call + kSyscallInstructionBytes;
  registers.rsp = calls.frame_;
  registers.orig_rax = ~uint64_t{0};
  registers.eflags &= ~kDirectionFlag;
  if (ptrace(PTRACE_SETREGS, calls.tid_, nullptr, &registers) != 0) return Gone(calls.tid_);
  calls.is_active_ = true;
  // A signal handler's system calls would be taken for ours.
  const uint64_t all = ~uint64_t{0};
  if (ptrace(PTRACE_SETSIGMASK, calls.tid_, sizeof(all), &all) != 0) return Gone(calls.tid_);
  return calls;
}

RemoteCalls::RemoteCalls(RemoteCalls&& other) noexcept
    : tid_(other.tid_),
      saved_(other.saved_),
      places_(other.places_),
      frame_(other.frame_),
      signals_(other.signals_),
      is_active_(std::exchange(other.is_active_, false)) {}

RemoteCalls::~RemoteCalls() {
  if (!is_active_) return;
  // If the mask cannot be put back, the thread returns through the frame, which has both the mask
  // and the registers.
  if (ptrace(PTRACE_SETSIGMASK, tid_, sizeof(signals_), &signals_) != 0) return;
  ptrace(PTRACE_SETREGS, tid_, nullptr, &saved_);
}

absl::StatusOr<int64_t> RemoteCalls::Call(long number, const std::array<uint64_t, 6>& arguments) {
  user_regs_struct registers = saved_;
  registers.rip = places_.call;
  registers.rsp = frame_;
  registers.orig_rax = ~uint64_t{0};
  registers.eflags &= ~kDirectionFlag;
  registers.rax = static_cast<uint64_t>(number);
  registers.rdi = arguments[0];
  registers.rsi = arguments[1];
  registers.rdx = arguments[2];
  registers.r10 = arguments[3];
  registers.r8 = arguments[4];
  registers.r9 = arguments[5];
  if (ptrace(PTRACE_SETREGS, tid_, nullptr, &registers) != 0) return Gone(tid_);
  // The thread runs to the call's entry, then to its exit, and by an interrupt to a stop of its
  // own. Only in such a stop may registers be put back that contain an interrupted call.
  enum { kToEntry, kToExit, kToStop } phase = kToEntry;
  ptrace(PTRACE_SYSCALL, tid_, nullptr, nullptr);
  const int64_t deadline_ns = MonotonicNs() + kCallLimitNs;
  int looks = 0;
  while (true) {
    int status = 0;
    const pid_t got = waitpid(tid_, &status, __WALL | __WNOTHREAD | WNOHANG);
    if (got == 0) {
      if (MonotonicNs() > deadline_ns) {
        return absl::UnavailableError("a system call in the target did not return in time");
      }
      // On a busy machine the thread may be waiting for this very processor.
      if (++looks > kSpins) usleep(kLookUs);
      continue;
    }
    looks = 0;
    if (got < 0 || !WIFSTOPPED(status)) {
      is_active_ = false;
      return Gone(tid_);
    }
    const int event = status >> 16;
    const int signal = WSTOPSIG(status);
    if (event == PTRACE_EVENT_STOP && phase == kToStop) break;
    if (event == 0 && signal == (SIGTRAP | 0x80)) {
      if (phase == kToEntry) {
        phase = kToExit;
        ptrace(PTRACE_SYSCALL, tid_, nullptr, nullptr);
        continue;
      }
      // If the interrupt fails, the thread returns through its frame: its registers may not be put
      // back here, nor later, when it has gone on.
      if (ptrace(PTRACE_GETREGS, tid_, nullptr, &registers) != 0 ||
          ptrace(PTRACE_INTERRUPT, tid_, nullptr, nullptr) != 0) {
        is_active_ = false;
        return Gone(tid_);
      }
      phase = kToStop;
      ptrace(PTRACE_CONT, tid_, nullptr, nullptr);
      continue;
    }
    // Signals are blocked. Stops that still come (a group stop, SIGKILL) are let through; such a
    // stop cancels a pending interrupt, which is therefore sent again.
    const long give = event == 0 ? signal : 0;
    if (phase == kToStop) ptrace(PTRACE_INTERRUPT, tid_, nullptr, nullptr);
    ptrace(phase == kToStop ? PTRACE_CONT : PTRACE_SYSCALL, tid_, nullptr, give);
  }
  return static_cast<int64_t>(registers.rax);
}

}  // namespace proftrace
