#include "userspace/inject/trace_permission.h"

#include <sys/stat.h>
#include <unistd.h>

#include <string>

#include "symbols/plan/process.h"
#include "symbols/process/process_maps.h"
#include "userspace/base/exit_status.h"
#include "userspace/base/own_path.h"
#include "userspace/base/text.h"
#include "userspace/inject/writable_memory.h"

namespace proftrace {
namespace {

constexpr char kPtraceScope[] = "/proc/sys/kernel/yama/ptrace_scope";
constexpr size_t kMostStatusBytes = 8192;

std::string RunAsRoot() { return "run 'sudo " + OwnPath() + "'"; }

std::string ScopeText(int scope) {
  const std::string is = "the sysctl kernel.yama.ptrace_scope is " + std::to_string(scope);
  if (scope == 1) {
    return is +
           " and lets only parents trace a process: set it to 0, or have the job call "
           "prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY)";
  }
  return is + (scope == 2 ? ": only root may" : ": nobody may until the next boot");
}

}  // namespace

absl::Status TraceRefusal(Pid pid, const TraceFacts& facts) {
  const std::string who = "PID " + std::to_string(Raw(pid));
  if (facts.own_user != 0 && facts.own_user != facts.target_user) {
    return Fail(ExitCode::kNotPermitted,
                who + " belongs to user " + std::to_string(facts.target_user) +
                    ": this user may record his own processes only; " + RunAsRoot());
  }
  if (facts.own_user != 0 && !facts.is_dumpable) {
    return Fail(ExitCode::kNotPermitted,
                who +
                    " does not let its own user look into it (prctl PR_SET_DUMPABLE, or a program "
                    "that gives rights); " +
                    RunAsRoot());
  }
  if (facts.ptrace_scope.value_or(0) > 0) {
    return Fail(ExitCode::kNotPermitted,
                who + " may not be traced by this user: " + ScopeText(*facts.ptrace_scope));
  }
  return Fail(ExitCode::kNotPermitted,
              "the memory of " + who +
                  " may not be written (ptrace access is needed; it may have capabilities that "
                  "this user has not, or be in another user namespace): " +
                  ErrnoText(facts.error));
}

absl::Status TraceRefusal(Pid pid, int error) {
  const std::string folder = "/proc/" + std::to_string(Raw(pid));
  TraceFacts facts;
  facts.error = error;
  facts.own_user = geteuid();
  facts.target_user = facts.own_user;
  const std::string status = ReadSmallFile(folder + "/status", kMostStatusBytes);
  // The file has the real, effective and saved user, and that of the file system.
  const auto users = SplitText(StatusValue(status, "Uid"), "\t ", /*skip_empty=*/true);
  if (users.size() > 1) {
    facts.target_user = ParseNumber<uint32_t>(users[1]).value_or(facts.own_user);
  }
  // If a process is not dumpable, its files in /proc belong to root (proc(5)).
  struct stat entry {};
  facts.is_dumpable =
      stat((folder + "/stat").c_str(), &entry) != 0 || entry.st_uid == facts.target_user;
  facts.ptrace_scope = ParseNumber<int>(StripBlanks(ReadSmallFile(kPtraceScope, 16)));
  return TraceRefusal(pid, facts);
}

absl::Status CheckTraceable(Pid pid) { return WritableMemory::Open(pid).status(); }

}  // namespace proftrace
