#include "userspace/inject/seccomp_filter.h"

#include <linux/audit.h>
#include <sys/ptrace.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

#include "symbols/process/process_maps.h"
#include "userspace/base/exit_status.h"
#include "userspace/inject/filter_kinship.h"
#include "userspace/inject/filter_trials.h"

namespace proftrace {
namespace {

constexpr size_t kMostFilters = 64;  // the kernel limits their instructions to 32768 in all
constexpr uint32_t kRefused = SECCOMP_RET_KILL_PROCESS;

uint32_t Compute(uint16_t code, uint32_t a, uint32_t b) {
  switch (BPF_OP(code)) {
    case BPF_ADD:
      return a + b;
    case BPF_SUB:
      return a - b;
    case BPF_MUL:
      return a * b;
    case BPF_DIV:
      return b == 0 ? 0 : a / b;
    case BPF_OR:
      return a | b;
    case BPF_AND:
      return a & b;
    case BPF_LSH:
      return b >= 32 ? 0 : a << b;
    case BPF_RSH:
      return b >= 32 ? 0 : a >> b;
    case BPF_XOR:
      return a ^ b;
    default:  // BPF_NEG
      return 0 - a;
  }
}

bool Compare(uint16_t code, uint32_t a, uint32_t b) {
  switch (BPF_OP(code)) {
    case BPF_JEQ:
      return a == b;
    case BPF_JGT:
      return a > b;
    case BPF_JGE:
      return a >= b;
    default:  // BPF_JSET
      return (a & b) != 0;
  }
}

int NumberInStatus(Pid pid, int tid, std::string_view name) {
  const std::string status = ReadSmallFile(
      "/proc/" + std::to_string(Raw(pid)) + "/task/" + std::to_string(tid) + "/status", 8192);
  return std::atoi(std::string(StatusValue(status, name)).c_str());
}

constexpr char kRuntimeDefault[] = "runtime-default";

std::atomic<bool> g_is_runtime_default{false};

absl::Status Unreadable() {
  return Fail(ExitCode::kNotPermitted,
              "its seccomp filter, which might kill it for the system calls of an injection, "
              "cannot be read: that takes CAP_SYS_ADMIN, and a proftrace that has no filter itself "
              "(on the host, or in a privileged container). Where the filter is the default "
              "profile of Docker, Podman, containerd or CRI-O, say --seccomp=runtime-default");
}

bool HasFilters(Pid pid) {
  const std::vector<uint32_t> threads =
      ReadNumberedEntries("/proc/" + std::to_string(Raw(pid)) + "/task");
  return std::any_of(threads.begin(), threads.end(),
                     [pid](uint32_t tid) { return SeccompMode(pid, static_cast<int>(tid)) > 0; });
}

// Fails if a thread has more than one filter: a container's runtime sets one, so others are the
// job's own.
absl::Status CheckOneFilter(Pid pid) {
  const std::string folder = "/proc/" + std::to_string(Raw(pid)) + "/task";
  for (const uint32_t tid : ReadNumberedEntries(folder)) {
    const int count = SeccompFilterCount(pid, static_cast<int>(tid));
    if (count <= 1) continue;
    return Fail(ExitCode::kNotPermitted,
                "it has " + std::to_string(count) +
                    " seccomp filters, of which the default profile of a container's runtime is "
                    "one: what the others do to the system calls of an injection is not known");
  }
  return absl::OkStatus();
}

// Checks the calls for filters that cannot be read: by trial if this process has the same filters,
// else by the profile that the user has stated.
absl::Status CheckUnreadFilters(Pid pid, std::span<const FilteredCall> calls) {
  if (HasOwnFilters(pid)) return TryCalls(calls);
  if (!IsRuntimeDefaultStated()) return Unreadable();
  if (absl::Status status = CheckOneFilter(pid); !status.ok()) return status;
  // A proftrace that has a filter itself is taken to have the same profile, and tries the calls.
  const bool is_filtered = SeccompMode(Pid{static_cast<uint32_t>(getpid())}, getpid()) > 0;
  return is_filtered ? TryCalls(calls) : absl::OkStatus();
}

}  // namespace

uint32_t RunSeccompFilter(std::span<const sock_filter> filter, const seccomp_data& call) {
  std::array<uint32_t, BPF_MEMWORDS> memory{};
  uint32_t a = 0;
  uint32_t x = 0;
  // The loop ends because a filter's jumps only lead forward.
  for (size_t at = 0; at < filter.size(); ++at) {
    const sock_filter& code = filter[at];
    const uint32_t operand = BPF_SRC(code.code) == BPF_X ? x : code.k;
    switch (BPF_CLASS(code.code)) {
      case BPF_LD:
      case BPF_LDX: {
        uint32_t value = code.k;
        if (BPF_MODE(code.code) == BPF_ABS) {
          if (code.k > sizeof(call) - sizeof(value)) return kRefused;
          std::memcpy(&value, reinterpret_cast<const char*>(&call) + code.k, sizeof(value));
        } else if (BPF_MODE(code.code) == BPF_MEM) {
          if (code.k >= memory.size()) return kRefused;
          value = memory[code.k];
        } else if (BPF_MODE(code.code) == BPF_LEN) {
          value = sizeof(call);
        }
        (BPF_CLASS(code.code) == BPF_LD ? a : x) = value;
        break;
      }
      case BPF_ST:
      case BPF_STX:
        if (code.k >= memory.size()) return kRefused;
        memory[code.k] = BPF_CLASS(code.code) == BPF_ST ? a : x;
        break;
      case BPF_ALU:
        a = Compute(code.code, a, operand);
        break;
      case BPF_JMP:
        at += BPF_OP(code.code) == BPF_JA      ? code.k
              : Compare(code.code, a, operand) ? code.jt
                                               : code.jf;
        break;
      case BPF_RET:
        return BPF_RVAL(code.code) == BPF_A ? a : code.k;
      default:  // BPF_MISC
        (BPF_MISCOP(code.code) == BPF_TAX ? x : a) = BPF_MISCOP(code.code) == BPF_TAX ? a : x;
        break;
    }
  }
  return kRefused;
}

bool MayReadSeccompFilters() {
  constexpr int kSysAdmin = 21;  // CAP_SYS_ADMIN
  const std::string status = ReadSmallFile("/proc/self/status", 8192);
  const uint64_t effective =
      std::strtoull(std::string(StatusValue(status, "CapEff")).c_str(), nullptr, 16);
  return (effective >> kSysAdmin & 1) != 0 && StatusValue(status, "Seccomp") == "0";
}

absl::Status CheckFiltersUnseen(Pid pid, std::span<const FilteredCall> calls) {
  return MayReadSeccompFilters() || !HasFilters(pid) ? absl::OkStatus()
                                                     : CheckUnreadFilters(pid, calls);
}

bool AreFiltersKnown(Pid pid) {
  return MayReadSeccompFilters() || !HasFilters(pid) || HasOwnFilters(pid) ||
         IsRuntimeDefaultStated();
}

bool StateSeccomp(const std::string& profile) {
  if (profile != kRuntimeDefault) return false;
  g_is_runtime_default.store(true);
  return true;
}

bool IsRuntimeDefaultStated() { return g_is_runtime_default.load(); }

absl::StatusOr<std::vector<std::vector<sock_filter>>> ReadSeccompFilters(int tid) {
  std::vector<std::vector<sock_filter>> filters;
  for (size_t index = 0; index < kMostFilters; ++index) {
    const long count = ptrace(PTRACE_SECCOMP_GET_FILTER, tid, index, nullptr);
    if (count < 0 && errno == ENOENT) return filters;
    if (count < 0) {
      return Unreadable();
    }
    std::vector<sock_filter>& filter = filters.emplace_back(static_cast<size_t>(count));
    if (ptrace(PTRACE_SECCOMP_GET_FILTER, tid, index, filter.data()) != count) {
      return Fail(ExitCode::kNotPermitted, "its seccomp filter cannot be read");
    }
  }
  return Fail(ExitCode::kNotPermitted, "it has more seccomp filters than are looked at");
}

int SeccompMode(Pid pid, int tid) { return NumberInStatus(pid, tid, "Seccomp"); }

int SeccompFilterCount(Pid pid, int tid) { return NumberInStatus(pid, tid, "Seccomp_filters"); }

absl::Status CheckSeccomp(const std::vector<std::vector<sock_filter>>& filters,
                          std::span<const FilteredCall> calls, uint64_t instruction) {
  for (const FilteredCall& call : calls) {
    seccomp_data data{};
    data.nr = static_cast<int>(call.number);
    data.arch = AUDIT_ARCH_X86_64;
    data.instruction_pointer = instruction;
    for (size_t i = 0; i < call.arguments.size(); ++i) data.args[i] = call.arguments[i];
    for (const std::vector<sock_filter>& filter : filters) {
      const uint32_t action = RunSeccompFilter(filter, data) & SECCOMP_RET_ACTION_FULL;
      if (action == SECCOMP_RET_ALLOW || action == SECCOMP_RET_LOG) continue;
      if (action == SECCOMP_RET_ERRNO && call.may_fail) continue;
      return Fail(ExitCode::kNotPermitted, std::string("its seccomp filter does not allow ") +
                                               call.name + ", which an injection needs");
    }
  }
  return absl::OkStatus();
}

absl::Status CheckSeccompOf(Pid pid, int tid, std::span<const FilteredCall> calls,
                            uint64_t instruction) {
  if (SeccompMode(pid, tid) == 0) return absl::OkStatus();
  if (!MayReadSeccompFilters()) return CheckUnreadFilters(pid, calls);
  const absl::StatusOr<std::vector<std::vector<sock_filter>>> filters = ReadSeccompFilters(tid);
  return filters.ok() ? CheckSeccomp(*filters, calls, instruction) : filters.status();
}

}  // namespace proftrace
