#include "userspace/sandbox/confined.h"

#include <fcntl.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <utility>

#include "userspace/base/exit_status.h"
#include "userspace/base/standard_output.h"
#include "userspace/base/unique_fd.h"
#include "userspace/sandbox/filter.h"
#include "userspace/sandbox/rights.h"

namespace proftrace {
namespace {

// The limit for work on results, which takes an hour for a capture of one day of a busy job.
constexpr int64_t kMostCpuSeconds = 12 * 3600;
// A child that shows a recording runs as long as the recording.
constexpr int64_t kMostViewerCpuSeconds = int64_t{365} * 24 * 3600;
constexpr size_t kMostMessageBytes = size_t{1} << 20;

// The head of the report that the child writes before it ends. The message follows.
struct Report {
  int32_t code = 0;
  uint32_t was_told = 0;
};

void Confine(const Confinement& confinement) {
  NoNewRights();
  LimitUse(confinement.is_viewer ? kMostViewerCpuSeconds : kMostCpuSeconds);
  // Without Landlock only the file system's permissions limit the child, and they do not limit
  // root.
  LimitReach(confinement.reach);
  if (confinement.gives_files) {
    DropCapabilities({CAP_DAC_OVERRIDE, CAP_CHOWN});
  } else {
    DropCapabilities({CAP_DAC_OVERRIDE});
  }
  LimitSystemCalls(confinement.is_viewer     ? SystemCalls::kShowing
                   : confinement.makes_files ? SystemCalls::kMakingFiles
                                             : SystemCalls::kReadingFiles);
}

std::string ReadAll(int fd) {
  std::string bytes;
  char part[4096];
  while (bytes.size() < kMostMessageBytes) {
    const ssize_t got = read(fd, part, sizeof(part));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) break;
    bytes.append(part, static_cast<size_t>(got));
  }
  return bytes;
}

absl::Status RunGuarded(const std::function<absl::Status()>& work) {
  try {
    return work();
  } catch (const std::exception& error) {
    return Fail(ExitCode::kBug,
                std::string(error.what()) + "; this is a bug of proftrace: please report it");
  }
}

[[noreturn]] void RunChild(const Confinement& confinement,
                           const std::function<absl::Status()>& work, pid_t parent, int report_fd) {
  if (!confinement.is_viewer) prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(static_cast<int>(ExitCode::kBug));
  Confine(confinement);
  absl::Status status = RunGuarded(work);
  status.Update(FlushStandardOutput());
  std::fflush(nullptr);
  const Report report{static_cast<int32_t>(ExitCodeOf(status)), WasTold(status) ? 1u : 0u};
  std::string bytes(sizeof(report), '\0');
  std::memcpy(bytes.data(), &report, sizeof(report));
  bytes.append(status.message().data(), status.message().size());
  (void)WriteFully(report_fd, bytes);
  // _exit() skips the exit handlers, which are the parent's to run.
  _exit(0);
}

absl::Status EndOf(const Confinement& confinement, int state) {
  const std::string who = "the process that " + confinement.what;
  if (WIFEXITED(state) && WEXITSTATUS(state) != 0) {  // the child has printed why
    return Told(Fail(static_cast<ExitCode>(WEXITSTATUS(state)), who + " ended"));
  }
  const int signal = WIFSIGNALED(state) ? WTERMSIG(state) : 0;
  RaiseIfMeant(signal);
  if (signal == SIGKILL) {
    return Fail(ExitCode::kHostUnfit,
                who + " was killed; where it was the kernel, for want of memory, dmesg says so. " +
                    confinement.advice);
  }
  if (signal == SIGXCPU) {
    return Fail(ExitCode::kHostUnfit, who + " was stopped after " +
                                          std::to_string(kMostCpuSeconds / 3600) +
                                          " hours of processor time. " + confinement.advice);
  }
  // The command adds to each failure of this code that it is a bug.
  return Fail(ExitCode::kBug, who + " ended by " + (signal != 0 ? strsignal(signal) : "mistake") +
                                  ", which no input should bring about. " + confinement.advice);
}

}  // namespace

void RaiseIfMeant(int signal) {
  if (signal != SIGPIPE && signal != SIGINT && signal != SIGTERM && signal != SIGHUP) return;
  std::signal(signal, SIG_DFL);
  raise(signal);
}

absl::StatusOr<ConfinedChild> ConfinedChild::Start(const Confinement& confinement,
                                                   const std::function<absl::Status()>& work) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return NoMoreDescriptors(errno);
  UniqueFd reads(ends[0]);
  const UniqueFd writes(ends[1]);
  std::fflush(nullptr);
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child < 0) return NoMoreProcesses(errno);
  if (child == 0) RunChild(confinement, work, parent, writes.get());
  return ConfinedChild(confinement, child, std::move(reads));
}

absl::Status ConfinedChild::Wait() {
  const std::string bytes = ReadAll(reports_.get());
  int state = 0;
  while (waitpid(pid_, &state, 0) < 0 && errno == EINTR) {
  }
  Report report;
  if (bytes.size() < sizeof(report)) return EndOf(confinement_, state);
  std::memcpy(&report, bytes.data(), sizeof(report));
  if (report.code == 0) return absl::OkStatus();
  absl::Status status = Fail(static_cast<ExitCode>(report.code), bytes.substr(sizeof(report)));
  return report.was_told != 0 ? Told(std::move(status)) : status;
}

absl::Status RunConfined(const Confinement& confinement,
                         const std::function<absl::Status()>& work) {
  absl::StatusOr<ConfinedChild> child = ConfinedChild::Start(confinement, work);
  return child.ok() ? child->Wait() : child.status();
}

}  // namespace proftrace
